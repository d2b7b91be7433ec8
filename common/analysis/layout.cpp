#include "common/analysis/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace lockstep {
namespace {

void sort_by_begin(std::vector<const TraceEvent*>& events) {
  const auto key = [](const TraceEvent* e) {
    const bool phase = e->region() && e->region()->phase;
    return std::tuple(nanoseconds(e->begin), -nanoseconds(e->end), !phase);
  };
  std::stable_sort(events.begin(), events.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
}

}  // namespace

long long nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::vector<TraceRow> trace_rows(const Trace& trace) {
  std::map<std::tuple<int, int>, TraceRow> rows;
  for (const TraceEvent& event : trace.events) {
    TraceRow& row = rows[{event.rank, event.queue}];
    (event.transfer() ? row.transfers : event.region() ? row.regions : row.work).push_back(&event);
  }
  std::vector<TraceRow> sorted;
  for (auto& [key, row] : rows) {
    std::tie(row.rank, row.queue) = key;
    auto index = static_cast<std::size_t>(row.queue);
    row.queue_name = index < trace.queues.size() ? trace.queues[index] : fmt::format("queue {}", row.queue);
    for (auto* events : {&row.work, &row.regions, &row.transfers}) sort_by_begin(*events);
    sorted.push_back(std::move(row));
  }
  return sorted;
}

std::vector<const TraceEvent*> merged_by_begin(const std::vector<const TraceEvent*>& outer,
                                               const std::vector<const TraceEvent*>& inner) {
  std::vector<const TraceEvent*> both = outer;
  both.insert(both.end(), inner.begin(), inner.end());
  sort_by_begin(both);
  return both;
}

TimeSpan time_span(const Trace& trace) {
  if (trace.events.empty()) return {};
  TimeSpan span{trace.events.front().begin, trace.events.front().end};
  for (const TraceEvent& event : trace.events) {
    span.begin = std::min(span.begin, event.begin);
    span.end = std::max(span.end, event.end);
  }
  return span;
}

std::vector<std::vector<const TraceEvent*>> lanes(const std::vector<const TraceEvent*>& events, bool nest) {
  std::vector<std::vector<const TraceEvent*>> result;
  std::vector<std::vector<long long>> open;  // by lane: ends of the events that contain the current instant
  for (const TraceEvent* event : events) {
    long long begin = nanoseconds(event->begin), end = nanoseconds(event->end);
    std::size_t lane = 0;
    for (; lane < result.size(); ++lane) {
      while (!open[lane].empty() && open[lane].back() <= begin) open[lane].pop_back();
      if (open[lane].empty() || (nest && end <= open[lane].back())) break;
    }
    if (lane == result.size()) {
      result.emplace_back();
      open.emplace_back();
    }
    result[lane].push_back(event);
    open[lane].push_back(end);
  }
  return result;
}

double covered(const std::vector<const TraceEvent*>& events, TraceEvent::Kind kind) {
  double sum = 0, until = -HUGE_VAL;
  for (const TraceEvent* event : events) {
    if (event->kind() != kind || event->end <= until) continue;
    sum += event->end - std::max(event->begin, until);
    until = event->end;
  }
  return sum;
}

}  // namespace lockstep
