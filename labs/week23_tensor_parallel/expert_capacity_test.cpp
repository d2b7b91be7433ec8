// Tests of exercise 23.10: which slots are kept, the layer that drops the others, and the loss that balances.
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/experts_step_testing.hpp"

namespace lockstep::week23::experts_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto keep_within = testing::answer<week23::keep_within>;
constexpr auto balance_loss = testing::answer<week23::balance_loss>;
constexpr auto balance_gradient = testing::answer<week23::balance_gradient>;

// Part a --------------------------------------------------------------------------------------------------------------

struct Slots {
  std::vector<std::int32_t> expert_of;
  std::size_t experts, k;
};

std::string slots_text(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t number : numbers) text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  return text;
}

/// Describes an error in a slot.
std::string wrong_slot(const Slots& slots, const std::vector<std::int32_t>& is, std::size_t slot,
                       std::size_t capacity) {
  const auto dropped = static_cast<std::int32_t>(slots.experts), expert = slots.expert_of[slot];
  const std::string name = fmt::format("choice {} of token {}, expert {},", slot % slots.k, slot / slots.k, expert);
  if (is[slot] != dropped && is[slot] != expert)
    return fmt::format("{} has become {}: a slot keeps its expert, or has the number {}", name, is[slot], dropped);
  const auto kept = static_cast<std::size_t>(std::count(is.begin(), is.end(), expert));
  const std::string order = "First choices come before second ones, and lower tokens before higher ones";
  if (is[slot] == dropped)
    return fmt::format("{} is dropped, expected: kept. {}", name,
                       kept < capacity ? fmt::format("The expert keeps only {} of {}", kept, capacity) : order);
  return fmt::format(
      "{} is kept, expected: dropped. {}", name,
      kept > capacity ? fmt::format("The expert keeps {}, and has a capacity of {}", kept, capacity) : order);
}

std::string wrongly_kept(const Slots& slots, std::size_t capacity) {
  const std::vector<std::int32_t> is = keep_within(slots.expert_of, slots.experts, slots.k, capacity),
                                  exact = exact_kept(slots.expert_of, slots.experts, slots.k, capacity);
  const std::string where =
      fmt::format("experts {} of {}, {} for each token, capacity {}: ", slots_text(slots.expert_of), slots.experts,
                  slots.k, capacity);
  if (is.size() != exact.size()) return where + fmt::format("{} slots, expected {}", is.size(), exact.size());
  for (std::size_t slot = 0; slot < exact.size(); ++slot)
    if (is[slot] != exact[slot]) return where + wrong_slot(slots, is, slot, capacity);
  return "";
}

std::string wrongly_kept_anywhere() {
  std::vector<Slots> all = {
      {{0, 2, 1, 2, 2, 3, 2, 0}, 4, 2}, {{0, 0, 0}, 1, 1}, {{1, 0, 0, 1, 1, 0}, 2, 2}, {{}, 3, 2}};
  for (const std::size_t k : {1u, 2u, 3u}) all.push_back({exact_routing(quarters(34, 20, 6), 6, k).experts, 6, k});
  for (const Slots& slots : all)
    for (const std::size_t capacity : {2u, 1u, 3u, 0u, 100u})
      if (std::string wrong = wrongly_kept(slots, capacity); !wrong.empty()) return wrong;
  return "";
}
TEST(Lab23_10a, FirstChoicesThenSecondsUpToTheCapacity) {
  if (const std::string wrong = wrongly_kept_anywhere(); !wrong.empty()) FAIL() << wrong;
}

// Part b --------------------------------------------------------------------------------------------------------------

std::string part_a_first() {
  const std::string wrong = wrongly_kept_anywhere();
  return wrong.empty() ? "" : "23.10a first: " + wrong;
}

/// 23.7's loads with a capacity factor of ½, and once more with 1.
Load limited(const Case& c) {
  Load load(c);
  load.factor = c.size < 2 * kinds ? 0.5 : 1;
  return load;
}
ExpertsSaved saved_within(const Load& load, const ExpertParallel& ep, const Routing& routing) {
  ExpertsSaved saved =
      make_saved_within(ep, routing, capacity_of(load.factor, routing.experts.size() / load.k, load.experts, load.k));
  const auto rank = static_cast<std::size_t>(ep.group.rank());
  if (const std::size_t to = saved.plan.to_rank.at(rank), from = saved.plan.from_rank.at(rank); to != from)
    throw Error(
        Verdict::fail,
        fmt::format("by its plan rank {} sends itself {} and receives {} from itself. Were the counts exchanged "
                    "that plan.sent has, without what is dropped?",
                    rank, counted(to, "row"), from));
  return saved;
}
CasePlan limited_plan() {
  CasePlan plan = plan_of_loads(part_a_first);
  std::vector<std::size_t> cases(4 * kinds);
  std::iota(cases.begin(), cases.end(), std::size_t{0});
  plan.sizes = sizes_of(cases);
  return plan;
}
testing::CaseJudge judged_within(std::string (*wrong)(const Load&, const Outcome&)) {
  return [=](const Case& c, const Outcome& outcome) { return wrong(limited(c), outcome); };
}
TEST(Lab23_10b, DroppedSlotsAreNoPartOfTheOutput) {
  run_loads(layer(false, limited, saved_within), judged_within(wrong_forward), limited_plan());
}
TEST(Lab23_10b, DroppedSlotsHaveNoGradient) {
  run_loads(layer(true, limited, saved_within), judged_within(wrong_backward), limited_plan());
}

TEST(Lab23_10b, AWideCapacityChangesNoBit) {
  const auto wide = [](const Load& load, const ExpertParallel& ep, const Routing& routing) {
    return make_saved_within(ep, routing, load.tokens(ep.group.rank()));
  };
  const auto program = [=](Rank me, const Case& c) {
    Values both = layer(true)(me, c);
    const Values limited = layer(true, load_of_case, wide)(me, c);
    both.insert(both.end(), limited.begin(), limited.end());
    return both;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < seen.size() / 2; ++i)
        if (seen[i] != seen[seen.size() / 2 + i])
          return fmt::format("rank {}: result {} is {:g} with a capacity of all its tokens, and {:g} without one", rank,
                             i, seen[seen.size() / 2 + i], seen[i]);
    }
    return "";
  };
  run_loads(program, judge, plan_of_loads(part_a_first));
}

// Part c --------------------------------------------------------------------------------------------------------------

/// f of all ranks: each has the same E numbers.
TEST(Lab23_10c, TheLoadIsThatOfAllRanks) {
  const auto program = [](Rank me, const Case& c) {
    const Load load(c);
    const std::vector<float> f = load_of(me, kept_by(load, me.rank()), load.experts);
    return Values(f.begin(), f.end());
  };
  const auto shares = [](const Load& load, int first, int last) {
    Doubles f(load.experts);
    double all = 0;
    for (int rank = first; rank < last; ++rank)
      for (const std::int32_t expert : kept_by(load, rank)) ++f[static_cast<std::size_t>(expert)], ++all;
    return times(f, 1 / all);
  };
  const auto of_first_choices = [](const Load& load) {
    Doubles f(load.experts);
    double all = 0;
    for (int rank = 0; rank < load.ranks; ++rank) {
      const std::vector<std::int32_t> slots = kept_by(load, rank);
      for (std::size_t slot = 0; slot < slots.size(); slot += load.k) ++f[static_cast<std::size_t>(slots[slot])], ++all;
    }
    return times(f, 1 / all);
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const Load load(c);
    const double slots_of_all = static_cast<double>(load.k * load.tokens_before(c.ranks));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      const double own_slots = static_cast<double>(load.k * load.tokens(rank));
      if (seen.size() != load.experts)
        return fmt::format("rank {}: {} shares, expected {}", rank, seen.size(), load.experts);
      std::size_t at = 0;
      const std::string wrong =
          differs_from(seen, at, rank, "f", shares(load, 0, c.ranks),
                       {{[&] { return shares(load, rank, rank + 1); }, "these are the shares of its own slots"},
                        {[&] { return times(shares(load, 0, c.ranks), static_cast<double>(load.k)); },
                         "f is a share of slots, of which each token has k"},
                        {[&] { return times(shares(load, 0, c.ranks), slots_of_all / own_slots); },
                         "the counts of all ranks were divided by the number of its own slots. Divide by that of all "
                         "ranks' slots, so that the shares add up to 1"},
                        {[&] { return of_first_choices(load); },
                         "these are the shares of first choices. f counts all k choices of a token"}});
      if (!wrong.empty()) return wrong;
      const std::uint64_t most = 2 * 4 * (load.experts + static_cast<std::size_t>(c.ranks));
      if (const std::uint64_t sent = outcome.ledgers[static_cast<std::size_t>(rank)].traffic.bytes_sent; sent > most)
        return fmt::format("rank {} sent {} bytes, expected at most {}: an all-reduce of {} numbers", rank, sent, most,
                           load.experts);
    }
    return "";
  };
  CasePlan plan = plan_of_loads();
  plan.sizes = [all = plan.sizes](int ranks) {  // some rank has a token
    std::vector<std::size_t> cases = all(ranks);
    if (ranks == 1) std::erase_if(cases, [](std::size_t which) { return which / 2 == rank_without_tokens; });
    return cases;
  };
  run_loads(program, judge, plan);
}

struct Balance {
  Routing routing;
  std::vector<float> load;
};
std::vector<Balance> balances() {
  std::vector<Balance> all = {{{{0.75f, 0.25f}, {0}}, {1, 0}},
                              {{{0.5f, 0.5f, 0, 1, 0.75f, 0.25f}, {0, 1, 0}}, {0.25f, 0.75f}}};
  for (const std::size_t experts : {1u, 3u, 8u}) {
    std::vector<float> load;
    for (std::size_t e = 0; e < experts; ++e)
      load.push_back(static_cast<float>(2 * (e + 1)) / static_cast<float>(experts * (experts + 1)));
    all.push_back({exact_routing(quarters(35, 5, experts), experts, 1), load});
  }
  return all;
}
double exact_loss(const Doubles& probabilities, const std::vector<float>& load) {
  double sum = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) sum += load[i % load.size()] * probabilities[i];
  return sum * static_cast<double>(load.size() * load.size()) / static_cast<double>(probabilities.size());
}

TEST(Lab23_10c, TheLossIsOneWhereLoadOrProbabilitiesAreEven) {
  const std::vector<float> even(4, 0.25f);
  EXPECT_NEAR(balance_loss({{0.5f, 0.25f, 0.25f, 0, 1, 0, 0, 0}, {0, 0}}, even), 1, 1e-6) << "f is even";
  EXPECT_NEAR(balance_loss({even, {0}}, {0.5f, 0, 0.5f, 0}), 1, 1e-6) << "P is even";
  EXPECT_NEAR(balance_loss({{1, 0, 0, 0}, {0}}, {1, 0, 0, 0}), 4, 1e-6) << "all to one of 4 experts";
  for (const Balance& b : balances()) {
    const double exact = exact_loss(doubles(b.routing.probabilities), b.load);
    EXPECT_NEAR(balance_loss(b.routing, b.load), exact, 1e-5)
        << "E = " << b.load.size() << ", tokens: " << b.routing.probabilities.size() / b.load.size();
  }
}

TEST(Lab23_10c, ItsGradientIsThatOfFiniteDifferences) {
  for (const Balance& b : balances()) {
    const std::size_t experts = b.load.size(), tokens = b.routing.probabilities.size() / experts;
    Doubles logits;
    for (const float probability : b.routing.probabilities)
      logits.push_back(probability > 0 ? std::log(static_cast<double>(probability)) : -50);
    const Doubles exact = gradient_by_differences(logits, [&] {
      Doubles probabilities;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        double sum = 0;
        for (std::size_t e = 0; e < experts; ++e) sum += std::exp(logits[i / experts * experts + e]);
        probabilities.push_back(std::exp(logits[i]) / sum);
      }
      return exact_loss(probabilities, b.load);
    });
    const std::vector<float> is = balance_gradient(b.routing, b.load);
    ASSERT_EQ(is.size(), exact.size());
    const auto all_are = [&](double factor) {
      for (std::size_t i = 0; i < exact.size(); ++i)
        if (!near(is[i], factor * exact[i], 1)) return false;
      return true;
    };
    const auto of_probabilities = [&] {
      for (std::size_t i = 0; i < exact.size(); ++i)
        if (!near(is[i], b.load[i % experts] * static_cast<double>(experts) / static_cast<double>(tokens), 1))
          return false;
      return true;
    };
    for (std::size_t i = 0; i < exact.size(); ++i)
      if (!near(is[i], exact[i], 1))
        FAIL() << fmt::format("{}, {}: the gradient of token {}'s logit {} is {:.6g}, expected {:.6g}{}",
                              counted(experts, "expert"), counted(tokens, "token"), i / experts, i % experts, is[i],
                              exact[i],
                              of_probabilities() ? ": that is the probability's gradient, E·f/N. The softmax has to "
                                                   "take it to the logits, as in 23.7d"
                              : all_are(2)       ? ": twice as much. f counts choices and has no gradient"
                              : all_are(static_cast<double>(tokens)) ? ": P is a mean over N tokens"
                                                                     : "");
  }
}

// All parts -----------------------------------------------------------------------------------------------------------

constexpr double kBalance = 0.5;
constexpr std::size_t kCapacity = 1;  // 4 tokens with 2 choices of 8 experts: factor 1

/// A step with both. Which slots are dropped depends on a rank's tokens, and not on who shares the experts; and the
/// loss is that of all tokens.
TEST(Lab23_10, GradientsAreThoseOfTheLossOverAllTokens) {
  const auto program = [](Rank me, const Case& c) {
    const auto saved = [](const ExpertParallel& ep, const Routing& routing) {
      return make_saved_within(ep, routing, kCapacity);
    };
    const auto more = [](Rank world, const Routing& routing) {
      std::vector<float> gradient = week23::balance_gradient(routing, load_of(world, routing.experts, kExpertsOfAll));
      for (float& value : gradient) value *= static_cast<float>(kBalance);
      return gradient;
    };
    return step(me, c, {saved, more});
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    return wrong_step(c, outcome, ExactStep(c.ranks, kCapacity, kBalance));
  };
  CasePlan plan = plan_of_groups();
  plan.cause = part_a_first;
  run_cases(program, judge, plan);
}

}  // namespace
}  // namespace lockstep::week23::experts_test
