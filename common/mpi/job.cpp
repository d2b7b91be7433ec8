#include "common/mpi/job.hpp"

namespace lockstep::mpi {

void Job::fail(Verdict verdict, std::string message) {
  learn({.verdict = verdict, .rank = rank, .origin = rank, .when = clock.now(), .message = std::move(message)});
}

void Job::learn(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (failure_.verdict != Verdict::pass) return;
  failure_ = failure;
  failed.store(true, std::memory_order_release);
}

void Job::settle(const Failure& failure) {
  std::lock_guard lock(mutex_);
  failure_ = failure;
  failed.store(true, std::memory_order_release);
}

Failure Job::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace lockstep::mpi
