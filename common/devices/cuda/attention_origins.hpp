// Counts which implementation did this process's attention, if a library was asked for or expected, so that results can
// mention it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace lockstep::cuda {

class AttentionOrigins {
 public:
  struct Counts {
    std::uint64_t by_library = 0, by_ours = 0;
    std::string library;  // empty if the program has none
    std::string refusal;  // the first refusal, if any
    bool operator==(const Counts&) const = default;
  };
  /// Counts one operation: done by the library if `refusal` is empty, otherwise by our kernels for that reason.
  void note(const std::string& library, const std::string& refusal);
  Counts counts();
  void forget();  ///< for tests

 private:
  std::mutex mutex_;
  Counts counts_;
};

/// Counts of this process since it began.
AttentionOrigins& attention_origins();

}  // namespace lockstep::cuda
