// Sharing of cores by the threads of one process: the back-off of waiting threads, and sleeps that end on time.
#pragma once

#include <cstdint>

namespace lockstep::mpi {

/// Permitted use of a core by a waiting thread. Yielding is enough if other processes wait; next to arithmetic of this
/// process, it would still take every second time slice.
enum class SpinPolicy { spin, yield, sleep };

/// Rest between two checks for an event: spins first, then yields, then sleeps for increasing times.
class Backoff {
 public:
  /// Rests once. True once the thread has begun to sleep, that is, has waited for a while.
  bool rest(SpinPolicy spin_policy);

 private:
  int looks_ = 0;
  std::uint64_t first_ns_ = 0;
  long sleep_ns_ = kShortestSleep;
  static constexpr long kShortestSleep = 20'000;
};

/// Sleeps without using the core, then spins for the last few microseconds to end on time.
void sleep_until_ns(std::uint64_t when);
/// Makes this thread's sleeps exact; by default Linux may round them by 50 µs.
void ask_for_exact_sleeps();

}  // namespace lockstep::mpi
