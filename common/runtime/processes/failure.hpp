// Backends with a process a rank: how a rank failed, as each process learns of it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "common/error.hpp"

namespace lockstep::processes {

/// How this rank failed, or learnt that another did.
struct Failure {
  Verdict verdict = Verdict::pass;
  int rank = -1;    // that failed; −1: nobody in particular
  int origin = -1;  // that tells the others
  double when = 0;  // seconds of its rank's clock, to name the first of several
  std::string message;
};

/// What a process knows of its run's failure. Any thread.
class FirstFailure {
 public:
  std::atomic<bool> failed{false};  // every wait ends in Unwind

  /// This rank's, or another's: the first counts.
  void learn(const Failure& failure) {
    std::lock_guard lock(mutex_);
    if (failure_.verdict == Verdict::pass) set(failure);
  }
  /// All ranks have agreed that this is the run's failure.
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
