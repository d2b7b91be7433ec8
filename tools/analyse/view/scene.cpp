#include "tools/analyse/view/scene.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/analysis/graph.hpp"
#include "common/analysis/labels.hpp"
#include "common/analysis/layout.hpp"
#include "common/analysis/message_table.hpp"
#include "common/analysis/replay.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/analyse/view/panels.hpp"
#include "tools/analyse/view/sources.hpp"

namespace lockstep::view {
namespace {

/// Values by number: each is in the page once.
template <class Value>
class Numbered {
 public:
  int number(const Value& value) {
    const auto [known, fresh] = numbers_.try_emplace(value, static_cast<int>(all_.size()));
    if (fresh) all_.push_back(value);
    return known->second;
  }
  template <class Write>
  std::string json(const Write& write) const {
    return list(all_, write);
  }

 private:
  std::map<Value, int> numbers_;
  std::vector<Value> all_;
};

/// Says how the times came about, and on what.
std::string clock_words(const Trace& trace) {
  const std::string on = trace.machine.empty() ? "" : " " + trace.machine;
  if (trace.backend == "sim") return "simulated:" + on;
  if (trace.backend == "mpi" && trace.modelled) return "emulated, real messages delayed to the times of" + on;
  if (trace.backend == "mpi") return "measured on processes:" + on;
  if (trace.backend == "cuda") return "measured on one GPU:" + on;
  if (trace.backend == "nccl") return "measured, a GPU per rank:" + on;
  return trace.modelled ? "modelled times" : "measured";
}

/// "4 ranks · simulated: pcie-box · the reference's code".
std::string about(const Trace& trace, std::size_t ranks) {
  const std::string code = trace.code == "reference"    ? "the reference's code"
                           : trace.code == "yours"      ? "your code"
                           : trace.code == "yours: all" ? "all code yours"
                                                        : trace.code;
  return fmt::format("{} · {}{}", counted(ranks, "rank"), clock_words(trace), code.empty() ? "" : " · " + code);
}

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
    count_events();
    light_path();
  }

  std::string json() {
    std::string drawn, moving;
    for (std::size_t most = options_.most_events;;) {
      const std::size_t chosen = choose_ranks(most);
      drawn = events(), moving = messages();
      const std::size_t bytes = drawn.size() + moving.size() + tables_json().size();
      if (bytes <= options_.most_bytes || drawn_.size() <= 1) break;
      most = chosen * options_.most_bytes / bytes;  // less than chosen: one rank less at least
    }
    const std::string rough = rough_json();
    return fmt::format(
        R"({{"title":{},"about":{},"modelled":{},"begin":{},"end":{},"set_up":{},"steps":{},"steps_share":{},"ranks":{},"drawn":{},"recorded":{},"verdict":{},"message":{},"stopped":{},"lanes":{},)"
        R"("events":{},"messages":{},{},"rough":{},"path":{},{},{},{},{},{},{}}})",
        text(options_.title), text(about(trace_, ranks_in_run())), trace_.modelled, ns(-origin_),
        ns(shares_.seconds - origin_), ns(set_up()), steps_json(),
        share_json(analysis::share_of_steps(whole_, steps_, shares_)), ranks_in_run(), drawn_.size(), recorded_.size(),
        text(trace_.verdict), text(trace_.message), text(stop_words()), lanes_json(), drawn, moving, tables_json(),
        rough, text(why_no_path_), sources_json(places(), {options_.source, trace_.code}), legend_json(whole_, shares_),
        why_json(whole_, ranks_in_run() == recorded_.size(), options_.limit), traffic_json(trace_, flights_),
        memory_json(trace_), picture_json(trace_, flights_, labels_));
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

  using EventKind = std::array<int, 4>;
  using Parcel = std::tuple<int, std::uint64_t, bool>;

  /// The place of an event in the drawing.
  struct Placed {
    int lane;
    int index;  // of the lane's events
  };

  struct LaneOf {
    int rank;
    int queue;
    char kind;  // r region, w work, t transfers
    int row;    // of several equal ones
  };

  /// "in step 3: DEADLOCK: …"; "" where the run did not stop.
  std::string stop_words() const {
    const auto stop = analysis::stop_of(trace_);
    return stop ? stop->words : "";
  }

  std::size_t ranks_in_run() const { return std::max(trace_.totals.size(), recorded_.size()); }

  double set_up() const { return steps_.count > 0 ? 0 : analysis::set_up_seconds(trace_); }

  void count_events() {
    for (const TraceEvent& e : trace_.events) ++recorded_[e.rank];
    for (const TraceStuck& s : trace_.stuck) recorded_[s.rank];
    for (const TraceRace& r : trace_.races) recorded_[r.rank];
    for (const TraceBlock& b : trace_.blocks) recorded_[b.rank];  // recorded, though nothing may have happened
  }

  /// Chooses all ranks, or as many of the first as have at most so many events; the number of these.
  std::size_t choose_ranks(std::size_t most) {
    drawn_.clear();
    std::size_t sum = 0;
    for (const auto& [rank, count] : recorded_) {
      if (sum + count > most && !drawn_.empty()) break;
      sum += count;
      drawn_.insert(rank);
    }
    return sum;
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
    names_ = {}, kinds_ = {}, parcels_ = {};
    lanes_.clear(), by_lane_.clear(), place_of_.clear(), exposed_.clear();
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

  /// Leaves out the regions around a pipeline's steps, if these have their own names ("F3").
  void leave_out(std::vector<const TraceEvent*>& regions) const {
    if (has_steps_) std::erase_if(regions, [](auto* e) { return e->name == "forward" || e->name == "backward"; });
  }
  void add_lanes(int rank, int queue, char kind, const std::vector<std::vector<const TraceEvent*>>& all) {
    int row = 0;
    for (const auto& lane : all) {
      for (std::size_t i = 0; i < lane.size(); ++i)
        place_of_[index_of(lane[i])] = {static_cast<int>(lanes_.size()), static_cast<int>(i)};
      lanes_.push_back({rank, queue, kind, row++});
      by_lane_.push_back(lane);
    }
  }

  /// Rows of all queues that did something, of every rank's main, and of queues that were stuck or in a race before
  /// they did.
  std::vector<TraceRow> rows() const {
    std::map<std::pair<int, int>, TraceRow> all;
    for (TraceRow& row : trace_rows(trace_)) all.try_emplace({row.rank, row.queue}, std::move(row));
    const auto want = [&](int rank, int queue) {
      all.try_emplace({rank, queue}, TraceRow{.rank = rank, .queue = queue});
    };
    for (const auto& [rank, count] : recorded_) want(rank, 0);
    for (const TraceStuck& s : trace_.stuck) want(s.rank, s.queue);
    for (const TraceRace& r : trace_.races) want(r.rank, r.first.queue), want(r.rank, r.second.queue);
    std::vector<TraceRow> sorted;
    for (auto& [key, row] : all) sorted.push_back(std::move(row));
    return sorted;
  }

  std::size_t index_of(const TraceEvent* e) const { return static_cast<std::size_t>(e - trace_.events.data()); }

  /// Three numbers an event: which of `kinds`, the time since the last one's end, and its length. `kinds` are
  /// [kind, name, place, on the critical path]; 0 arithmetic, 1 exposed communication, 2 bubble, 3 another queue's
  /// waiting, 4 transfers, 5 a collective, 6 a phase.
  std::string lane_json(const std::vector<const TraceEvent*>& lane) {
    std::string out = "[";
    long long last = 0;
    const auto add = [&](int kind, const TraceEvent& e, double begin, double end) {
      const int which = kinds_.number(
          {kind, names_.number(labels_.events[index_of(&e)]), names_.number(e.where), critical_[index_of(&e)] ? 1 : 0});
      out += fmt::format("{}{},{},{}", out.size() > 1 ? "," : "", which, ns(begin) - last, ns(end) - ns(begin));
      last = ns(end);
    };
    for (const TraceEvent* e : lane) {
      if (e->wait() && e->queue == 0) {
        for (const analysis::WaitPart& part : exposed_[static_cast<int>(index_of(e))])
          add(part.exposed ? 1 : 2, *e, part.begin - origin_, part.end - origin_);
        continue;
      }
      const TraceRegion* region = e->region();
      add(region ? (region->bytes > 0 ? 5 : 6) : e->wait() ? 3 : e->transfer() ? 4 : 0, *e, e->begin, e->end);
    }
    return out + "]";
  }

  /// "names", with a rank's number, a chunk's and the like apart: [text with # for each, numbers]; "kinds" of events
  /// and "parcels", one after the other.
  std::string tables_json() {
    Numbered<std::string> patterns;
    const std::string names = names_.json([&](const std::string& name) {
      std::string pattern, numbers;
      for (std::size_t i = 0; i < name.size();) {
        const std::size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
        const bool number = end > i && end - i < 10 && (name[i] != '0' || end == i + 1);
        if (number) numbers += "," + name.substr(i, end - i);
        pattern += number ? "#" : name.substr(i, std::max<std::size_t>(end - i, 1));
        i = std::max(end, i + 1);
      }
      if (numbers.empty() || name.find('#') != name.npos) return text(name);
      return fmt::format("[{}{}]", patterns.number(pattern), numbers);
    });
    const auto kind = [](const EventKind& k) { return fmt::format("{},{},{},{}", k[0], k[1], k[2], k[3]); };
    const auto parcel = [](const Parcel& p) {
      return fmt::format("{},{},{:d}", std::get<0>(p), std::get<1>(p), std::get<2>(p));
    };
    return fmt::format(R"("names":{},"patterns":{},"kinds":{},"parcels":{})", names, patterns.json(text),
                       kinds_.json(kind), parcels_.json(parcel));
  }

  /// For ranks that are not drawn: the share of each of so many parts of the time in which main computed, waited for
  /// messages and for others, as a character each, '0' to '9'. From the begin of the steps to their end, or of the
  /// whole run.
  std::string rough_json() const {
    constexpr std::size_t kParts = 600;
    const double begin = origin_ + set_up(), end = end_of_steps(), part = (end - begin) / kParts;
    std::map<int, std::vector<std::array<double, 3>>> shares;
    for (const auto& [rank, count] : recorded_)
      if (!drawn_.contains(rank)) shares[rank].resize(kParts);
    const auto add = [&](int rank, std::size_t kind, double from, double to) {
      const auto known = shares.find(rank);
      if (known == shares.end() || part <= 0) return;
      from = std::max(0.0, (from - begin) / part), to = std::min(double(kParts), (to - begin) / part);
      for (auto i = static_cast<std::size_t>(from); double(i) < to; ++i)
        known->second[i][kind] += std::min(to, double(i + 1)) - std::max(from, double(i));
    };
    for (const TraceEvent& e : whole_.events)
      if (e.compute() && e.queue == 0) add(e.rank, 0, e.begin, e.end);
    for (const analysis::WaitPart& wait : shares_.waits)
      add(whole_.events[static_cast<std::size_t>(wait.event)].rank, wait.exposed ? 1 : 2, wait.begin, wait.end);
    return fmt::format(R"({{"begin":{},"end":{},"ranks":{}}})", ns(begin - origin_), ns(end - origin_),
                       list(shares, [](const auto& rank) {
                         std::string digits;
                         for (const auto& kinds : rank.second)
                           for (const double share : kinds)
                             digits += static_cast<char>('0' + std::min(9L, std::lround(9 * share)));
                         return fmt::format(R"([{},"{}"])", rank.first, digits);
                       }));
  }

  /// End of the recorded steps; of a run without steps its own end.
  double end_of_steps() const {
    double end = steps_.count > 0 ? 0 : shares_.seconds;
    for (const auto& [rank, steps] : steps_.by_rank)
      if (steps_.count > 0) end = std::max(end, steps[steps_.count - 1]->end);
    return end;
  }

  std::string lanes_json() {
    return list(lanes_, [&](const LaneOf& lane) {
      const auto queue = static_cast<std::size_t>(lane.queue);
      return fmt::format("[{},{},\"{}\",{}]", lane.rank,
                         text(queue < trace_.queues.size() ? trace_.queues[queue] : "queue"), lane.kind, lane.row);
    });
  }

  /// Finds the message of each batch on the critical path that could go last; of several, a received one.
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

  const Placed* find_place(int event) const {
    const auto known = event < 0 ? place_of_.end() : place_of_.find(static_cast<std::size_t>(event));
    return known == place_of_.end() ? nullptr : &known->second;
  }

  /// By from lane and to lane, in the order in which they leave: five numbers a message, of which sent and received
  /// event and the departure are counted from those of the one before; then its time, and which of `parcels`: [name,
  /// bytes, on the critical path].
  std::string messages() {
    find_deciding();
    std::map<std::pair<int, int>, std::vector<std::size_t>> links;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const Placed *from = find_place(flights_[i].from), *to = find_place(flights_[i].to);
      if (from && to) links[{from->lane, to->lane}].push_back(i);
    }
    for (auto& [lanes, link] : links)
      std::stable_sort(link.begin(), link.end(),
                       [&](std::size_t a, std::size_t b) { return flights_[a].begin < flights_[b].begin; });
    return list(links, [&](const auto& link) {
      return fmt::format("[{},{},{}]", link.first.first, link.first.second, link_json(link.second));
    });
  }

  std::string link_json(const std::vector<std::size_t>& link) {
    int sent = 0, received = 0;
    long long left = 0;
    return list(link, [&](std::size_t i) {
      const analysis::Flight& f = flights_[i];
      const bool critical = decides(f.to, static_cast<int>(i)) || decides(f.from, static_cast<int>(i));
      const int from = find_place(f.from)->index, to = find_place(f.to)->index;
      const int parcel = parcels_.number({names_.number(labels_.messages[i]), f.sent->bytes, critical});
      return fmt::format("{},{},{},{},{}", from - std::exchange(sent, from), to - std::exchange(received, to),
                         ns(f.begin) - std::exchange(left, ns(f.begin)), ns(f.end) - ns(f.begin), parcel);
    });
  }

  /// Places in the source of everything drawn, and of the panels' texts.
  std::set<std::string> places() const {
    std::set<std::string> places;
    for (const TraceEvent& e : trace_.events)
      if (drawn_.contains(e.rank)) places.insert(e.where);
    for (const TraceStuck& s : trace_.stuck) places.insert(s.where);
    for (const TraceRace& r : trace_.races) places.insert({r.allocated, r.first.where, r.second.where});
    return places;
  }

  const Trace& whole_;     // as recorded
  analysis::Steps steps_;  // of it
  double origin_;
  const Trace trace_;  // from the first step on: earlier events have negative times
  const SceneOptions& options_;
  std::vector<analysis::Flight> flights_;
  analysis::Labels labels_;
  analysis::Shares shares_;
  std::vector<bool> critical_;   // by event
  std::map<int, int> deciding_;  // flight, by event
  std::string why_no_path_;
  bool has_steps_ = false;
  std::map<int, std::size_t> recorded_;  // events, by rank
  std::set<int> drawn_;                  // ranks
  Numbered<std::string> names_;
  Numbered<EventKind> kinds_;
  Numbered<Parcel> parcels_;
  std::vector<LaneOf> lanes_;
  std::vector<std::vector<const TraceEvent*>> by_lane_;
  std::map<std::size_t, Placed> place_of_;                  // by event
  std::map<int, std::vector<analysis::WaitPart>> exposed_;  // by event
};

}  // namespace

std::string scene(const Trace& trace, const SceneOptions& options) { return Scene(trace, options).json(); }

}  // namespace lockstep::view
