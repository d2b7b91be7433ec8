// The fastest way of a library to do each matrix product, as measured, for all processes of a job and for later runs:
// where LOCKSTEP_TUNE asks for it (docs/gpu.md). A process measures a product that it does not find in the file, and
// adds it; one that was slower with the same product takes what it finds then. So all ranks take the same way, and
// nobody waits for another while it measures, who may need its messages for that.
//
// The file is text, a line for each choice: format, GPU, library, product and way, with tabs between them. What another
// GPU or library measured stays in it and is not used.
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

/// As cublasLtMatmulAlgo_t has it: bytes that the library reads back, if it is of the same version.
using Way = std::array<std::uint64_t, 8>;

/// The file that LOCKSTEP_TUNE names, where 1 stands for products.txt beside the machine files that are measured here;
/// empty where it is not set, or 0.
std::string tuning_file();

class Tuning {
 public:
  /// `gpu` and `library` are names, the latter with its version. What of the file cannot be used is said in a line on
  /// standard error.
  Tuning(std::string file, std::string gpu, std::string library);

  /// With tuning_file() and the current GPU; null where none is asked for.
  static std::unique_ptr<Tuning> of_environment(const std::string& library);

  /// Whether it can matter: up to 64³ multiplications last no longer than a launch.
  static bool matters(const ProductKey& key);

  /// The way for a product: the file's if `usable`, else what `measure` returns, unless another process has added one
  /// meanwhile. May be called by several threads.
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
  Ways of_file_;  // what it held when it was last read
  Ways taken_;    // by this process
  bool told_ = false, told_unwritable_ = false;
};

/// Where the ways of this process's products come from. Each product counts once, however many queues take its way.
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
