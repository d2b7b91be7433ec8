#include "tools/analyse/view/panels.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/analysis/diff.hpp"
#include "common/analysis/holdings.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/support/text/units.hpp"
#include "tools/analyse/view/json_text.hpp"

namespace lockstep::view {
namespace {

constexpr std::size_t kMostLinks = 200, kMostSamples = 4000, kMostDifferences = 30;

/// True if the events of the recorded ranks and their ledgers agree. Events are kept to the nanosecond, ledgers are
/// exact.
bool agrees(const Trace& trace, const analysis::Shares& shares) {
  double most = 1e-12;
  std::map<int, std::size_t> events;
  for (const TraceEvent& e : trace.events)
    if (e.queue == 0) ++events[e.rank];
  for (const analysis::TimeShare& s : shares.ranks)
    for (const TraceTotals& t : trace.totals) {
      if (t.rank != s.rank) continue;
      const double rounding = 1e-9 * static_cast<double>(events[s.rank] + 2) + 1e-9 * t.seconds;
      most =
          std::max({most, (std::abs(t.busy - s.computing) - rounding), std::abs(t.waiting - s.waiting()) - rounding});
    }
  return most <= 1e-12;
}

/// PyTorch's profiler has no ledgers, and of a collective neither messages nor memory: the page leaves those out.
bool has_ledgers(const Trace& trace) { return trace.backend != "pytorch"; }

}  // namespace

std::string share_json(const analysis::TimeShare& s) {
  return fmt::format("[{},{},{},{},{},{}]", s.rank, ns(s.seconds), ns(s.computing), ns(s.exposed), ns(s.bubble),
                     ns(s.other));
}

std::string legend_json(const Trace& trace, const analysis::Shares& shares) {
  const std::string ledger = list(trace.totals, [](const TraceTotals& t) {
    return fmt::format("[{},{},{},{},{},{},{}]", t.rank, ns(t.seconds), ns(t.busy), ns(t.waiting), ns(t.busy_elsewhere),
                       t.messages_sent, t.bytes_sent);
  });
  const std::string none =
      trace.totals.empty() && has_ledgers(trace)
          ? "This trace has no ledgers to hold the sums beside: it is a part of a run, or an older one."
          : "";
  return fmt::format(R"("legend":{{"all":{},"ranks":{}}},"no_ledger":{},"ledger":{},"agrees":{})",
                     share_json(shares.all), list(shares.ranks, share_json), text(none), ledger,
                     trace.totals.empty()    ? "null"
                     : agrees(trace, shares) ? "true"
                                             : "false");
}

std::string why_json(const Trace& trace, bool whole, const std::string& limit) {
  try {
    if (!whole) throw Error(Verdict::usage, "Not known: only some of the ranks were recorded.");
    const auto stop = analysis::stop_of(trace);
    if (!trace.stuck.empty() && !stop) throw Error(Verdict::usage, "The run did not end.");
    if (stop && stop->finished == 0)
      throw Error(Verdict::usage, "The run stopped before a step had ended on all ranks.");
    const analysis::Why why = analysis::why(trace);
    const std::string gains = list(why.gains, [](const analysis::Gain& g) {
      return fmt::format("[{},{},{:.6g}]", text(analysis::to_string(g.cost)), ns(g.seconds), g.gained);
    });
    const std::string path = list(why.path, [](const analysis::PathShare& p) {
      return fmt::format("[{},{},{},{}]", text(p.name), p.transfer, ns(p.seconds), p.visits);
    });
    return fmt::format(R"("why":{{"sentence":{},"steps":{},"seconds":{},"gains":{},"path":{}}})",
                       text(!limit.empty() ? limit
                            : stop         ? fmt::format("Until it stopped, {}", why.sentence)
                                           : why.sentence),
                       why.steps, ns(why.seconds), gains, path);
  } catch (const Error& error) {
    return fmt::format(R"("why":{{"sentence":"","none":{}}})", text(limit.empty() ? error.what() : limit));
  }
}

std::string traffic_json(const Trace& trace, const std::vector<analysis::Flight>& flights) {
  if (!has_ledgers(trace)) return R"("links":null)";
  struct Link {
    int from, to;
    std::uint64_t messages = 0, bytes = 0;
  };
  std::map<std::pair<int, int>, Link> all;
  for (const analysis::Flight& f : flights) {
    if (f.from < 0) continue;  // what a rank sends is counted where it sends it, as in its ledger
    const int rank = trace.events[static_cast<std::size_t>(f.from)].rank, peer = f.sent->peer;
    Link& link = all.try_emplace({rank, peer}, Link{rank, peer}).first->second;
    ++link.messages;
    link.bytes += f.sent->bytes;
  }
  std::vector<Link> links;
  std::uint64_t messages = 0, bytes = 0;
  for (const auto& [key, link] : all) links.push_back(link), messages += link.messages, bytes += link.bytes;
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.bytes > b.bytes; });
  const std::size_t count = links.size();
  links.resize(std::min(count, kMostLinks));
  return fmt::format(
      R"("links":{{"all":{},"messages":{},"bytes":{},"most":{}}})", count, messages, bytes,
      list(links, [](const Link& l) { return fmt::format("[{},{},{},{}]", l.from, l.to, l.messages, l.bytes); }));
}

std::string memory_json(const Trace& trace) {
  struct Change {
    double time;
    std::string category;
    long long bytes;
  };
  std::map<int, std::vector<Change>> by_rank;
  for (const TraceBlock& block : trace.blocks) {
    by_rank[block.rank].push_back({block.begin, block.category, static_cast<long long>(block.bytes)});
    if (block.end >= 0)
      by_rank[block.rank].push_back({block.end, block.category, -static_cast<long long>(block.bytes)});
  }
  const std::string none =
      trace.blocks.empty() && has_ledgers(trace)
          ? "This trace does not say when memory was taken: a GPU's order of work is not its host's."
          : "";
  std::string out = fmt::format("\"no_memory\":{},\"memory\":[", text(none));
  std::size_t samples = 0;
  for (auto& [rank, changes] : by_rank) {
    if ((samples += changes.size()) > kMostSamples && rank > 0) break;
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    out += fmt::format("{}[{},{}]", out.back() == '[' ? "" : ",", rank, list(changes, [](const Change& c) {
                         return fmt::format("[{},{},{}]", ns(c.time), text(c.category), c.bytes);
                       }));
  }
  return out + "]";
}

namespace {

std::string holdings_json(const Trace& trace, const std::vector<analysis::Flight>& flights,
                          const analysis::Labels& labels) {
  const analysis::Holdings holdings = analysis::holdings_of(trace, flights);
  if (!holdings.none.empty()) return fmt::format(R"({{"none":{}}})", text(holdings.none));
  const auto row = [](const std::vector<analysis::Held>& chunks) {
    return list(chunks, [](const analysis::Held& h) {
      return fmt::format("[{},{}]", text(h.text), h.complete ? 1 : h.twice ? 2 : 0);
    });
  };
  const std::string steps = list(holdings.steps, [&](const auto& ranks) { return list(ranks, row); });
  const std::string times = list(holdings.times, [](const std::vector<double>& ranks) {
    return list(ranks, [](double seconds) { return std::to_string(ns(seconds)); });
  });
  // Messages by the sender's batch: the k-th of a rank is in step k.
  std::map<int, std::vector<std::pair<double, int>>> batches;  // by rank
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.events[i].transfer())
      batches[trace.events[i].rank].emplace_back(trace.events[i].begin, static_cast<int>(i));
  std::map<int, std::size_t> step;  // by event
  for (auto& [rank, all] : batches) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < all.size(); ++k) step[all[k].second] = k + 1;
  }
  std::vector<std::string> messages;
  for (std::size_t i = 0; i < flights.size(); ++i) {
    const analysis::Flight& f = flights[i];
    if (f.from < 0 || step[f.from] >= holdings.steps.size()) continue;
    const TraceEvent& e = trace.events[static_cast<std::size_t>(f.from)];
    const TraceMessage& m = *f.sent;
    messages.push_back(
        fmt::format("[{},{},{},{},{},{}]", step[f.from], e.rank, m.peer, text(labels.messages[i]), m.bytes, ns(f.end)));
  }
  return fmt::format(R"({{"steps":{},"times":{},"messages":{}}})", steps, times,
                     list(messages, [](const std::string& m) { return m; }));
}

std::string stuck_json(const Trace& trace) {
  const auto queue = [&](int index) {
    return text(index < 0 || static_cast<std::size_t>(index) >= trace.queues.size()
                    ? ""
                    : trace.queues[static_cast<std::size_t>(index)]);
  };
  return list(trace.stuck, [&](const TraceStuck& s) {
    double since = 0;
    for (const TraceEvent& e : trace.events)
      if (e.rank == s.rank && e.queue == s.queue && !e.region()) since = std::max(since, e.end);
    return fmt::format("[{},{},{},{},{},{},{},{}]", s.rank, queue(s.queue), s.needs_rank, queue(s.needs_queue), s.link,
                       text(s.where), text(s.reason), ns(since));
  });
}

/// The trace's event of an access. If it was under way when the run ended, it is shown from its begin.
std::string access_json(const Trace& trace, int rank, const TraceAccess& access, bool earlier) {
  const bool batch = access.what.ends_with(" started");
  double begin = access.time, end = access.time, last = 0;
  bool over = !earlier || access.position == 0;  // the later one has not begun
  for (const TraceEvent& e : trace.events) {
    last = std::max(last, e.end);
    const bool is_it = e.kind() == (batch ? TraceEvent::Kind::transfer : TraceEvent::Kind::compute) && e.rank == rank &&
                       e.queue == access.queue && e.first == access.position && access.position > 0;
    if (is_it) begin = e.begin, end = e.end, over = true;
  }
  if (!over) end = std::max(last, begin);
  return fmt::format(R"([{},"{}",{},{},{},{},{},{}])", text(trace.queues[static_cast<std::size_t>(access.queue)]),
                     batch ? 't' : 'w', text(access.what), text(access.where), access.writes, ns(begin), ns(end), over);
}

/// The two accesses of a race, the memory that both use, and what else used it.
std::string race_json(const Trace& trace) {
  if (trace.races.empty()) return "null";
  const TraceRace& race = trace.races.front();
  double begin = 0, end = -1;
  for (const TraceBlock& block : trace.blocks)
    if (block.rank == race.rank && block.id == race.block) begin = block.begin, end = block.end;
  std::vector<std::string> uses;
  for (const TraceEvent& e : trace.events) {
    const auto in_block = [&](const auto& use) { return use.block == race.block; };
    const TraceCompute* compute = e.compute();
    const TraceTransfer* transfer = e.transfer();
    if (e.rank != race.rank || !((compute && std::ranges::any_of(compute->uses, in_block)) ||
                                 (transfer && std::ranges::any_of(transfer->messages, in_block))))
      continue;
    uses.push_back(fmt::format(R"([{},"{}",{},{}])", text(trace.queues[static_cast<std::size_t>(e.queue)]),
                               transfer ? 't' : 'w', ns(e.begin), ns(e.end)));
  }
  return fmt::format(
      R"({{"rank":{},"offset":{},"bytes":{},"category":{},"allocated":{},"life":[{},{}],"accesses":[{},{}],"uses":{}}})",
      race.rank, race.offset, race.bytes, text(race.category), text(race.allocated), ns(begin), ns(end),
      access_json(trace, race.rank, race.first, true), access_json(trace, race.rank, race.second, false),
      list(uses, [](const std::string& use) { return use; }));
}

}  // namespace

std::string picture_json(const Trace& trace, const std::vector<analysis::Flight>& flights,
                         const analysis::Labels& labels) {
  return fmt::format(R"("holdings":{},"stuck":{},"race":{})", holdings_json(trace, flights, labels), stuck_json(trace),
                     race_json(trace));
}

std::string diff_json(const Trace& a, const Trace& b) {
  try {
    analysis::Diff diff = analysis::diff(a, b);
    if (diff.differences.size() > kMostDifferences) diff.differences.resize(kMostDifferences);
    const std::string rows = list(diff.differences, [](const analysis::Difference& d) {
      return fmt::format("[{},{},{},{},{},{},{}]", static_cast<int>(d.kind), text(d.name),
                         ns(d.seconds_a + d.only_seconds_a), ns(d.seconds_b + d.only_seconds_b), d.pairs, d.only_a,
                         d.only_b);
    });
    const std::string categories = list(diff.categories, [](const analysis::CategoryDifference& c) {
      return fmt::format("[{},{},{}]", static_cast<int>(c.kind), ns(c.seconds_a), ns(c.seconds_b));
    });
    return fmt::format(R"("diff":{{"steps":{},"seconds":[{},{}],"categories":{},"rows":{}}})", diff.steps,
                       ns(diff.seconds_a), ns(diff.seconds_b), categories, rows);
  } catch (const Error& error) {
    return fmt::format(R"("diff":{{"none":{}}})", text(error.what()));
  }
}

}  // namespace lockstep::view
