// Tests of exercise 21.11: right sums, the same bits everywhere, bounded scratch; and the race against the ring, whose
// sums are looked at as well.
#include "labs/week21_data_parallel/open_all_reduce.hpp"

#include "common/support/text/units.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {
namespace {

/// Nodes of as many ranks as divide p, at most three.
int ranks_per_node(int p) { return p % 3 == 0 ? 3 : p % 2 == 0 ? 2 : 1; }

Collective in_nodes_of(const std::function<int(int p)>& per_node) {
  return [=](Rank me, const Slice& data) { open_all_reduce(make_team(me, per_node(me.size())), data); };
}

TEST(Lab21_11, SumsAreExact) {
  for (const auto& per_node : {std::function<int(int)>(ranks_per_node), std::function<int(int)>([](int) { return 1; }),
                               std::function<int(int)>([](int p) { return p; })}) {
    run_cases(reduce_with(in_nodes_of(per_node)),
              [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); });
    if (HasFailure()) return;
  }
}

TEST(Lab21_11, AllRanksEndWithTheSameBits) {
  expect_the_same_bits_everywhere(in_nodes_of(ranks_per_node), {2, 3, 4, 6, 8});
}

TEST(Lab21_11, SumsInsideAGroup) { expect_sums_inside_a_group(in_nodes_of(ranks_per_node)); }

TEST(Lab21_11, NeedsNoMoreThanOneArrayMore) {
  run_cases(reduce_with(in_nodes_of(ranks_per_node)), [](const Case& c, const Outcome& outcome) {
    return too_much_memory(
        c, outcome, [&](int) { return c.size * sizeof(float); }, "and at most as much again for what it receives");
  });
}

struct Race {
  const char* machine;
  int ranks, per_node;
  std::size_t bytes;

  std::string words() const {
    return fmt::format("{} on {} ranks of {}", format_bytes(static_cast<double>(bytes)), ranks, machine);
  }
};

constexpr Race kRaces[] = {
    {"pcie-box", 4, 2, 256 << 10}, {"dgx-a100-100gbe", 32, 8, 1 << 20}, {"dgx-a100-100gbe", 24, 8, 1 << 20}};

/// Makes its groups, and gives what then sums.
using SetUp = std::function<std::function<void(Slice)>(Rank me)>;

/// Sums and seconds of one run: a rank's values, and behind them what the sum took there.
CaseProgram timed_sum(const SetUp& set_up) {
  return [set_up](Rank me, const Case& c) {
    Slice data = uploaded(me, inputs_of(me.rank(), c.size, c.ranks));
    const auto sum = set_up(me);
    const double began = me.now();
    sum(data);
    const double seconds = me.now() - began;
    Values values = host(me, data);
    values.push_back(seconds);
    return values;
  };
}

/// Each element travels at least p − 1 times to be summed and p − 1 times as a sum, by whichever route.
std::string too_little_sent(const Race& race, const Outcome& outcome) {
  std::uint64_t sent = 0;
  for (const RankLedger& ledger : outcome.ledgers) sent += ledger.traffic.bytes_sent;
  const std::uint64_t least = 2 * (static_cast<std::uint64_t>(race.ranks) - 1) * race.bytes;
  if (sent >= least) return "";
  return fmt::format("USAGE: all ranks together sent {} bytes, and no all-reduce of {} needs less than {}", sent,
                     race.words(), least);
}

/// Finds data read on the host, where computing takes no virtual time: only this test reads there, once on each rank.
std::string read_on_the_host(const Outcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank)
    if (outcome.ledgers[rank].reads > 1)
      return fmt::format("rank {} reads its data on the host, where sums take no virtual time: sum with `add`", rank);
  return "";
}

/// The virtual seconds of the slowest rank, where the sums are right; 0 and a failure where not.
double seconds_of(const Race& race, const SetUp& set_up) {
  double slowest = 0;
  const auto judge = [&](const Case& c, const Outcome& outcome) {
    Outcome sums = outcome;
    for (Values& values : sums.values) {
      slowest = std::max(slowest, values.back());
      values.pop_back();
    }
    return first_of({not_the_sum(sums, c.size), too_little_sent(race, outcome), read_on_the_host(outcome)});
  };
  run_cases(timed_sum(set_up), judge,
            {.ranks = {race.ranks},
             .sizes = sizes_of({race.bytes / sizeof(float)}),
             .simulator_only = "it checks virtual time, which only the simulator has",
             .adjust = [&](const Case&, RunOptions& options) {
               options.perturb.reset();  // its delays would be measured
               options.machine = find_machine(race.machine, LOCKSTEP_SOURCE_DIR "/bench/machines");
             }});
  return slowest;
}

TEST(Lab21_11, IsFasterThanTheRing) {
  double logarithms = 0;
  for (const Race& race : kRaces) {
    const double ring =
        seconds_of(race, [](Rank me) { return [me](const Slice& data) { ring_all_reduce(me, data); }; });
    const double mine = seconds_of(race, [&race](Rank me) {
      return [team = make_team(me, race.per_node)](const Slice& data) { open_all_reduce(team, data); };
    });
    if (HasFailure() || IsSkipped()) return;
    ASSERT_GT(mine, 0) << race.words() << ": an all-reduce takes time";
    const std::string times = fmt::format("{:.1f} µs, the ring {:.1f} µs", mine * 1e6, ring * 1e6);
    ASSERT_LT(mine, 0.95 * ring) << race.words() << ": " << times
                                 << ". At most 95% of the ring's time counts as faster: count the steps, and what "
                                    "each carries over the slowest link";
    note_score(race.words(), ring / mine, times);
    logarithms += std::log(ring / mine);
  }
  note_score("all three", std::exp(logarithms / std::size(kRaces)), "geometric mean");
}

}  // namespace
}  // namespace lockstep::week21
