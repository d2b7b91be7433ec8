#include "common/analysis/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "common/error.hpp"

namespace lockstep::analysis {
namespace {

/// Regions of one name on main, by rank and in order.
std::map<int, std::vector<const TraceEvent*>> all_phases(const Trace& trace, const std::string& name) {
  std::map<int, std::vector<const TraceEvent*>> by_rank;
  for (const TraceStuck& stuck : trace.stuck) by_rank[stuck.rank];
  for (const TraceEvent& event : trace.events) {
    auto& regions = by_rank[event.rank];
    if (event.region() && event.queue == 0 && event.name == name) regions.push_back(&event);
  }
  for (auto& [rank, regions] : by_rank)
    std::sort(regions.begin(), regions.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
  return by_rank;
}

/// Number of phases that one rank has ended.
std::size_t ended(const std::vector<const TraceEvent*>& phases) {
  return static_cast<std::size_t>(
      std::count_if(phases.begin(), phases.end(), [](const TraceEvent* e) { return !e->region()->cut; }));
}

std::size_t ended_by_all(const std::map<int, std::vector<const TraceEvent*>>& by_rank) {
  std::size_t least = by_rank.empty() ? 0 : ended(by_rank.begin()->second);
  for (const auto& [rank, phases] : by_rank) least = std::min(least, ended(phases));
  return least;
}

/// Number of phases of every rank; 0 if ranks differ.
std::size_t common_count(const std::map<int, std::vector<const TraceEvent*>>& by_rank) {
  const std::size_t count = by_rank.empty() ? 0 : by_rank.begin()->second.size();
  const bool alike = std::all_of(by_rank.begin(), by_rank.end(), [&](auto& r) { return r.second.size() == count; });
  return alike ? count : 0;
}

class Maker {
 public:
  Maker(const Trace& trace, const std::string& step) : trace_(trace) {
    check();
    choose_steps(step);
  }

  Graph make() {
    add_lanes();
    for (const TraceEvent& e : trace_.events)
      if (e.region() && e.name == "data") data_[{e.rank, e.queue}].push_back(&e);
    for (std::size_t i = 0; i < trace_.closures.size(); ++i) add_closure(trace_.closures[i]);
    for (int event : in_program_order(TraceEvent::Kind::transfer)) add_batch(event);
    join_messages();
    for (int event : in_program_order(TraceEvent::Kind::compute)) add_arithmetic(event);
    add_host_time();
    write_programs();
    set_delays();
    return std::move(graph_);
  }

 private:
  /// An action and its place: its position, and its order among the actions at that position.
  struct Placed {
    std::uint64_t position;
    int order;
    Action action;
  };

  void check() const {
    const bool positions =
        std::any_of(trace_.events.begin(), trace_.events.end(), [](const TraceEvent& e) { return e.first > 0; });
    if (!positions)
      throw Error(Verdict::usage,
                  "this trace does not say what waited for what, so it cannot be replayed: record the run with ./lab "
                  "train --trace FILE.json");
    const auto lost = std::find_if(trace_.events.begin(), trace_.events.end(),
                                   [](const TraceEvent& e) { return e.first == 0 && (e.compute() || e.transfer()); });
    if (lost != trace_.events.end())
      throw Error(Verdict::usage,
                  fmt::format("this trace does not say where '{}' of rank {} stands in its program, so it cannot be "
                              "replayed: it is a picture of a run",
                              lost->name, lost->rank));
  }

  void choose_steps(const std::string& name) {
    steps_ = steps_of(trace_, name).by_rank;
    for (const TraceClosure& c : trace_.closures)
      if (!steps_.contains(c.rank))
        throw Error(Verdict::usage, fmt::format("this trace lacks what rank {} did outside its closures", c.rank));
    graph_.ranks = static_cast<int>(steps_.size());
    const std::size_t count = name.empty() ? 0 : common_count(steps_);
    graph_.steps_in_run = static_cast<int>(count);
    if (count == 0) {
      steps_.clear();
      double begin = trace_.events.front().begin, end = begin;
      for (const TraceEvent& e : trace_.events) begin = std::min(begin, e.begin), end = std::max(end, e.end);
      graph_.recorded = end - begin;
      return;
    }
    graph_.first_step = count >= 3 ? 1 : 0;
    graph_.steps = static_cast<int>(count) - graph_.first_step;
    const std::vector<double> seconds = phase_seconds(trace_, name);
    graph_.recorded = std::accumulate(seconds.begin() + graph_.first_step, seconds.end(), 0.0);
  }

  /// Step of main's action at `position`, counted from 0; −1 if it is in no counted step.
  int step_of(int rank, std::uint64_t position) const {
    if (steps_.empty()) return 0;
    const auto& mine = steps_.at(rank);
    const auto after =
        std::partition_point(mine.begin(), mine.end(), [&](const TraceEvent* step) { return step->first <= position; });
    if (after == mine.begin() || position > (*(after - 1))->last) return -1;
    return std::max(-1, static_cast<int>(after - mine.begin()) - 1 - graph_.first_step);
  }

  int step_of(const TraceEvent& event) const {
    if (event.queue == 0) return step_of(event.rank, event.first);
    const auto closures = closures_of_.find({event.rank, event.queue});
    if (closures == closures_of_.end()) return -1;
    const auto& list = closures->second;
    const auto after =
        std::partition_point(list.begin(), list.end(), [&](const TraceClosure* c) { return c->first <= event.first; });
    return after == list.begin() ? -1 : step_of(event.rank, (*(after - 1))->issued);
  }

  void add_lanes() {
    std::map<std::pair<int, int>, int> seen;
    for (const TraceEvent& e : trace_.events) seen[{e.rank, e.queue}] = seen[{e.rank, 0}] = 0;
    for (const TraceClosure& c : trace_.closures) seen[{c.rank, c.queue}] = 0;
    for (auto& [key, lane] : seen) {
      lane = static_cast<int>(graph_.lanes.size());
      graph_.lanes.push_back({.rank = key.first, .queue = key.second, .program = {}});
    }
    lane_of_ = std::move(seen);
    placed_.resize(graph_.lanes.size());
    graph_.one_engine = trace_.modelled;
    for (const TraceClosure& c : trace_.closures) closures_of_[{c.rank, c.queue}].push_back(&c);
  }

  void place(int lane, std::uint64_t position, int order, Action::Kind kind, int index) {
    placed_[static_cast<std::size_t>(lane)].push_back({position, order, {kind, index}});
  }

  void add_closure(const TraceClosure& c) {
    if (c.first == 0) return;
    const Activity loading = loading_in(c);
    const bool loads = loading.before + loading.seconds > 0;
    const bool ahead = loads && step_of(c.rank, c.waited) >= 0;  // maybe launched before the steps that count
    if (step_of(c.rank, c.issued) < 0 && !ahead) return;
    const int main = lane_of_.at({c.rank, 0}), lane = lane_of_.at({c.rank, c.queue});
    const int index = static_cast<int>(graph_.closures.size());
    graph_.closures.push_back({lane});
    place(main, c.issued, 1, Action::Kind::give, index);
    if (c.waited > 0) place(main, c.waited, 1, Action::Kind::await_closure, index);
    const bool empty = c.last < c.first;
    place(lane, c.first, 0, Action::Kind::begin_closure, index);
    if (loads) {
      place(lane, c.first, 0, Action::Kind::work, static_cast<int>(graph_.works.size()));
      graph_.works.push_back(loading);
    }
    place(lane, empty ? c.first : c.last, empty ? 0 : 3, Action::Kind::end_closure, index);
  }

  /// Time of a closure in regions called "data". `before`: its part before the first step that counts.
  Activity loading_in(const TraceClosure& c) const {
    Activity loading{.kind = Activity::Kind::data,
                     .lane = lane_of_.at({c.rank, c.queue}),
                     .step = std::max(0, step_of(c.rank, c.issued))};
    const auto regions = data_.find({c.rank, c.queue});
    if (regions == data_.end()) return loading;
    double counts = 0;
    if (!steps_.empty()) counts = steps_.at(c.rank)[static_cast<std::size_t>(graph_.first_step)]->begin;
    for (const TraceEvent* region : regions->second) {
      const bool inside = trace_.modelled ? c.first <= region->first && region->first <= c.last
                                          : c.begin <= region->begin && region->begin < c.end;
      if (!inside) continue;
      const double before = std::clamp(counts, region->begin, region->end) - region->begin;
      loading.before += before;
      loading.seconds += region->end - region->begin - before;
    }
    return loading;
  }

  std::vector<int> in_program_order(TraceEvent::Kind kind) const {
    std::vector<int> events;
    for (std::size_t i = 0; i < trace_.events.size(); ++i)
      if (trace_.events[i].kind() == kind && trace_.events[i].first > 0) events.push_back(static_cast<int>(i));
    std::sort(events.begin(), events.end(), [&](int a, int b) {
      const TraceEvent &x = event(a), &y = event(b);
      return std::tie(x.rank, x.queue, x.first) < std::tie(y.rank, y.queue, y.first);
    });
    return events;
  }

  const TraceEvent& event(int index) const { return trace_.events[static_cast<std::size_t>(index)]; }

  void add_batch(int index) {
    const TraceEvent& e = event(index);
    const TraceTransfer& transfer = *e.transfer();
    const bool counts = step_of(e) >= 0;
    int batch = -1;
    if (counts) {
      batch = static_cast<int>(graph_.batches.size());
      const int lane = lane_of_.at({e.rank, e.queue});
      TransferBatch& made = graph_.batches.emplace_back();
      made.event = index;
      made.lane = lane;
      int& last = last_of_.try_emplace({lane, transfer.group}, -1).first->second;
      made.before = std::exchange(last, batch);
      place(lane, e.first, 1, Action::Kind::start, batch);
      if (e.last > 0) place(lane, e.last, 1, Action::Kind::await_batch, batch);
    }
    for (const TraceMessage& m : transfer.messages) {                              // messages match in order within a
      const int from = m.sends ? e.rank : m.peer, to = m.sends ? m.peer : e.rank;  // (group, queue, sender, receiver)
      Halves& halves = halves_[{transfer.group, e.queue, from, to}];
      (m.sends ? halves.sends : halves.receives).push_back({batch, &m});
    }
  }

  void join_messages() {
    for (const auto& [key, halves] : halves_) {
      const std::size_t count = std::max(halves.sends.size(), halves.receives.size());
      for (std::size_t k = 0; k < count; ++k) {
        const Half send = k < halves.sends.size() ? halves.sends[k] : Half{};
        const Half receive = k < halves.receives.size() ? halves.receives[k] : Half{};
        const bool symmetric = std::get<2>(key) == std::get<3>(key);  // one rank represents its peers: sizes may differ
        if (!symmetric && send.message && receive.message && send.message->bytes != receive.message->bytes)
          throw Error(Verdict::usage, fmt::format("this trace contradicts itself: a message of {} bytes is received as "
                                                  "one of {}",
                                                  send.message->bytes, receive.message->bytes));
        add_message(send, receive);
      }
    }
  }

  struct Half {
    int batch = -1;
    const TraceMessage* message = nullptr;
  };
  struct Halves {
    std::vector<Half> sends, receives;
  };

  void add_message(const Half& send, const Half& receive) {
    if (send.batch < 0 && receive.batch < 0) return;
    const TraceMessage& known = send.message ? *send.message : *receive.message;
    Message m{.sender = send.batch, .receiver = receive.batch, .latency = known.latency, .seconds = known.seconds};
    if (trace_.modelled)
      m.eager = known.bytes <= trace_.eager_bytes;
    else if (m.sender >= 0 && m.receiver >= 0)  // it was sent before its receive was posted
      m.eager = of_batch(m.sender).end < of_batch(m.receiver).begin;
    const int index = static_cast<int>(graph_.messages.size());
    graph_.messages.push_back(m);
    for (int batch : {m.sender, m.receiver})
      if (batch >= 0) graph_.batches[static_cast<std::size_t>(batch)].messages.push_back(index);
  }

  const TraceEvent& of_batch(int batch) const { return event(graph_.batches[static_cast<std::size_t>(batch)].event); }

  void add_arithmetic(int index) {
    const TraceEvent& e = event(index);
    const int step = step_of(e);
    if (step < 0) return;
    const TraceCompute& compute = *e.compute();
    const double seconds = compute.own > 0 ? compute.own : e.end - e.begin;
    const int lane = lane_of_.at({e.rank, e.queue});
    place(lane, e.first, 1, Action::Kind::work, static_cast<int>(graph_.works.size()));
    graph_.works.push_back(
        {.event = index, .lane = lane, .step = step, .seconds = seconds, .launch = std::min(compute.launch, seconds)});
  }

  // Time between two recorded events of a queue (in a modelled run only data loading) --------------------------------

  void add_host_time() {
    note_ends();
    std::map<std::tuple<int, int, int>, std::vector<const TraceEvent*>> by_step;  // (rank, queue, step)
    for (const TraceEvent& e : trace_.events) {
      if (e.first == 0 || (!e.compute() && !e.wait())) continue;
      if (const int step = step_of(e); step >= 0) by_step[{e.rank, e.queue, step}].push_back(&e);
    }
    for (auto& [key, events] : by_step) {
      std::sort(events.begin(), events.end(), [](auto* a, auto* b) { return a->first < b->first; });
      add_gaps(events, std::get<2>(key));
    }
  }

  void add_gaps(const std::vector<const TraceEvent*>& events, int step) {
    const TraceEvent& first = *events.front();
    double until = first.begin;
    if (first.queue == 0 && !steps_.empty())
      until = steps_.at(first.rank)[static_cast<std::size_t>(step + graph_.first_step)]->begin;
    const TraceClosure* closure = nullptr;
    for (const TraceEvent* e : events) {
      if (const TraceClosure* now = e->queue == 0 ? nullptr : closure_of(*e); now != closure) {
        until = now->begin > 0 ? awaited_from(*now) : e->begin;
        closure = now;
      }
      add_gap(*e, until, e->begin, step, 0);
      until = std::max(until, e->end);
      // A wait ends when its thread notices.
      if (e->wait()) add_gap(*e, std::max(e->begin, ends_[{e->rank, e->queue, e->first}]), e->end, step, 2);
    }
  }

  /// Notes the times at which the operations awaited at each position ended.
  void note_ends() {
    const auto note = [&](int rank, int queue, std::uint64_t position, double end) {
      double& known = ends_[{rank, queue, position}];
      known = std::max(known, end);
    };
    for (const TraceEvent& e : trace_.events)
      if (e.transfer()) note(e.rank, e.queue, e.last, e.end);
    for (const TraceClosure& c : trace_.closures) note(c.rank, 0, c.waited, c.end);
  }

  /// Earliest start of a closure: it has been issued, and the preceding one has ended.
  double awaited_from(const TraceClosure& c) const {
    const auto& list = closures_of_.at({c.rank, c.queue});
    const auto mine = std::find(list.begin(), list.end(), &c);
    return mine == list.begin() ? c.given : std::max(c.given, (*(mine - 1))->end);
  }

  const TraceClosure* closure_of(const TraceEvent& e) const {
    const auto& list = closures_of_.at({e.rank, e.queue});
    const auto after =
        std::partition_point(list.begin(), list.end(), [&](const TraceClosure* c) { return c->first <= e.first; });
    return *(after - 1);
  }

  /// Adds host time before (order 0) or after (2) the event at a position.
  void add_gap(const TraceEvent& beside, double from, double to, int step, int order) {
    if (to <= from) return;
    double data = 0;
    for (const TraceEvent* region : data_[{beside.rank, beside.queue}])
      data += std::max(0.0, std::min(region->end, to) - std::max(region->begin, from));
    const int lane = lane_of_.at({beside.rank, beside.queue});
    const auto add = [&](Activity::Kind kind, double seconds) {
      if (seconds <= 0) return;
      place(lane, beside.first, order, Action::Kind::work, static_cast<int>(graph_.works.size()));
      graph_.works.push_back({.kind = kind, .lane = lane, .step = step, .seconds = seconds});
    };
    if (beside.queue == 0) add(Activity::Kind::data, data);  // closures have theirs already
    if (!trace_.modelled) add(Activity::Kind::host, to - from - data);
  }

  // ------------------------------------------------------------------------------------------------------------------

  void write_programs() {
    for (std::size_t lane = 0; lane < placed_.size(); ++lane) {
      std::stable_sort(placed_[lane].begin(), placed_[lane].end(), [](const Placed& a, const Placed& b) {
        return std::tie(a.position, a.order) < std::tie(b.position, b.order);
      });
      for (const Placed& placed : placed_[lane]) graph_.lanes[lane].program.push_back(placed.action);
    }
  }

  void set_delays() {
    for (TransferBatch& batch : graph_.batches) {
      const TraceEvent& own = event(batch.event);
      double expected = own.begin;
      for (int index : batch.messages) {
        const Message& m = graph_.messages[static_cast<std::size_t>(index)];
        double ready = own.begin;
        if (m.sender >= 0 && m.receiver >= 0)
          ready = m.eager ? of_batch(m.sender).begin : std::max(of_batch(m.sender).begin, of_batch(m.receiver).begin);
        const bool sends = m.sender >= 0 && &graph_.batches[static_cast<std::size_t>(m.sender)] == &batch;
        expected = std::max(expected, ready + m.seconds - (sends ? m.latency : 0));
      }
      batch.delay = std::max(0.0, own.end - expected);
    }
  }

  const Trace& trace_;
  Graph graph_;
  std::map<int, std::vector<const TraceEvent*>> steps_;  // by rank; empty: everything counts
  std::map<std::pair<int, int>, int> lane_of_;           // by (rank, queue)
  std::map<std::pair<int, int>, std::vector<const TraceClosure*>> closures_of_;
  std::map<std::pair<int, std::uint32_t>, int> last_of_;                // the last batch, by (lane, group)
  std::map<std::tuple<std::uint32_t, int, int, int>, Halves> halves_;   // by (group, queue, from, to)
  std::vector<std::vector<Placed>> placed_;                             // by lane
  std::map<std::pair<int, int>, std::vector<const TraceEvent*>> data_;  // regions, by (rank, queue)
  std::map<std::tuple<int, int, std::uint64_t>, double> ends_;          // by (rank, queue, position of the wait)
};

}  // namespace

Graph make_graph(const Trace& trace, const std::string& step) {
  if (trace.events.empty()) throw Error(Verdict::usage, "this trace is empty: nothing happened in that run");
  return Maker(trace, step).make();
}

Steps steps_of(const Trace& trace, const std::string& name) {
  Steps steps{all_phases(trace, name)};
  const std::size_t finished = ended_by_all(steps.by_rank);
  if (trace.stopped)
    for (auto& [rank, phases] : steps.by_rank) phases.resize(finished);
  steps.count = common_count(steps.by_rank);
  return steps;
}

std::optional<Stop> stop_of(const Trace& trace, const std::string& phase) {
  if (!trace.stopped) return std::nullopt;
  const auto by_rank = all_phases(trace, phase);
  const std::size_t finished = ended_by_all(by_rank);
  // Phases ended by the rank that failed, otherwise by the rank that is furthest behind.
  std::size_t before = finished;
  bool began = false, inside = false;
  const auto failed = by_rank.find(trace.failed_rank);
  if (failed != by_rank.end()) before = ended(failed->second);
  for (const auto& [rank, phases] : by_rank) {
    began = began || !phases.empty();
    const bool counts = failed == by_rank.end() || rank == trace.failed_rank;
    inside = inside || (counts && ended(phases) == before && phases.size() > before);
  }
  std::string where;
  if (inside)
    where = fmt::format("in {} {}: ", phase, before + 1);
  else if (began)
    where = fmt::format("after {} {}: ", phase, before);
  const std::string said = with_verdict(trace.verdict, trace.message);
  return Stop{static_cast<int>(finished), where + said.substr(0, said.find('\n'))};
}

std::vector<std::string> phase_names(const Trace& trace) {
  std::set<std::string> names;
  for (const TraceEvent& event : trace.events)
    if (event.region() && event.queue == 0 && event.region()->phase) names.insert(event.name);
  return {names.begin(), names.end()};
}

std::vector<double> phase_seconds(const Trace& trace, const std::string& name) {
  const auto [by_rank, count] = steps_of(trace, name);
  std::vector<double> seconds;
  for (std::size_t k = 0; k < count; ++k) {
    double begin = by_rank.begin()->second[k]->begin, end = begin;
    for (const auto& [rank, regions] : by_rank) {
      begin = std::max(begin, regions[k]->begin);
      end = std::max(end, regions[k]->end);
    }
    seconds.push_back(end - begin);
  }
  return seconds;
}

}  // namespace lockstep::analysis
