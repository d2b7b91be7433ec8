// How the threads of one process share the cores: the back-off of a thread that waits, and sleeps that end on time.
#pragma once

#include <cstdint>

namespace lockstep::mpi {

/// What a thread that waits may do with its core. Yielding is enough for other processes that wait; beside this
/// process's own arithmetic it would still take every second slice.
enum class SpinPolicy { spin, yield, sleep };

/// Between two looks at something that has not happened yet: spin, then yield, then sleep a little, ever longer.
class Backoff {
 public:
  /// True once the thread has begun to sleep: it has waited a while.
  bool rest(SpinPolicy spin_policy);

 private:
  int looks_ = 0;
  std::uint64_t first_ns_ = 0;
  long sleep_ns_ = kShortestSleep;
  static constexpr long kShortestSleep = 20'000;
};

/// Sleeps without using the core; the last few microseconds are spun, so that it ends on time.
void sleep_until_ns(std::uint64_t when);
/// Linux rounds this thread's sleeps by 50 µs unless asked not to.
void ask_for_exact_sleeps();

}  // namespace lockstep::mpi
