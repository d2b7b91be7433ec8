#include "common/analysis/why.hpp"

#include <algorithm>
#include <map>

#include "common/analysis/format_why.hpp"
#include "common/analysis/intervals.hpp"

namespace lockstep::analysis {
namespace {

constexpr Cost kCosts[] = {Cost::communication, Cost::bubble, Cost::imbalance, Cost::launch, Cost::data};

std::map<std::string, double> operations_of(const Trace& trace, const Graph& graph) {
  std::map<std::string, double> seconds;
  for (const Activity& work : graph.works)
    if (work.kind == Activity::Kind::arithmetic)
      seconds[trace.events[static_cast<std::size_t>(work.event)].name] +=
          (work.seconds - work.launch) / graph.steps / graph.ranks;
  return seconds;
}

struct Price {
  double latency = 0, per_byte = 0;
};

/// For each group, the prices of the slowest link that its messages use: it sets the pace of a collective.
std::map<std::uint32_t, Price> slowest_links(const Trace& trace, const Graph& graph) {
  std::map<std::uint32_t, Price> links;
  for (const TransferBatch& batch : graph.batches) {
    const TraceEvent& event = trace.events[static_cast<std::size_t>(batch.event)];
    for (const TraceMessage& m : event.transfer()->messages) {
      Price& link = links[event.transfer()->group];
      link.latency = std::max(link.latency, m.latency);
      if (m.bytes > 0) link.per_byte = std::max(link.per_byte, (m.seconds - m.latency) / static_cast<double>(m.bytes));
    }
  }
  return links;
}

std::vector<RankUse> use_of_ranks(const Trace& trace, const Graph& graph, const Replay& replayed) {
  const double steps = graph.steps;
  std::map<int, std::vector<Interval>> computing, moving;  // by rank, as recorded
  std::map<int, RankUse> by_rank;
  const auto rank_of = [&](int lane) { return graph.lanes[static_cast<std::size_t>(lane)].rank; };
  for (const Lane& lane : graph.lanes) by_rank[lane.rank];
  for (const Activity& work : graph.works) {
    if (work.kind == Activity::Kind::data) by_rank[rank_of(work.lane)].loading += (work.before + work.seconds) / steps;
    if (work.kind == Activity::Kind::host && graph.lanes[static_cast<std::size_t>(work.lane)].queue == 0)
      by_rank[rank_of(work.lane)].host += work.seconds / steps;
    if (work.kind != Activity::Kind::arithmetic) continue;
    const TraceEvent& event = trace.events[static_cast<std::size_t>(work.event)];
    RankUse& use = by_rank[event.rank];
    use.arithmetic += work.seconds / steps;
    use.launch += work.launch / steps;
    ++use.operations;
    computing[event.rank].push_back({event.begin, event.end});
  }
  std::map<std::uint32_t, Price> links = slowest_links(trace, graph);
  for (const TransferBatch& batch : graph.batches) {
    const TraceEvent& event = trace.events[static_cast<std::size_t>(batch.event)];
    moving[event.rank].push_back({event.begin, event.end});
    double& wire = by_rank[event.rank].wire;
    wire += batch.delay / steps;
    const Price& link = links[event.transfer()->group];
    for (const TraceMessage& m : event.transfer()->messages)
      if (!m.sends) wire += (link.latency + static_cast<double>(m.bytes) * link.per_byte) / steps;
  }
  std::vector<RankUse> uses;
  for (auto& [rank, use] : by_rank) {
    const std::vector<Interval> busy = joined(computing[rank]), wires = joined(moving[rank]);
    use.moving = length(wires) / steps;
    use.hidden = length(common(busy, wires)) / steps;
    use.waiting = replayed.waits[uses.size()] / steps;
    use.operations /= graph.steps;
    uses.push_back(use);
  }
  return uses;
}

/// Returns "all_reduce" for "all_reduce: 2 transfers, 4096 bytes"; "messages" for transfers outside a collective.
std::string collective_of(const TraceEvent& event) {
  const auto colon = event.name.find(": ");
  return colon == std::string::npos ? "messages" : event.name.substr(0, colon);
}

void add_path(Why& why, const Trace& trace, const Graph& graph, const std::vector<Segment>& path) {
  std::map<std::pair<bool, std::string>, PathShare> shares;
  int rank = -1;
  for (const Segment& segment : path) {
    const bool transfer = segment.kind == Segment::Kind::transfer;
    const auto index = static_cast<std::size_t>(segment.index);
    const Activity* work = transfer ? nullptr : &graph.works[index];
    const double seconds = (segment.end - segment.begin) / graph.steps;
    std::string name = "host";
    if (transfer)
      name = collective_of(trace.events[static_cast<std::size_t>(graph.batches[index].event)]);
    else if (work->kind == Activity::Kind::data)
      name = "loading data";
    else if (work->event >= 0)
      name = trace.events[static_cast<std::size_t>(work->event)].name;
    PathShare& share = shares[{transfer, name}];
    share.name = name;
    share.transfer = transfer;
    share.seconds += seconds;
    ++share.visits;
    const double launch = work ? std::min(work->launch / graph.steps, seconds) : 0;
    (transfer ? why.path_transfer : work->event < 0 ? why.path_host : why.path_arithmetic) += seconds - launch;
    why.path_launch += launch;
    const int lane = transfer ? graph.batches[index].lane : work->lane;
    const int here = graph.lanes[static_cast<std::size_t>(lane)].rank;
    if (rank >= 0 && here != rank) ++why.path_hops;
    rank = here;
  }
  for (auto& [key, share] : shares) why.path.push_back(std::move(share));
  std::stable_sort(why.path.begin(), why.path.end(),
                   [](const PathShare& a, const PathShare& b) { return a.seconds > b.seconds; });
}

}  // namespace

WhatIf without(Cost cost) {
  switch (cost) {
    case Cost::communication: return {.free_messages = true};
    case Cost::bubble: return {.no_turns = true};
    case Cost::imbalance: return {.equal_work = true};
    case Cost::launch: return {.no_launch = true};
    case Cost::data: return {.no_data = true};
    case Cost::arithmetic: break;
  }
  return {.free_messages = true, .no_turns = true, .equal_work = true, .no_launch = true, .no_data = true};
}

const Gain& Why::gain(Cost cost) const {
  return *std::find_if(gains.begin(), gains.end(), [&](const Gain& g) { return g.cost == cost; });
}

Why why(const Trace& trace, const std::string& step) {
  const Graph graph = make_graph(trace, step);
  const Replay whole = replay(graph);
  Why result{.ranks = graph.ranks,
             .steps = graph.steps,
             .first_step = graph.first_step,
             .steps_in_run = graph.steps_in_run,
             .modelled = trace.modelled,
             .recorded_seconds = graph.recorded / graph.steps,
             .seconds = whole.seconds / graph.steps};
  for (Cost cost : kCosts) {
    const double seconds = replay(graph, without(cost)).seconds / graph.steps;
    result.gains.push_back({cost, seconds, whole.seconds > 0 ? 1 - seconds / result.seconds : 0});
  }
  std::stable_sort(result.gains.begin(), result.gains.end(),
                   [](const Gain& a, const Gain& b) { return a.gained > b.gained; });
  if (result.gains.front().gained >= kWorthNaming) result.limit = result.gains.front().cost;
  add_path(result, trace, graph, whole.path);
  result.operations = operations_of(trace, graph);
  result.use = use_of_ranks(trace, graph, whole);
  result.sentence = sentence_of(result);
  return result;
}

}  // namespace lockstep::analysis
