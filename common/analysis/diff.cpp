#include "common/analysis/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "common/analysis/graph.hpp"
#include "common/analysis/layout.hpp"
#include "common/error.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::analysis {
namespace {

using EventKind = TraceEvent::Kind;
using Key = std::tuple<EventKind, std::string, int, std::string>;  // kind, name, rank, queue
using Durations = std::map<Key, std::vector<double>>;

constexpr EventKind kCompared[] = {EventKind::compute, EventKind::wait, EventKind::transfer};

const char* word_of(EventKind kind) {
  switch (kind) {
    case EventKind::compute: return "arithmetic";
    case EventKind::wait: return "waiting";
    case EventKind::transfer: return "transfers";
    case EventKind::region: return "regions";
  }
  return "";
}

/// Names an event. "wait" alone would merge waits of all kinds, so a wait's name includes its location.
std::string name_of(const TraceEvent& event) {
  return event.wait() ? fmt::format("wait at {}", event.where) : event.name;
}

int ranks_of(const Trace& trace) {
  int most = -1;
  for (const TraceEvent& event : trace.events) most = std::max(most, event.rank);
  return most + 1;
}

/// Durations in the first `count` steps; 0: in the whole run.
Durations durations_of(const Trace& trace, std::size_t count) {
  Steps steps = steps_of(trace);
  steps.count = count;
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : trace.events)
    if (!event.region() && (count == 0 || steps.hold(event))) events.push_back(&event);
  std::stable_sort(events.begin(), events.end(), [](auto* x, auto* y) { return x->begin < y->begin; });
  Durations durations;
  for (const TraceEvent* event : events)
    durations[{event->kind(), name_of(*event), event->rank, trace.queues.at(static_cast<std::size_t>(event->queue))}]
        .push_back(event->end - event->begin);
  return durations;
}

double sum_from(const std::vector<double>& seconds, std::size_t first) {
  double sum = 0;
  for (std::size_t i = first; i < seconds.size(); ++i) sum += seconds[i];
  return sum;
}

void align(Difference& d, const Key& key, const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t k = 0; k < common; ++k) {
    d.seconds_a += a[k];
    d.seconds_b += b[k];
    if (d.pairs > 0 && std::abs(b[k] - a[k]) <= std::abs(d.most)) {
      ++d.pairs;
      continue;
    }
    ++d.pairs;
    d.most = b[k] - a[k];
    d.rank = std::get<2>(key);
    d.queue = std::get<3>(key);
    d.occurrence = static_cast<int>(k) + 1;
  }
  d.only_a += static_cast<int>(a.size() - common);
  d.only_b += static_cast<int>(b.size() - common);
  d.only_seconds_a += sum_from(a, common);
  d.only_seconds_b += sum_from(b, common);
}

CategoryDifference category(EventKind kind, const std::vector<Difference>& differences) {
  CategoryDifference total{.kind = kind};
  for (const Difference& d : differences) {
    if (d.kind != kind) continue;
    total.seconds_a += d.seconds_a + d.only_seconds_a;
    total.seconds_b += d.seconds_b + d.only_seconds_b;
    total.only_a += d.only_seconds_a;
    total.only_b += d.only_seconds_b;
  }
  return total;
}

double mean_of(const std::vector<double>& seconds, std::size_t count) {
  return std::accumulate(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(count), 0.0) /
         static_cast<double>(count);
}

/// Duration of a run without its steps.
double rest_of(const Trace& trace, const std::vector<double>& steps) {
  return time_span(trace).length() - std::accumulate(steps.begin(), steps.end(), 0.0);
}

std::string ratio(double a, double b) { return a > 0 ? fmt::format("{:.2f}×", b / a) : "–"; }

std::string signed_seconds(double seconds) { return (seconds < 0 ? "−" : "+") + format_seconds(std::abs(seconds)); }

}  // namespace

Diff diff(const Trace& a, const Trace& b) {
  Diff result{.ranks = ranks_of(a), .seconds_a = time_span(a).length(), .seconds_b = time_span(b).length()};
  if (result.ranks != ranks_of(b))
    throw Error(
        Verdict::usage,
        fmt::format("the traces have different shapes, {} and {} ranks: compare two runs on the same number of ranks",
                    result.ranks, ranks_of(b)));
  const std::vector<double> steps_a = phase_seconds(a, "step"), steps_b = phase_seconds(b, "step");
  const std::size_t steps = std::min(steps_a.size(), steps_b.size());
  if (steps > 0) {
    result.steps = static_cast<int>(steps);
    result.seconds_a = mean_of(steps_a, steps), result.seconds_b = mean_of(steps_b, steps);
    result.rest_a = rest_of(a, steps_a), result.rest_b = rest_of(b, steps_b);
  } else if (a.stopped || b.stopped) {
    throw Error(Verdict::usage,
                fmt::format("{} stopped before all ranks had completed a step, so there is nothing to compare",
                            a.stopped && b.stopped ? "both runs"
                            : a.stopped            ? "A"
                                                   : "B"));
  }
  const Durations of_a = durations_of(a, steps), of_b = durations_of(b, steps);
  std::map<std::pair<EventKind, std::string>, Difference> by_name;
  const auto named = [&](const Key& key) -> Difference& {
    Difference& d = by_name[{std::get<0>(key), std::get<1>(key)}];
    std::tie(d.kind, d.name) = std::tie(std::get<0>(key), std::get<1>(key));
    return d;
  };
  for (const auto& [key, seconds] : of_a) {
    const auto other = of_b.find(key);
    align(named(key), key, seconds, other == of_b.end() ? std::vector<double>{} : other->second);
  }
  for (const auto& [key, seconds] : of_b)
    if (!of_a.contains(key)) align(named(key), key, {}, seconds);
  bool any = false;
  for (auto& [key, difference] : by_name) {
    any = any || (difference.pairs > 0 && difference.kind != EventKind::wait);
    result.differences.push_back(std::move(difference));
  }
  if (!any) throw Error(Verdict::usage, "the traces have no operation in common: they are of different programs");
  std::stable_sort(result.differences.begin(), result.differences.end(), [](const Difference& x, const Difference& y) {
    return std::abs(x.seconds()) > std::abs(y.seconds());
  });
  for (EventKind kind : kCompared) result.categories.push_back(category(kind, result.differences));
  return result;
}

std::string format_diff(const Diff& d, std::size_t most) {
  std::string text =
      fmt::format("{} rank{}; {} took {} in A and {} in B ({})\n", d.ranks, d.ranks == 1 ? "" : "s",
                  d.steps == 0   ? "the run"
                  : d.steps == 1 ? "step 1"
                                 : fmt::format("a step (the mean of steps 1 to {})", d.steps),
                  format_seconds(d.seconds_a), format_seconds(d.seconds_b), ratio(d.seconds_a, d.seconds_b));
  if (d.steps > 0)
    text += fmt::format(
        "outside its steps (set-up, validation, a sample, an unfinished step) the run took {} in A and {} in B, which "
        "is left out below\n",
        format_seconds(d.rest_a), format_seconds(d.rest_b));
  text += '\n';
  text += fmt::format("{:<12}  {:>9}  {:>9}  {:>7}  {:>10}  {:>10}\n", "all ranks", "A", "B", "B / A", "only in A",
                      "only in B");
  for (const CategoryDifference& c : d.categories)
    text += fmt::format("{:<12}  {:>9}  {:>9}  {:>7}  {:>10}  {:>10}\n", word_of(c.kind), format_seconds(c.seconds_a),
                        format_seconds(c.seconds_b), ratio(c.seconds_a, c.seconds_b), format_seconds(c.only_a),
                        format_seconds(c.only_b));
  text += "\nthe largest differences, B − A\n";
  std::size_t differ = 0;  // in virtual time, equal durations are off by the rounding of two instants
  for (const Difference& x : d.differences) {
    if (std::max(std::abs(x.seconds()), std::abs(x.most)) < 1e-12 && x.only_a + x.only_b == 0) continue;
    if (differ++ >= most) continue;
    text += fmt::format("  {:>10}  {:>7}  {}: {}, {} pair{}", signed_seconds(x.seconds()),
                        ratio(x.seconds_a, x.seconds_b), word_of(x.kind), x.name, x.pairs, x.pairs == 1 ? "" : "s");
    if (x.pairs > 0)
      text += fmt::format(", most {} (rank {}, {}, number {})", signed_seconds(x.most), x.rank, x.queue, x.occurrence);
    if (x.only_a > 0) text += fmt::format("; {} only in A", x.only_a);
    if (x.only_b > 0) text += fmt::format("; {} only in B", x.only_b);
    text += '\n';
  }
  if (differ == 0) text += "  none\n";
  if (differ > most) text += fmt::format("  and {} more\n", differ - most);
  return text;
}

std::vector<Row> rows(const Diff& d) {
  std::vector<Row> all;
  for (const CategoryDifference& c : d.categories)
    all.emplace_back()
        .set("category", word_of(c.kind))
        .set("seconds_a", c.seconds_a)
        .set("seconds_b", c.seconds_b)
        .set("only_a_seconds", c.only_a)
        .set("only_b_seconds", c.only_b);
  for (const Difference& x : d.differences)
    all.emplace_back()
        .set("category", word_of(x.kind))
        .set("name", x.name)
        .set("seconds_a", x.seconds_a)
        .set("seconds_b", x.seconds_b)
        .set("pairs", x.pairs)
        .set("only_a", x.only_a)
        .set("only_b", x.only_b)
        .set("only_a_seconds", x.only_seconds_a)
        .set("only_b_seconds", x.only_seconds_b)
        .set("difference_seconds", x.seconds())
        .set("most_seconds", x.most)
        .set("rank", x.rank)
        .set("queue", x.queue)
        .set("occurrence", x.occurrence);
  return all;
}

}  // namespace lockstep::analysis
