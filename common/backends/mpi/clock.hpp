// How threads of one process share MPI and the cores: the gate, and the backoff of a thread that waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace lockstep::mpi {

/// MPI is entered by one thread at a time (MPI_THREAD_SERIALIZED). One lock for MPI and for our own lists of batches
/// costs 20 ns where MPI_THREAD_MULTIPLE would lock inside every call besides, and asks less of the library. Threads
/// that poll use try_lock, which gives way to those that have something to say.
class Gate {
 public:
  void lock() {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    wanted_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return wanted_.load(std::memory_order_relaxed) == 0 && mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::atomic<int> wanted_{0};
  std::mutex mutex_;
};

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

/// CLOCK_MONOTONIC, in nanoseconds.
std::uint64_t monotonic_ns();
/// Sleeps without using the core; the last few microseconds are spun, so that it ends on time.
void sleep_until_ns(std::uint64_t when);
/// Linux rounds this thread's sleeps by 50 µs unless asked not to.
void ask_for_exact_sleeps();

/// Seconds since a moment that all ranks agree on, divided by the emulation's scale.
class Clock {
 public:
  Clock() = default;
  Clock(std::uint64_t epoch_ns, double scale) : epoch_ns_(epoch_ns), scale_(scale) {}
  double now() const { return at(monotonic_ns()); }
  double at(std::uint64_t ns) const {
    return static_cast<double>(static_cast<std::int64_t>(ns - epoch_ns_)) * 1e-9 / scale_;
  }
  std::uint64_t ns_of(double seconds) const { return epoch_ns_ + static_cast<std::int64_t>(seconds * scale_ * 1e9); }
  double scale() const { return scale_; }

 private:
  std::uint64_t epoch_ns_ = 0;
  double scale_ = 1;
};

}  // namespace lockstep::mpi
