// The workers of Threads: they spin for a few microseconds waiting for a job, then sleep.
#include "common/devices/cpu/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "common/error.hpp"

namespace lockstep::cpu {

namespace {
constexpr int kYieldsBeforeSleep = 100;
}

Threads::Threads(int count) {
  if (count < 1) usage_error(fmt::format("a CPU device of {} threads", count));
  workers_.reserve(static_cast<std::size_t>(count) - 1);
  try {
    for (int i = 1; i < count; ++i) workers_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    const std::size_t started = workers_.size();
    stop();
    throw Error(Verdict::usage,
                fmt::format("the system starts {} threads of arithmetic, not {}: ask for fewer", started + 1, count));
  }
}

Threads::~Threads() { stop(); }

void Threads::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    posted_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Threads::run(const Job& job) {
  std::unique_lock have_workers(callers_, std::defer_lock);
  if (workers_.empty() || !have_workers.try_lock()) {
    for (std::size_t first = 0; first < job.n; first += job.grain)
      job.call(job.object, first, std::min(job.n, first + job.grain));
    return;
  }
  bool anyone_sleeps = false;
  {
    std::lock_guard lock(mutex_);
    next_.store(0);
    job_ = &job;
    posted_.fetch_add(1);
    anyone_sleeps = sleeping_ > 0;
  }
  if (anyone_sleeps) wake_.notify_all();
  work(job);
  {
    std::lock_guard lock(mutex_);
    job_ = nullptr;  // a worker that wakes now is too late and joins nothing
  }
  while (working_.load() > 0) std::this_thread::yield();
}

void Threads::work(const Job& job) {
  for (;;) {
    const std::size_t first = next_.fetch_add(job.grain);
    if (first >= job.n) return;
    job.call(job.object, first, std::min(job.n, first + job.grain));
  }
}

void Threads::serve() {
  std::uint64_t seen = 0;
  for (;;) {
    for (int i = 0; i < kYieldsBeforeSleep && posted_.load() == seen; ++i) std::this_thread::yield();
    const Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      wake_.wait(lock, [&] { return posted_.load() != seen; });
      --sleeping_;
      if (stop_) return;
      seen = posted_.load();
      job = job_;
      if (job) working_.fetch_add(1);
    }
    if (!job) continue;
    work(*job);
    working_.fetch_sub(1);
  }
}

}  // namespace lockstep::cpu
