// Tests of exercise 23.7, parts c and d: the layer against one rank that holds all experts, its messages, and the
// gradients of a whole data-parallel step, whatever the number of ranks that share the experts.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/experts_step_testing.hpp"

namespace lockstep::week23::experts_test {
namespace {

/// The first error of parts a and b, on which all of this depends.
std::string earlier_part() {
  const Grouping grouping = group_by_expert({2, 0, 1, 0}, 3);
  if (grouping.counts != std::vector<std::size_t>{2, 1, 1} || grouping.order != std::vector<std::int32_t>{1, 3, 2, 0})
    return "23.7a first: group_by_expert of 2 0 1 0 should give the counts 2 1 1 and the order 1 3 2 0.";
  return "";
}
CasePlan layer_plan() { return plan_of_loads(earlier_part); }
testing::CaseJudge judged(std::string (*wrong)(const Load&, const Outcome&)) {
  return [=](const Case& c, const Outcome& outcome) { return wrong(Load(c), outcome); };
}
TEST(Lab23_7c, IsTheLayerOfOneRank) { run_loads(layer(false), judged(wrong_forward), layer_plan()); }
TEST(Lab23_7c, GradientsAreThoseOfOneRank) { run_loads(layer(true), judged(wrong_backward), layer_plan()); }

// Part d --------------------------------------------------------------------------------------------------------------

/// Groups of c.size ranks share the experts; each rank's loss is the mean over its tokens. What each contributes here:
/// its number to what is replicated, and to its experts a sum over its group.
TEST(Lab23_7d, BothGradientsAreMeansOverAllRanks) {
  constexpr std::size_t kReplicated = 16, kExperts = 24;
  const auto value = [](int rank) { return static_cast<double>(1 + rank * rank); };
  const auto program = [=](Rank me, const Case& c) {
    const int p = static_cast<int>(c.size);
    Rank same = me.split(me.rank() % p, me.rank());
    double group = 0;
    for (int r = me.rank() / p * p; r < me.rank() / p * p + p; ++r) group += value(r) * (1 + me.rank() % p);
    Slice replicated = me.allocate(kReplicated, DType::f32, Category::gradient),
          experts = me.allocate(kExperts, DType::f32, Category::gradient);
    fill(me, replicated, static_cast<float>(value(me.rank())));
    fill(me, experts, static_cast<float>(group));
    average_gradients(me, same, replicated, experts);
    return Values{to_host(me, replicated)[0], to_host(me, experts)[0]};
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    double sum = 0;
    for (int rank = 0; rank < c.ranks; ++rank) sum += value(rank);
    const auto d = static_cast<double>(c.ranks), p = static_cast<double>(c.size);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      const double replicated = sum / d, experts = replicated * (1 + rank % static_cast<int>(c.size));
      const std::string where = fmt::format("{} ranks, of which {:g} share the experts: rank {}", c.ranks, p, rank);
      if (!near(seen[0], replicated, replicated))
        return fmt::format("{}: a gradient that all ranks have is {:g}, expected {:g}, the mean over all ranks", where,
                           seen[0], replicated);
      if (!near(seen[1], experts, experts))
        return fmt::format("{}: a gradient of its experts is {:g}, expected {:g}{}", where, seen[1], experts,
                           near(seen[1], experts * p, experts)
                               ? fmt::format(": {:g} times too large. It is a sum over all {:g} ranks, of which the "
                                             "{:g} in same_experts are only some",
                                             p, d, d / p)
                           : near(seen[1], experts / p, experts)
                               ? fmt::format(": {:g} times too small. It was divided by p twice", p)
                               : "");
      const std::uint64_t most = 4 * 2 *
                                 (kReplicated * (c.ranks - 1u) / static_cast<std::uint64_t>(c.ranks) +
                                  kExperts * (c.ranks / c.size - 1) / (c.ranks / c.size) + 4);
      if (const std::uint64_t sent = outcome.ledgers[static_cast<std::size_t>(rank)].traffic.bytes_sent; sent > most)
        return fmt::format("{} sent {} bytes, expected at most {}: the experts' gradients travel among same_experts",
                           where, sent, most);
    }
    return "";
  };
  run_cases(program, judge, plan_of_groups());
}

// All parts -----------------------------------------------------------------------------------------------------------

/// One rank that has all experts, groups of two, and all ranks together: the same gradients.
TEST(Lab23_7, GradientsDoNotDependOnWhoSharesTheExperts) {
  const auto program = [](Rank me, const Case& c) { return step(me, c); };
  const auto judge = [](const Case& c, const Outcome& outcome) { return wrong_step(c, outcome, ExactStep(c.ranks)); };
  run_cases(program, judge, plan_of_groups());
}

}  // namespace
}  // namespace lockstep::week23::experts_test
