#include "tools/calculators/schedule_chart.hpp"

#include <algorithm>

#include "common/analysis/intervals.hpp"
#include "common/analysis/layout.hpp"
#include "common/analysis/shares.hpp"

namespace lockstep::bench {

std::vector<double> wire_seconds(const week24::TimedRun& run) {
  const Trace& trace = run.outcome.trace;
  std::vector<std::vector<analysis::Interval>> sent(run.stages.size());
  for (const analysis::Flight& flight : analysis::flights_of(trace)) {
    if (nanoseconds(flight.end) == nanoseconds(flight.begin)) continue;  // rounding
    const TraceEvent& send = trace.events[static_cast<std::size_t>(flight.from)];
    sent[static_cast<std::size_t>(send.rank)].push_back({flight.begin, flight.end});
  }
  std::vector<double> seconds;
  for (std::vector<analysis::Interval>& stage : sent)
    seconds.push_back(analysis::length(analysis::joined(std::move(stage))));
  return seconds;
}

Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape) {
  Trace trace = run.outcome.trace;
  // Drops what the chart says otherwise: a link's transfers show what its queue waits for, and the steps' names show
  // the phases.
  std::erase_if(trace.events, [](const TraceEvent& e) { return e.region() || (e.wait() && e.queue != 0); });
  std::vector<std::vector<TraceEvent*>> works(run.steps.size());  // of each stage, in its order
  for (TraceEvent& event : trace.events)
    if (event.compute() && event.queue == 0) works[static_cast<std::size_t>(event.rank)].push_back(&event);
  for (std::size_t s = 0; s < works.size(); ++s) {
    std::sort(works[s].begin(), works[s].end(), [](auto* a, auto* b) { return a->first < b->first; });
    std::vector<TimedStep> steps = run.steps[s];
    std::erase_if(steps, [](const TimedStep& step) { return step.end <= step.begin; });  // these do no work
    for (std::size_t i = 0; i < steps.size() && steps.size() == works[s].size(); ++i)
      works[s][i]->name = to_string(steps[i].step, shape.chunks);
  }
  return trace;
}

}  // namespace lockstep::bench
