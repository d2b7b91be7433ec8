#include "bench/support/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/analysis/write_trace.hpp"
#include "common/arithmetic.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

/// Cuts each rank's trace to its act. Operations that began before it lose their messages, whose other ends may be
/// missing. `origins`: each rank's time 0.
Trace cut(const Trace& whole, const std::vector<Values>& acts, const std::vector<double>& origins) {
  Trace trace{.queues = whole.queues, .events = {}, .closures = whole.closures};
  trace.modelled = whole.modelled;
  trace.eager_bytes = whole.eager_bytes;
  trace.backend = whole.backend;
  trace.machine = whole.machine;
  for (TraceEvent event : whole.events) {
    const auto rank = static_cast<std::size_t>(event.rank);
    const double begin = acts[rank][0], end = acts[rank][1];
    if (event.end <= begin || event.begin >= end) continue;
    if (event.begin < begin && event.transfer()) event.what = TraceTransfer{event.transfer()->group, {}};
    event.begin = std::max(event.begin, begin) - origins[rank];
    event.end = std::min(event.end, end) - origins[rank];
    trace.events.push_back(std::move(event));
  }
  for (TraceBlock block : whole.blocks) {
    const auto rank = static_cast<std::size_t>(block.rank);
    const double begin = acts[rank][0], end = acts[rank][1];
    if (block.begin >= end || (block.end >= 0 && block.end <= begin)) continue;
    block.begin = std::max(block.begin, begin) - origins[rank];
    block.end = block.end < 0 || block.end >= end ? -1 : block.end - origins[rank];
    trace.blocks.push_back(std::move(block));
  }
  for (TraceClosure& closure : trace.closures)
    for (double* time : {&closure.given, &closure.begin, &closure.end})
      *time = std::max(0.0, *time - origins[static_cast<std::size_t>(closure.rank)]);
  return trace;
}

}  // namespace

RecordedAct record_act(RunOptions options, const Contender& contender) {
  constexpr int kWholly = 128, kRecorded = 16;
  options.trace = true;
  if (options.ranks > kWholly) options.traced_ranks = kRecorded;
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    Slice token = me.allocate(1, DType::f32, Category::buffer), received = me.allocate(1, DType::f32, Category::buffer);
    fill(me, token, 0);
    const Prepared prepared = contender.prepare(me, Purpose::time);
    for (int i = 0; !time_is_virtual() && i < Plan{}.warm_up; ++i) prepared.act();
    barrier(me, token, received);
    const double begin = me.now();
    prepared.act();
    return {begin, me.now()};
  });
  outcome.check();
  if (!is_judge()) return {};
  // Clocks of processes have different origins: in real time each rank's act begins at 0.
  double first = outcome.values[0][0], seconds = 0;
  for (const Values& act : outcome.values) first = std::min(first, act[0]);
  std::vector<double> origins;
  for (const Values& act : outcome.values) {
    origins.push_back(time_is_virtual() ? first : act[0]);
    seconds = std::max(seconds, act[1] - origins.back());
  }
  return {cut(outcome.trace, outcome.values, origins), seconds};
}

int write_timelines(const std::string& prefix, const std::string& what, const RunOptions& options,
                    const std::vector<Contender>& contenders) {
  int written = 0;
  for (const Contender& contender : contenders) {
    if (!contender.drawn || contender.apart || !contender.counted) continue;
    const RecordedAct act = record_act(options, contender);
    ++written;
    if (!is_judge()) continue;
    const std::string title = contender.title.empty() ? fmt::format("{}, {}", what, contender.name) : contender.title;
    std::string name = contender.name;
    std::replace(name.begin(), name.end(), '/', '-');
    write_trace(act.trace, fmt::format("{}_{}.trace", prefix, name),
                fmt::format("{}: {}", title, format_seconds(act.seconds)));
  }
  return written;
}

}  // namespace lockstep::bench
