// The fastest measured algorithm of a library for each matrix product, shared by all processes of a job and by later
// runs, if LOCKSTEP_TUNE asks for it (docs/use/gpu.md). A process measures a product that is missing from the file, and
// adds it; a process that finishes measuring the same product later takes the one in the file. So all ranks use the
// same algorithm, and none waits for another's measurement, which may itself need messages from the waiting rank.
//
// The file is text, one line per choice: format, GPU, library, product and algorithm, separated by tabs. Lines measured
// on another GPU or with another library stay in it and are not used.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/devices/cuda/product_key.hpp"

namespace lockstep::cuda {

/// Content of cublasLtMatmulAlgo_t: bytes that the library can read back, if its version is the same.
using Way = std::array<std::uint64_t, 8>;

/// The file that LOCKSTEP_TUNE names. 1 means products.txt, next to the machine files measured here; empty if it is
/// unset or 0.
std::string tuning_file();

class Tuning {
 public:
  /// `gpu` and `library` are names, the latter with its version. Unusable content of the file is reported in one line
  /// on standard error.
  Tuning(std::string file, std::string gpu, std::string library);

  /// Uses tuning_file() and the current GPU; null if tuning was not asked for.
  static std::unique_ptr<Tuning> of_environment(const std::string& library);

  /// False if the choice cannot matter: up to 64³ multiplications take no longer than a launch.
  static bool matters(const ProductKey& key);

  /// The algorithm for a product: the file's if `usable`, otherwise the result of `measure`, unless another process has
  /// added one meanwhile. Thread-safe.
  Way choose(const ProductKey& key, const std::function<bool(const Way&)>& usable, const std::function<Way()>& measure);

 private:
  using Ways = std::map<std::string, Way>;
  struct Content;

  void read();
  void say_what_is_ignored(const Content& content);
  Way keep(const std::string& product, const Way& measured, const std::function<bool(const Way&)>& usable);
  void complain(const std::string& what) const;

  const std::string file_, gpu_, library_;
  std::mutex mutex_;
  Ways of_file_;  // content when last read
  Ways taken_;    // chosen by this process
  bool told_ = false, told_unwritable_ = false;
};

/// Origins of the algorithms of this process's products. Each product counts once, however many queues use it.
class TuningOrigins {
 public:
  struct Counts {
    std::size_t from_file = 0, measured = 0;
    bool operator==(const Counts&) const = default;
  };
  void note(const std::string& product, bool measured);
  Counts counts();
  void forget();  ///< for tests

 private:
  std::mutex mutex_;
  std::map<std::string, bool> measured_;
};
TuningOrigins& tuning_origins();

}  // namespace lockstep::cuda
