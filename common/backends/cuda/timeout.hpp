// Waits for a GPU with a timeout, in case it never finishes.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace lockstep::cuda {

/// Rest between two checks of the GPU: none at first, as CUDA itself waits, then a short sleep. Checks now and then
/// whether the GPU has made progress.
class ProgressTimeout {
 public:
  explicit ProgressTimeout(double seconds) : seconds_(seconds) {}

  /// `progress()` counts the work that the GPU has done. False if the count has not changed during the whole timeout.
  template <class Progress>
  bool rest(Progress progress) {
    constexpr int kSpins = 20'000, kBetweenLooks = 1'000;
    if (++rests_ < kSpins) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (rests_ % kBetweenLooks != 0) return true;
    const std::uint64_t now = progress();
    if (now == seen_) return std::chrono::duration<double>(Clock::now() - since_).count() < seconds_;
    seen_ = now;
    since_ = Clock::now();
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  int rests_ = 0;
  std::uint64_t seen_ = ~std::uint64_t{0};
  Clock::time_point since_ = Clock::now();
};

}  // namespace lockstep::cuda
