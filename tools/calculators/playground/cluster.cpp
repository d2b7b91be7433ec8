// A virtual cluster: a program on p ranks of the simulator, how it ends, its timeline and, of an all-reduce, who holds
// what.
#include <algorithm>

#include "common/analysis/holdings.hpp"
#include "common/runtime/run.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/answer.hpp"
#include "tools/calculators/playground/cluster_programs.hpp"

namespace lockstep::playground {

namespace {

using view::list;
using view::text;

const ClusterProgram& program_of(const Request& request) {
  const std::string& name = request.text("program");
  for (const ClusterProgram& program : cluster_programs())
    if (program.name == name) return program;
  throw Error(Verdict::usage, fmt::format("there is no program '{}'", name));
}

/// [kind, begin, end, what, line] of what a rank does: 0 arithmetic, 1 messages, 2 waits for what never comes.
struct Bar {
  int kind = 0;
  double begin = 0, end = 0;
  std::string what, where;
};

std::vector<std::vector<Bar>> bars_of(const Outcome& outcome, int ranks) {
  std::vector<std::vector<Bar>> bars(static_cast<std::size_t>(ranks));
  for (const TraceEvent& event : outcome.trace.events)
    if (event.compute() || event.transfer())
      bars[static_cast<std::size_t>(event.rank)].push_back(
          {event.compute() ? 0 : 1, event.begin, event.end, event.name, event.where});
  for (const TraceStuck& stuck : outcome.trace.stuck) {
    std::vector<Bar>& own = bars[static_cast<std::size_t>(stuck.rank)];
    const double since = own.empty() ? 0 : own.back().end;
    own.push_back({2, since, since, stuck.reason, stuck.where});
  }
  return bars;
}

std::string written(const std::vector<std::vector<Bar>>& ranks) {
  return list(ranks, [](const std::vector<Bar>& bars) {
    return list(bars, [](const Bar& bar) {
      return fmt::format(R"([{},{},{},{},{}])", bar.kind, bar.begin, bar.end, text(bar.what), text(bar.where));
    });
  });
}

/// [step][rank][chunk] of an all-reduce: what `./lab view` calls "who holds what"; [] of sizes of which it does not
/// speak.
std::string held(const Outcome& outcome) {
  const analysis::Holdings holdings = analysis::holdings_of(outcome.trace);
  if (!holdings.none.empty()) return "[]";
  return list(holdings.steps, [](const auto& step) {
    return list(
        step, [](const auto& rank) { return list(rank, [](const analysis::Held& each) { return text(each.text); }); });
  });
}

Slice filled(Rank me, std::size_t elements, float value) {
  Slice array = me.allocate(elements, DType::f32, Category::gradient);
  upload(me, array, std::vector<float>(elements, value));
  return array;
}

}  // namespace

std::string cluster(const Request& request) {
  const ClusterProgram& program = program_of(request);
  const week21::CostModel cost = cost_of(request);
  RunOptions options{.ranks = request.count("p", 16), .trace = true, .threads = 1, .stack_bytes = 64 * 1024};
  options.machine = Machine::uniform(cost.alpha, cost.beta, cost.gamma);
  options.machine.eager_bytes = static_cast<std::uint64_t>(request.number("eager", 0, 1e9));
  const auto elements = static_cast<std::size_t>(request.count("elements", 1 << 20));
  const Outcome outcome = run(options, [&](Rank me) {
    Slice mine = filled(me, elements, static_cast<float>(me.rank() + 1)), theirs = filled(me, elements, 0);
    program.run(me, mine, theirs);
    if (!program.predicted) return;
    const auto sum = static_cast<float>(me.size() * (me.size() + 1) / 2);
    for (const float value : to_host(me, mine))
      if (value != sum)
        throw Error(Verdict::fail, fmt::format("rank {} holds {} instead of {}", me.rank(), value, sum));
  });
  std::uint64_t most_sent = 0;
  for (const RankLedger& ledger : outcome.ledgers) most_sent = std::max(most_sent, ledger.traffic.bytes_sent);
  const double bytes = 4.0 * static_cast<double>(elements);
  return fmt::format(
      R"({{"verdict":"{}","message":{},"seconds":{},"predicted":{},"messages":{},"sent":{},"ranks":{},"steps":{}}})",
      to_string(outcome.verdict), text(outcome.message), outcome.seconds,
      program.predicted ? program.predicted(cost, options.ranks, bytes) : 0.0, outcome.messages, most_sent,
      written(bars_of(outcome, options.ranks)), program.predicted && outcome.passed() ? held(outcome) : "[]");
}

}  // namespace lockstep::playground
