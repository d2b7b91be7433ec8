// A run on one rank, from the program's first line until all ranks know the outcome.
#include <fmt/format.h>

#include "common/backends/nccl/rank.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

void NcclRank::begin_program() {
  add_endpoint(new_endpoint(communicators_.world(job_.run, job_.ranks, job_.limit()), 0, 0));
  // Starts the clocks of all ranks together.
  if (all_gather(job_.control, {.run = job_.run, .key = key_of({}, "begin")}, job_.everyone, "", [this] {
        return job_.failed.load();
      }).empty())
    throw Unwind{};
  job_.clock = processes::Clock(processes::monotonic_ns(), 1);
  auto gpu_clock = std::make_unique<cuda::EventClock>(queues_[0]->here());
  std::lock_guard lock(job_.recorder_mutex);  // the watching thread records times
  job_.gpu_clock = std::move(gpu_clock);
}

void NcclRank::end_program() {
  try {
    if (!job_.failed) {
      queues_[0]->end_stretch();
      ended_ = queues_[0]->here();
    }
  } catch (const Error& error) {
    job_.fail(error.verdict(), fmt::format("rank {}: {}", job_.rank, error.what()));
  }
}

void NcclRank::finish() {
  // Until the last rank has finished, any rank may still fail or turn out to be deadlocked.
  bool failed = agree_on_failure("played");
  if (!failed) {
    find_unread();  // the GPU would wait forever for messages that no rank sent
    failed = agree_on_failure("read");
  }
  if (!failed) {
    drain();
    agree_on_failure("drained");
  }
  over_ = true;
  clean_up();
}

std::vector<std::string> NcclRank::gather(const char* what, const std::string& mine, bool) {
  return all_gather(job_.control, {.run = job_.run, .key = key_of({}, what)}, job_.everyone, mine);
}

/// Waits until the GPU has finished. Messages that match, but in an impossible order, never finish; the wait table then
/// explains it.
void NcclRank::drain() {
  try {
    const Doing doing{.kind = Doing::Kind::waits_for_gpu, .operation = "the end of the program"};
    job_.working.fetch_add(1);
    wait_until(*queues_[0], doing, [&] {
      std::lock_guard gate(job_.gate);
      for (Endpoint* each : all_endpoints_)
        if (!each->idle()) return false;
      return ended_.done();
    });
    for (int queue = 0; queue < queue_count_; ++queue)
      if (queues_[queue]->device) queues_[queue]->device->check_indices(Location::current());
    job_.tell_times();
  } catch (const Unwind&) {
  } catch (const Error& error) {
    job_.fail(error.verdict(), fmt::format("rank {}: {}", job_.rank, error.what()));
  }
  job_.working.fetch_sub(1);
  queues_[0]->set_doing({.kind = Doing::Kind::finished});
}

/// False if the GPU hangs. The waiter that first sees a GPU error has already reported it.
bool NcclRank::gpu_comes_to_an_end() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(job_.options.timeout_seconds + 10);
  try {
    while (!gpu_is_idle()) {
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  } catch (const Error&) {
  }
  return true;
}

/// Leaves nothing of this run in NCCL, so that another run may follow.
void NcclRank::clean_up() {
  drop_closures();
  if (!job_.failed) return;
  {
    std::lock_guard gate(job_.gate);
    for (Endpoint* each : all_endpoints_) each->drop();
  }
  if (!communicators_.abort(job_.ranks, job_.options.timeout_seconds + 10))
    end_job_(job_.failure().message + "\nncclCommAbort does not return. The job is terminated.");
  if (!gpu_comes_to_an_end())
    end_job_(job_.failure().message + "\nThe GPU does not finish either. The job is terminated.");
  std::lock_guard memory(memory_mutex_);
  given_up_ended_ = true;
  for (const Parked& each : std::exchange(parked_, {})) memory_.free(each.data, queues_[each.queue]->stream.get());
}

}  // namespace lockstep::nccl
