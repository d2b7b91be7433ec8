// One run from the view of one process: the data that its threads (main, queues, the watching thread) share.
#pragma once

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "common/runtime/ledger/recorder.hpp"
#include "common/runtime/processes/clock.hpp"
#include "common/runtime/processes/failure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::processes {

/// Lock around endpoints; over MPI, around each of its calls, which one thread makes at a time (MPI_THREAD_SERIALIZED).
/// It costs 20 ns, whereas MPI_THREAD_MULTIPLE would lock inside every call as well, and it demands less of the
/// library. Threads that poll use try_lock, which gives way to threads that have something to say. No thread may wait
/// for the GPU, a library or another process while holding it, because the watching thread, which learns of failures,
/// needs it too.
class Gate {
 public:
  void lock() {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  bool try_lock() {
    if (wanted_.load(std::memory_order_relaxed) != 0 || !mutex_.try_lock()) return false;
    holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    holder_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }
  /// Call before the calling thread waits. Throws std::logic_error if it holds the gate, which is a bug of the runtime.
  void must_be_open() const {
    if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id())
      throw std::logic_error("the runtime waits while it holds the gate");
  }

 private:
  std::atomic<int> wanted_{0};
  std::atomic<std::thread::id> holder_{};
  std::mutex mutex_;
};

struct Job : FirstFailure {
  /// `machine`: cost model of the messages if time is modelled, else null.
  Job(const RunOptions& options, int rank, std::string host, const Machine* machine)
      : options(options), rank(rank), host(std::move(host)), recorder(rank, is_traced(options, rank), machine) {}

  const RunOptions& options;
  const int rank;
  const int ranks = options.ranks;
  const std::string host;
  Clock clock{monotonic_ns(), 1};  // restarts when all ranks have begun

  Gate gate;
  std::atomic<int> working{0};                     // threads that work rather than wait
  std::atomic<std::uint64_t> activity{0};          // counts operations and completions
  std::atomic<std::uint64_t> last_activity_ns{0};  // last time anything was issued or completed

  Recorder recorder;  // ledgers; accessed by one thread at a time
  std::mutex recorder_mutex;

  /// True if each message is announced to its receiver, which compares sizes, types and collectives of both ends.
  bool checked() const { return options.check_races || options.emulate; }
  double now() const { return clock.now(); }
  void note_activity() { note_activity(monotonic_ns()); }
  void note_activity(std::uint64_t ns) {
    activity.fetch_add(1, std::memory_order_relaxed);
    last_activity_ns.store(ns, std::memory_order_relaxed);
  }
  double idle_seconds() const {
    return static_cast<double>(static_cast<std::int64_t>(monotonic_ns() - last_activity_ns.load())) * 1e-9;
  }

  /// Ends this rank and tells the others; only the first failure counts. Any thread, with or without the gate.
  void fail(Verdict verdict, std::string message) {
    learn({.verdict = verdict, .rank = rank, .origin = rank, .when = now(), .message = std::move(message)});
  }
  template <class F>
  auto record(F f) {
    std::lock_guard lock(recorder_mutex);
    return f(recorder);
  }
};

}  // namespace lockstep::processes
