// Tests of exercise 21.1: exact sums, and their cost to rank 0: traffic, memory and time.
#include "labs/week21_data_parallel/naive_all_reduce.hpp"

#include "labs/week21_data_parallel/all_reduce_testing.hpp"

namespace lockstep::week21 {
namespace {

std::string sums_are_exact(const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); }

TEST(Lab21_1, SumsAreExact) { run_cases(reduce_with(naive_all_reduce), sums_are_exact); }

TEST(Lab21_1, SumsOfIntegersToo) {
  run_cases(reduce_integers_with(naive_all_reduce), sums_are_exact, {.ranks = {3}, .sizes = sizes_of({13})});
}

TEST(Lab21_1, SumsInsideAGroup) { expect_sums_inside_a_group(naive_all_reduce); }

/// Words for a rank that sent or received something else than the naive algorithm does.
std::string wrong_traffic(int rank, const char* verb, std::uint64_t bytes, std::uint64_t expected) {
  return fmt::format("rank {} {} {} bytes, expected {}{}", rank, verb, bytes, expected,
                     rank == 0 ? ": everything goes through rank 0, the array of each other rank once"
                               : ": one array to rank 0, one sum back");
}

TEST(Lab21_1, EverythingGoesThroughRankZero) {
  run_cases(reduce_with(naive_all_reduce), [](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t n = c.size * sizeof(float);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Traffic& traffic = outcome.ledgers[rank].traffic;
      const std::uint64_t expected = c.ranks == 1 ? 0 : rank == 0 ? (c.ranks - 1) * n : n;
      if (traffic.bytes_sent != expected) return wrong_traffic(rank, "sent", traffic.bytes_sent, expected);
      if (traffic.bytes_received != expected) return wrong_traffic(rank, "received", traffic.bytes_received, expected);
    }
    return "";
  });
}

TEST(Lab21_1, RankZeroHoldsOneScratch) {
  run_cases(reduce_with(naive_all_reduce), [](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t n = c.size * sizeof(float);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::uint64_t held = outcome.ledgers[rank].memory.peak_total, allowed = rank == 0 ? 2 * n : n;
      if (held > allowed)
        return fmt::format("rank {} held {} bytes at its peak, allowed {}: {}", rank, held, allowed,
                           rank == 0 ? "its array and one scratch buffer, used for one peer after the other"
                                     : "only rank 0 needs a scratch");
    }
    return "";
  });
}

// Through rank 0's one port go (p − 1)·n bytes in and (p − 1)·n bytes out, so the time grows with p, whatever the
// order.
TEST(Lab21_1, TimeGrowsWithTheRanks) {
  constexpr double alpha = 1e-6, beta = 1e-9, gamma = 1e-10;  // seconds; seconds per byte; per byte reduced
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const double n = static_cast<double>(c.size * sizeof(float)), others = c.ranks - 1;
    const double port = 2 * others * n * beta;
    const double formula = others * (alpha + n * (2 * beta + gamma)) + alpha;
    const double seconds = slowest(outcome);
    if (seconds < port)
      return fmt::format(
          "took {:.1f} µs; 2(p − 1)·n bytes through rank 0's port take {:.1f} µs: this is another algorithm",
          seconds * 1e6, port * 1e6);
    if (seconds > 1.05 * formula)
      return fmt::format("took {:.1f} µs; (p − 1)(α + 2nβ + nγ) + α is {:.1f} µs: is the sum sent to all in one batch?",
                         seconds * 1e6, formula * 1e6);
    return "";
  };
  run_cases(time_of(naive_all_reduce), judge,
            {.ranks = {2, 4, 8},
             .sizes = sizes_of({16384}),
             .simulator_only = "it checks virtual time, which only the simulator has",
             .adjust = [](const Case&, RunOptions& options) {
               options.machine = Machine::uniform(alpha, beta, gamma);
               options.machine.eager_bytes = 0;
             }});
}

}  // namespace
}  // namespace lockstep::week21
