#include "tools/calculators/schedule_chart.hpp"

#include <algorithm>

#include "common/analysis/layout.hpp"

namespace lockstep::bench {
namespace {

using Kind = TraceEvent::Kind;
constexpr int kMain = 0, kDown = 1, kUp = 2;  // queues
constexpr const char *kForwards = "activations on", *kBackwards = "gradients back";

/// One direction of a link: what its two ends saw of each message, in order.
struct Link {
  std::vector<double> sent, received;
};

/// By link, as Neighbour counts them, and kind (2·link, and 2·link + 1 for gradients). A stage sends on a link and
/// receives on its neighbour's, which has a queue of its own (24.1).
std::vector<Link> links_of(const Trace& trace, int stages) {
  std::vector<Link> links(4 * static_cast<std::size_t>(stages));
  for (const TraceEvent& event : trace.events) {
    if (event.kind != Kind::transfer) continue;
    const std::string& queue = trace.queues.at(static_cast<std::size_t>(event.queue));
    const bool down = queue.starts_with("down"), back = queue.ends_with(week24::kBack);
    const int after = event.rank, before = (event.rank + stages - 1) % stages;
    const auto is = [&](int link) {
      return queue == (down ? "down " : "up ") + week24::link_name(stages, link + (back ? stages : 0));
    };
    const int link = is(after) ? after : before;
    Link& seen = links[2 * static_cast<std::size_t>(link + (back ? stages : 0)) + (down ? 0 : 1)];
    if ((down != back) == (link == after))
      seen.sent.push_back(event.begin);
    else
      seen.received.push_back(event.end);
  }
  return links;
}

/// Each message from the moment it is sent to the moment it is there.
void add_messages(Trace& named, const Trace& trace, int stages) {
  std::vector<Link> links = links_of(trace, stages);
  for (std::size_t i = 0; i < links.size(); ++i) {
    Link& link = links[i];
    std::sort(link.sent.begin(), link.sent.end());
    std::sort(link.received.begin(), link.received.end());
    const bool down = i % 2 == 0;
    const int number = static_cast<int>(i / 2), first = number % stages;
    const int sender = down == (number < stages) ? first : (first + 1) % stages;
    for (std::size_t k = 0; k < std::min(link.sent.size(), link.received.size()); ++k)
      if (nanoseconds(link.received[k]) > nanoseconds(link.sent[k]))
        named.events.push_back({Kind::transfer, sender, down ? kDown : kUp, down ? kForwards : kBackwards, "",
                                link.sent[k], link.received[k]});
  }
}

}  // namespace

double wire_seconds(const Trace& named, int stage) {
  std::vector<const TraceEvent*> sends;
  for (const TraceEvent& event : named.events)
    if (event.kind == Kind::transfer && event.rank == stage) sends.push_back(&event);
  return covered(sends, Kind::transfer);
}

Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape) {
  Trace named{.queues = {"main", "down", "up"}, .events = {}};
  const Trace& trace = run.outcome.trace;
  for (std::size_t s = 0; s < run.steps.size(); ++s)
    for (const TimedStep& timed : run.steps[s])
      if (timed.end > timed.begin)
        named.events.push_back({Kind::compute, static_cast<int>(s), kMain, to_string(timed.step, shape.chunks), "",
                                timed.begin, timed.end});
  for (const TraceEvent& event : trace.events) {
    const auto rank = static_cast<std::size_t>(event.rank);
    const bool within = event.kind == Kind::wait && event.queue == 0 && event.begin >= run.steps[rank].front().begin &&
                        event.begin < run.steps[rank].back().end;
    if (within && event.end > event.begin) named.events.push_back(event);
  }
  add_messages(named, trace, shape.stages);
  std::stable_sort(named.events.begin(), named.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.begin < b.begin; });
  return named;
}

Trace replayable_trace(const week24::TimedRun& run, const PipelineShape& shape) {
  Trace trace = run.outcome.trace;
  // Drops what the chart says otherwise: a link's transfers show what its queue waits for, and the steps' names show
  // the phases.
  std::erase_if(trace.events,
                [](const TraceEvent& e) { return e.kind == Kind::region || (e.kind == Kind::wait && e.queue != 0); });
  std::vector<std::vector<TraceEvent*>> works(run.steps.size());  // of each stage, in its order
  for (TraceEvent& event : trace.events)
    if (event.kind == Kind::compute && event.queue == 0) works[static_cast<std::size_t>(event.rank)].push_back(&event);
  for (std::size_t s = 0; s < works.size(); ++s) {
    std::sort(works[s].begin(), works[s].end(), [](auto* a, auto* b) { return a->first < b->first; });
    if (works[s].size() != run.steps[s].size()) continue;  // steps that take no time do no work
    for (std::size_t i = 0; i < works[s].size(); ++i) works[s][i]->name = to_string(run.steps[s][i].step, shape.chunks);
  }
  return trace;
}

std::vector<Shade> shades_of(const Trace& named) {
  std::vector<Shade> shades;
  for (const Shade& shade : {Shade{"F", "forward", "─"},
                             {"B", "backward", "═"},
                             {"I", "input's half", "≈"},
                             {"W", "weights' half", "+"},
                             {kForwards, kForwards, "v", false},
                             {kBackwards, kBackwards, "^", false}})
    if (std::any_of(named.events.begin(), named.events.end(), [&](const TraceEvent& event) {
          return event.kind != Kind::wait && event.name.starts_with(shade.prefix);
        }))
      shades.push_back(shade);
  return shades;
}

}  // namespace lockstep::bench
