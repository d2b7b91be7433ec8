// One run from the view of one process: the data that its threads (main, queues, the watching thread) share.
#pragma once

#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "common/backends/nccl/control.hpp"
#include "common/backends/nccl/socket.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/event.hpp"
#include "common/devices/cuda/timeline.hpp"
#include "common/runtime/processes/job.hpp"

namespace lockstep::nccl {

struct Job : processes::Job {
  Job(const RunOptions& o, Control& control, cuda::EventPool& events, std::uint64_t run, int gpu)
      : processes::Job(o, control.rank(), host_name(), nullptr),
        control(control),
        events(events),
        run(run),
        gpu(gpu),
        everyone(o.ranks) {
    std::iota(everyone.begin(), everyone.end(), 0);
  }

  Control& control;
  cuda::EventPool& events;
  const std::uint64_t run;  // counts calls of run()
  const int gpu;
  std::vector<int> everyone;  // ranks of this run

  // Protected by recorder_mutex, like the ledgers.
  cuda::Timeline timeline;
  std::unique_ptr<cuda::EventClock> gpu_clock;  // set once all ranks have begun

  /// Limit of waits for NCCL's own work. None takes long once a rank has nothing else to do; five times the run's
  /// timeout leaves time to connect many hosts.
  Limit limit() const {
    const auto stop = [this] {
      gate.must_be_open();
      return failed.load();
    };
    return {.stop = stop, .seconds = 5 * options.timeout_seconds};
  }
  /// Calls tell(recorder, begin, end), for the ledgers, once the GPU has passed both events.
  template <class F>
  void add_span(const cuda::Event& begin, const cuda::Event& end, F tell) {
    std::lock_guard lock(recorder_mutex);
    timeline.add(begin, end, [this, tell](double from, double to) { tell(recorder, from, to); });
  }
  void tell_times() {
    std::lock_guard lock(recorder_mutex);
    const std::size_t before = timeline.size();
    if (gpu_clock) timeline.tell(*gpu_clock);
    if (timeline.size() != before) note_activity();
  }
};

}  // namespace lockstep::nccl
