#include "tools/analyse/view/scene.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "common/analysis/graph.hpp"
#include "common/analysis/labels.hpp"
#include "common/analysis/message_table.hpp"
#include "common/analysis/replay.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/runtime/trace/layout.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/analyse/view/panels.hpp"

namespace lockstep::view {
namespace {

using EventOf = TraceEvent::Kind;

/// Texts by number: a name is in the page once.
class Names {
 public:
  int number(const std::string& name) {
    const auto [known, fresh] = numbers_.try_emplace(name, static_cast<int>(all_.size()));
    if (fresh) all_.push_back(name);
    return known->second;
  }
  std::string json() const {
    return list(all_, [](const std::string& name) { return text(name); });
  }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> all_;
};

class Scene {
 public:
  Scene(const Trace& trace, const SceneOptions& options)
      : whole_(trace),
        steps_(analysis::steps_of(trace)),
        origin_(first_step()),
        trace_(moved(trace, origin_)),
        options_(options),
        flights_(analysis::flights_of(trace_)),
        labels_(analysis::labels_of(trace_, flights_)),
        shares_(analysis::shares_of(trace)),
        critical_(trace.events.size()) {
    choose_ranks();
    light_path();
  }

  std::string json() {
    const std::string drawn = events();  // first: it fills the names
    const std::string moving = messages();
    return fmt::format(
        R"({{"title":{},"modelled":{},"begin":{},"end":{},"set_up":{},"steps":{},"steps_share":{},"ranks":{},"drawn":{},"recorded":{},"verdict":{},"message":{},"stopped":{},"lanes":{},)"
        R"("events":{},"messages":{},"names":{},"path":{},{},{},{},{},{}}})",
        text(options_.title), trace_.modelled, ns(-origin_), ns(shares_.seconds - origin_),
        ns(steps_.count > 0 ? 0 : analysis::set_up_seconds(trace_)), steps_json(),
        share_json(analysis::share_of_steps(whole_, steps_, shares_)), ranks_in_run(), drawn_.size(), recorded_.size(),
        text(trace_.verdict), text(trace_.message), text(stop_words()), lanes_json(), drawn, moving, names_.json(),
        text(why_no_path_), legend_json(whole_, shares_), why_json(whole_, ranks_in_run() == recorded_.size()),
        traffic_json(trace_, flights_), memory_json(trace_), picture_json(trace_, flights_, labels_));
  }

 private:
  /// When the first rank begins its first step; 0 in a run without steps.
  double first_step() const {
    double first = std::numeric_limits<double>::infinity();
    for (const auto& [rank, steps] : steps_.by_rank)
      if (steps_.count > 0) first = std::min(first, steps[0]->begin);
    return steps_.count > 0 ? first : 0;
  }

  /// Closures stay: nothing that is drawn asks when they were.
  static Trace moved(Trace trace, double by) {
    for (TraceEvent& e : trace.events) e.begin -= by, e.end -= by;
    for (TraceBlock& b : trace.blocks) {
      b.begin -= by;
      if (b.end >= 0) b.end = std::max(0.0, b.end - by);
    }
    for (TraceRace& r : trace.races) r.first.time -= by, r.second.time -= by;
    return trace;
  }

  /// From when a rank begins it to when all have ended it.
  std::string steps_json() const {
    std::vector<std::pair<double, double>> spans;
    for (std::size_t k = 0; k < steps_.count; ++k) {
      auto& [begin, end] = spans.emplace_back(std::numeric_limits<double>::infinity(), 0);
      for (const auto& [rank, steps] : steps_.by_rank)
        begin = std::min(begin, steps[k]->begin - origin_), end = std::max(end, steps[k]->end - origin_);
    }
    return list(spans, [](const auto& span) { return fmt::format("[{},{}]", ns(span.first), ns(span.second)); });
  }

  struct LaneOf {
    int rank;
    int queue;
    char kind;  // r region, w work, t transfers
    int row;    // of several alike
  };

  /// "in step 3: DEADLOCK: …"; "" where the run did not stop.
  std::string stop_words() const {
    const auto stop = analysis::stop_of(trace_);
    return stop ? stop->words : "";
  }

  std::size_t ranks_in_run() const { return std::max(trace_.totals.size(), recorded_.size()); }

  /// All ranks, or as many of the first as there is room for.
  void choose_ranks() {
    std::map<int, std::size_t> events;
    for (const TraceEvent& e : trace_.events) ++events[e.rank];
    for (const TraceStuck& s : trace_.stuck) events[s.rank];
    for (const TraceRace& r : trace_.races) events[r.rank];
    for (const TraceBlock& b : trace_.blocks) events[b.rank];  // it was recorded, though nothing may have happened
    std::size_t sum = 0;
    for (const auto& [rank, count] : events) {
      recorded_.insert(rank);
      sum += count;
      if (sum <= options_.most_events || drawn_.empty()) drawn_.insert(rank);
    }
  }

  /// The critical path, of the whole run, where it can be replayed.
  void light_path() {
    if (ranks_in_run() > recorded_.size()) {
      why_no_path_ = "not known: only some of the ranks were recorded";
      return;
    }
    if (trace_.stopped || !trace_.stuck.empty()) {
      why_no_path_ = "none: the run did not end";
      return;
    }
    try {
      const analysis::Graph graph = analysis::make_graph(whole_, "");
      for (const analysis::Segment& s : analysis::replay(graph).path) {
        const auto index = static_cast<std::size_t>(s.index);
        const bool work = s.kind == analysis::Segment::Kind::work;
        const int event = work ? graph.works[index].event : graph.batches[index].event;
        if (event >= 0) critical_[static_cast<std::size_t>(event)] = true;
      }
    } catch (const Error& error) {
      why_no_path_ = error.what();
    }
  }

  // Events, lane by lane ----------------------------------------------------------------------------------------------

  std::string events() {
    has_steps_ = std::any_of(trace_.events.begin(), trace_.events.end(), analysis::is_pipeline_step);
    for (TraceRow& row : rows()) {
      if (!drawn_.contains(row.rank)) continue;
      leave_out(row.regions);
      add_lanes(row.rank, row.queue, 'r', lanes(row.regions, false));
      if (!row.work.empty() || row.queue == 0 || row.transfers.empty()) add_lanes(row.rank, row.queue, 'w', {row.work});
      add_lanes(row.rank, row.queue, 't', lanes(row.transfers, false));
    }
    for (const analysis::WaitPart& part : shares_.waits) exposed_[part.event].push_back(part);
    return list(by_lane_, [&](const std::vector<const TraceEvent*>& lane) { return lane_json(lane); });
  }

  /// Where the steps of a pipeline's schedule have their names ("F3"), what they are inside says no more.
  void leave_out(std::vector<const TraceEvent*>& regions) const {
    if (has_steps_) std::erase_if(regions, [](auto* e) { return e->name == "forward" || e->name == "backward"; });
  }
  void add_lanes(int rank, int queue, char kind, const std::vector<std::vector<const TraceEvent*>>& all) {
    int row = 0;
    for (const auto& lane : all) {
      for (const TraceEvent* e : lane) lane_of_[index_of(e)] = static_cast<int>(lanes_.size());
      lanes_.push_back({rank, queue, kind, row++});
      by_lane_.push_back(lane);
    }
  }

  /// Of all queues that did something; and main of every rank, and those that were stuck, or in a race, before they
  /// did.
  std::vector<TraceRow> rows() const {
    std::map<std::pair<int, int>, TraceRow> all;
    for (TraceRow& row : trace_rows(trace_)) all.try_emplace({row.rank, row.queue}, std::move(row));
    const auto want = [&](int rank, int queue) {
      all.try_emplace({rank, queue}, TraceRow{.rank = rank, .queue = queue});
    };
    for (const int rank : recorded_) want(rank, 0);
    for (const TraceStuck& s : trace_.stuck) want(s.rank, s.queue);
    for (const TraceRace& r : trace_.races) want(r.rank, r.first.queue), want(r.rank, r.second.queue);
    std::vector<TraceRow> sorted;
    for (auto& [key, row] : all) sorted.push_back(std::move(row));
    return sorted;
  }

  std::size_t index_of(const TraceEvent* e) const { return static_cast<std::size_t>(e - trace_.events.data()); }

  /// Kind, name, place, begin, length, on the critical path: six numbers an event. Kinds: 0 arithmetic, 1 exposed
  /// communication, 2 bubble, 3 another queue's waiting, 4 transfers, 5 a collective, 6 a phase.
  std::string lane_json(const std::vector<const TraceEvent*>& lane) {
    std::string out = "[";
    const auto add = [&](int kind, const TraceEvent& e, double begin, double end) {
      out += fmt::format("{}{},{},{},{},{},{}", out.size() > 1 ? "," : "", kind,
                         names_.number(labels_.events[index_of(&e)]), names_.number(e.where), ns(begin),
                         ns(end) - ns(begin), critical_[index_of(&e)] ? 1 : 0);
    };
    for (const TraceEvent* e : lane) {
      if (e->kind == EventOf::wait && e->queue == 0) {
        for (const analysis::WaitPart& part : exposed_[static_cast<int>(index_of(e))])
          add(part.exposed ? 1 : 2, *e, part.begin - origin_, part.end - origin_);
        continue;
      }
      const bool region = e->kind == EventOf::region;
      add(region                         ? (e->bytes > 0 ? 5 : 6)
          : e->kind == EventOf::wait     ? 3
          : e->kind == EventOf::transfer ? 4
                                         : 0,
          *e, e->begin, e->end);
    }
    return out + "]";
  }

  std::string lanes_json() {
    return list(lanes_, [&](const LaneOf& lane) {
      const auto queue = static_cast<std::size_t>(lane.queue);
      return fmt::format("[{},{},\"{}\",{}]", lane.rank,
                         text(queue < trace_.queues.size() ? trace_.queues[queue] : "queue"), lane.kind, lane.row);
    });
  }

  /// Of a batch on the critical path the message that could go last, of several a received one.
  void find_deciding() {
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const analysis::Flight& f = flights_[i];
      for (int event : {f.from, f.to}) {
        if (event < 0 || !critical_[static_cast<std::size_t>(event)]) continue;
        const auto [known, fresh] = deciding_.try_emplace(event, static_cast<int>(i));
        const analysis::Flight& best = flights_[static_cast<std::size_t>(known->second)];
        if (!fresh && (f.begin > best.begin || (f.begin == best.begin && event == f.to)))
          known->second = static_cast<int>(i);
      }
    }
  }
  bool decides(int event, int flight) const {
    const auto known = deciding_.find(event);
    return known != deciding_.end() && known->second == flight;
  }

  /// From lane, to lane, left, arrived, name, bytes, on the critical path.
  std::string messages() {
    find_deciding();
    std::string out = "[";
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const analysis::Flight& f = flights_[i];
      if (f.from < 0 || f.to < 0) continue;
      const auto from = lane_of_.find(static_cast<std::size_t>(f.from)),
                 to = lane_of_.find(static_cast<std::size_t>(f.to));
      if (from == lane_of_.end() || to == lane_of_.end()) continue;
      const TraceMessage& m = trace_.events[static_cast<std::size_t>(f.from)].messages[f.which_from];
      const bool critical = decides(f.to, static_cast<int>(i)) || decides(f.from, static_cast<int>(i));
      out += fmt::format("{}{},{},{},{},{},{},{}", out.size() > 1 ? "," : "", from->second, to->second, ns(f.begin),
                         ns(f.end), names_.number(labels_.messages[i]), m.bytes, critical ? 1 : 0);
    }
    return out + "]";
  }

  const Trace& whole_;     // as recorded
  analysis::Steps steps_;  // of it
  double origin_;
  const Trace trace_;  // from the first step on: what was before it has negative times
  const SceneOptions& options_;
  std::vector<analysis::Flight> flights_;
  analysis::Labels labels_;
  analysis::Shares shares_;
  std::vector<bool> critical_;   // by event
  std::map<int, int> deciding_;  // flight, by event
  std::string why_no_path_;
  bool has_steps_ = false;
  std::set<int> recorded_, drawn_;  // ranks
  Names names_;
  std::vector<LaneOf> lanes_;
  std::vector<std::vector<const TraceEvent*>> by_lane_;
  std::map<std::size_t, int> lane_of_;                      // by event
  std::map<int, std::vector<analysis::WaitPart>> exposed_;  // by event
};

}  // namespace

std::string scene(const Trace& trace, const SceneOptions& options) { return Scene(trace, options).json(); }

}  // namespace lockstep::view
