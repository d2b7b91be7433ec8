// Who did this process's attention, where a library was asked for or expected: so that results say it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace lockstep::cuda {

class AttentionOrigins {
 public:
  struct Counts {
    std::uint64_t by_library = 0, by_ours = 0;
    std::string library;  // empty where the program has none
    std::string refusal;  // the first, where there was one
    bool operator==(const Counts&) const = default;
  };
  /// One operation: of the library where `refusal` is empty, else of our kernels for that reason.
  void note(const std::string& library, const std::string& refusal);
  Counts counts();
  void forget();  ///< for tests

 private:
  std::mutex mutex_;
  Counts counts_;
};

/// Of this process, since it began.
AttentionOrigins& attention_origins();

}  // namespace lockstep::cuda
