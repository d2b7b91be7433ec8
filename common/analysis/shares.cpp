#include "common/analysis/shares.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/analysis/intervals.hpp"

namespace lockstep::analysis {
namespace {

/// One end of a message. The k-th sent on a (group, queue) from one rank to another is the k-th received there.
struct End {
  int event = -1;
  const TraceMessage* message = nullptr;
};
struct Ends {
  std::vector<End> sends, receives;
};

std::vector<int> transfers_in_order(const Trace& trace) {
  std::vector<int> order;
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.events[i].transfer()) order.push_back(static_cast<int>(i));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const TraceEvent &x = trace.events[static_cast<std::size_t>(a)], &y = trace.events[static_cast<std::size_t>(b)];
    return std::tie(x.rank, x.queue, x.first, x.begin) < std::tie(y.rank, y.queue, y.first, y.begin);
  });
  return order;
}

Flight flight(const Trace& trace, const End& send, const End& receive) {
  Flight f{.from = send.event, .to = receive.event, .sent = send.message, .received = receive.message};
  const TraceEvent* from = send.event < 0 ? nullptr : &trace.events[static_cast<std::size_t>(send.event)];
  const TraceEvent* to = receive.event < 0 ? nullptr : &trace.events[static_cast<std::size_t>(receive.event)];
  const TraceMessage& m = from ? *f.sent : *f.received;
  const bool eager = trace.modelled ? m.bytes <= trace.eager_bytes : from && to && from->end < to->begin;
  if (from && to)
    f.begin = eager ? from->begin : std::max(from->begin, to->begin);
  else if (from)
    f.begin = trace.modelled ? std::max(from->begin, from->end + m.latency - m.seconds) : from->begin;
  else
    f.begin = trace.modelled ? std::max(to->begin, to->end - m.seconds) : to->begin;
  f.end = to ? to->end : from->end;
  // In a batch with several receives the price determines this one's arrival, unless it was the last.
  if (to && trace.modelled && to->transfer()->messages.size() > 2) f.end = std::min(f.end, f.begin + m.seconds);
  f.end = std::max(f.end, f.begin);
  return f;
}

}  // namespace

std::vector<Flight> flights_of(const Trace& trace) {
  std::map<std::tuple<std::uint32_t, int, int, int>, Ends> all;  // (group, queue, from, to)
  for (int index : transfers_in_order(trace)) {
    const TraceEvent& e = trace.events[static_cast<std::size_t>(index)];
    for (const TraceMessage& m : e.transfer()->messages) {
      Ends& ends = all[{e.transfer()->group, e.queue, m.sends ? e.rank : m.peer, m.sends ? m.peer : e.rank}];
      (m.sends ? ends.sends : ends.receives).push_back({index, &m});
    }
  }
  std::vector<Flight> flights;
  for (const auto& [key, ends] : all)
    for (std::size_t k = 0; k < std::max(ends.sends.size(), ends.receives.size()); ++k)
      flights.push_back(flight(trace, k < ends.sends.size() ? ends.sends[k] : End{},
                               k < ends.receives.size() ? ends.receives[k] : End{}));
  return flights;
}

namespace {

struct OfRank {
  std::vector<Interval> going_on;  // messages, and arithmetic on other queues
  std::vector<Interval> pending;   // of a profiler's trace: a collective has begun here, and another rank is late
  std::vector<int> waits;          // events of main
  TimeShare share;
};

std::map<int, OfRank> by_rank(const Trace& trace, const std::vector<Flight>& flights, double& seconds) {
  std::map<int, OfRank> ranks;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& e = trace.events[i];
    OfRank& mine = ranks[e.rank];
    mine.share.rank = e.rank;
    mine.share.seconds = std::max(mine.share.seconds, e.end);
    seconds = std::max(seconds, e.end);
    if (e.compute() && e.queue == 0) mine.share.computing += e.end - e.begin;
    if (e.compute() && e.queue != 0) mine.going_on.push_back({e.begin, e.end});
    if (e.transfer() && trace.backend == "pytorch" && !e.transfer()->messages.empty() &&
        e.name.ends_with(": ranks arrive"))
      mine.pending.push_back({e.begin, e.end});
    if (e.wait() && e.queue == 0) mine.waits.push_back(static_cast<int>(i));
  }
  for (const Flight& f : flights)
    for (int event : {f.from, f.to}) {
      if (event < 0) continue;
      const TraceEvent& e = trace.events[static_cast<std::size_t>(event)];
      ranks[e.rank].going_on.push_back({f.begin, std::min(f.end, e.end)});
    }
  return ranks;
}

void split_wait(Shares& shares, TimeShare& share, int index, const TraceEvent& wait,
                const std::vector<Interval>& going_on) {
  double until = wait.begin;
  const auto add = [&](double end, bool exposed) {
    if (end <= until) return;
    shares.waits.push_back({index, until, end, exposed});
    (exposed ? share.exposed : share.bubble) += end - until;
    until = end;
  };
  auto at = std::partition_point(going_on.begin(), going_on.end(), [&](const Interval& i) { return i.end <= until; });
  for (; at != going_on.end() && at->begin < wait.end; ++at) {
    add(at->begin, false);
    add(std::min(at->end, wait.end), true);
  }
  add(wait.end, false);
}

}  // namespace

Shares shares_of(const Trace& trace, const std::vector<Flight>& flights) {
  Shares shares;
  for (auto& [rank, mine] : by_rank(trace, flights, shares.seconds)) {
    std::erase_if(mine.going_on, [](const Interval& i) { return i.end <= i.begin; });
    const std::vector<Interval> going_on = outside(joined(std::move(mine.going_on)), joined(std::move(mine.pending)));
    TimeShare& share = mine.share;
    std::sort(mine.waits.begin(), mine.waits.end(), [&](int a, int b) {
      return trace.events[static_cast<std::size_t>(a)].begin < trace.events[static_cast<std::size_t>(b)].begin;
    });
    for (int wait : mine.waits) split_wait(shares, share, wait, trace.events[static_cast<std::size_t>(wait)], going_on);
    shares.ranks.push_back(share);
  }
  for (TimeShare& share : shares.ranks) {
    share.other = std::max(0.0, shares.seconds - share.computing - share.waiting());
    shares.all.seconds += shares.seconds;
    shares.all.computing += share.computing;
    shares.all.exposed += share.exposed;
    shares.all.bubble += share.bubble;
    shares.all.other += share.other;
  }
  return shares;
}

TimeShare share_of_steps(const Trace& trace, const Steps& steps, const Shares& shares) {
  TimeShare share;
  for (const auto& [rank, all] : steps.by_rank)
    for (std::size_t k = 0; k < steps.count; ++k) share.seconds += all[k]->end - all[k]->begin;
  for (const TraceEvent& e : trace.events)
    if (e.compute() && e.queue == 0 && steps.hold(e)) share.computing += e.end - e.begin;
  for (const WaitPart& part : shares.waits)
    if (steps.hold(trace.events[static_cast<std::size_t>(part.event)]))
      (part.exposed ? share.exposed : share.bubble) += part.end - part.begin;
  share.other = std::max(0.0, share.seconds - share.computing - share.waiting());
  return share;
}

}  // namespace lockstep::analysis
