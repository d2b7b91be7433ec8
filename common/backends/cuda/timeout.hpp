// Waiting for a GPU without trusting that it comes to an end.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace lockstep::cuda {

/// Between two questions whether the GPU is there: at once again at first, which is how CUDA waits, and later with some
/// sleep. Now and then it is seen whether the GPU has moved.
class ProgressTimeout {
 public:
  explicit ProgressTimeout(double seconds) : seconds_(seconds) {}

  /// `progress()` counts what the GPU has done. False: it has been the same for the whole time-out.
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
