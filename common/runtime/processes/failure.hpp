// Failure of a rank, as the processes of a job learn of it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "common/error.hpp"

namespace lockstep::processes {

/// Failure of this rank, or of another rank that told this one.
struct Failure {
  Verdict verdict = Verdict::pass;
  int rank = -1;    // rank that failed; −1: none in particular
  int origin = -1;  // rank that tells the others
  double when = 0;  // seconds on its rank's clock, to find the earliest failure
  std::string message;
};

/// This process's knowledge of the run's failure. Thread-safe.
class FirstFailure {
 public:
  std::atomic<bool> failed{false};  // makes every wait throw Unwind

  /// Records a failure of this rank or another; only the first counts.
  void learn(const Failure& failure) {
    std::lock_guard lock(mutex_);
    if (failure_.verdict == Verdict::pass) set(failure);
  }
  /// Records the failure that all ranks have agreed on.
  void settle(const Failure& failure) {
    std::lock_guard lock(mutex_);
    set(failure);
  }
  Failure failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void set(const Failure& failure) {
    failure_ = failure;
    failed.store(true, std::memory_order_release);
  }
  mutable std::mutex mutex_;
  Failure failure_;
};

}  // namespace lockstep::processes
