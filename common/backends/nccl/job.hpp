// One run as one process sees it: what its threads (main, queues, watch) share.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "common/backends/nccl/control.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/event.hpp"
#include "common/devices/cuda/timeline.hpp"
#include "common/runtime/ledger/recorder.hpp"
#include "common/runtime/processes/failure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::nccl {

using processes::Failure;

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

struct Job : processes::FirstFailure {
  Job(const RunOptions& o, Control& control, cuda::EventPool& events, std::uint64_t run, int gpu)
      : options(o),
        control(control),
        events(events),
        run(run),
        gpu(gpu),
        recorder(control.rank(), o.trace, nullptr),
        everyone(o.ranks) {
    std::iota(everyone.begin(), everyone.end(), 0);
  }

  const RunOptions& options;
  Control& control;
  cuda::EventPool& events;
  const std::uint64_t run;  // counts the calls of run()
  const int gpu;
  const int rank = control.rank();
  const int ranks = options.ranks;
  std::chrono::steady_clock::time_point epoch = std::chrono::steady_clock::now();

  std::mutex gate;                             // around endpoints
  std::atomic<int> working{0};                 // threads with something to do that is not waiting
  std::atomic<std::uint64_t> activity{0};      // counts operations and completions
  std::atomic<std::int64_t> last_activity{0};  // the last time anything was issued or completed, steady_clock's ticks

  // Ledgers and times are written by one thread at a time.
  mutable std::mutex recorder_mutex;
  Recorder recorder;
  cuda::Timeline timeline;
  std::unique_ptr<cuda::EventClock> clock;  // once all ranks have begun
  std::vector<int> everyone;                // the ranks of this run

  /// Messages are announced by control messages, so that both ends are compared before NCCL sees them.
  bool checked() const { return options.check_races; }
  /// Nothing of NCCL's that the host waits for takes long, once a rank has nothing else to do: five times as long as a
  /// run may stand still leaves time for the connections of many hosts.
  Limit limit() const {
    return {.stop = [this] { return failed.load(); }, .seconds = 5 * options.timeout_seconds};
  }
  double now() const { return seconds_since(epoch); }
  void note_activity() {
    activity.fetch_add(1, std::memory_order_relaxed);
    last_activity.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  double idle_seconds() const {
    using Clock = std::chrono::steady_clock;
    return seconds_since(Clock::time_point(Clock::duration(last_activity.load(std::memory_order_relaxed))));
  }

  /// Ends this rank: the first failure counts, and is told to the others. Any thread.
  void fail(Verdict verdict, std::string message) {
    learn({.verdict = verdict, .rank = rank, .origin = rank, .when = now(), .message = std::move(message)});
  }

  template <class F>
  auto record(F f) {
    std::lock_guard lock(recorder_mutex);
    return f(recorder);
  }
  /// Tells the ledgers, by tell(recorder, begin, end), once the GPU has passed both.
  template <class F>
  void add_span(const cuda::Event& begin, const cuda::Event& end, F tell) {
    std::lock_guard lock(recorder_mutex);
    timeline.add(begin, end, [this, tell](double from, double to) { tell(recorder, from, to); });
  }
  void tell_times() {
    std::lock_guard lock(recorder_mutex);
    const std::size_t before = timeline.size();
    if (clock) timeline.tell(*clock);
    if (timeline.size() != before) note_activity();
  }
};

}  // namespace lockstep::nccl
