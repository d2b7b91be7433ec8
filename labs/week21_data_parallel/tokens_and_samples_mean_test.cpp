// Tests of exercise 21.15, part b: the mean over tokens, of losses that are known and of a GPT.
#include <fmt/ranges.h>

#include "common/gpt/model/gpt.hpp"
#include "labs/week21_data_parallel/tokens_and_samples_testing.hpp"

namespace lockstep::week21::tokens_and_samples_test {
namespace {

constexpr std::size_t kLoads = 9;

/// The tokens of each microbatch of a rank.
Tokens tokens_of(std::size_t which, int rank, int ranks) {
  const auto r = static_cast<std::uint64_t>(rank);
  switch (which) {
    case 0: return {100, 10};                                // the handout's, in two microbatches
    case 1: return {rank == 0 ? 100u : 10u};                 // and on two ranks
    case 2: return {3 + r, 0, 5};                            // a microbatch without tokens
    case 3: return rank == 0 ? Tokens{7, 2} : Tokens{0, 0};  // ranks without
    case 4: return rank == ranks - 1 && ranks > 1 ? Tokens{} : Tokens{4, 1 + r};
    case 5: {
      Tokens tokens;  // more of them on each further rank
      for (std::uint64_t i = 0; i <= r; ++i) tokens.push_back((i + 1) * (r + 2));
      return tokens;
    }
    case 6: return {(1u << 24) + (r << 20), 1u << 22};
    case 7: return rank == 0 && ranks > 1 ? Tokens{0} : Tokens{6, 2 * r};  // nothing on rank 0
    default: return {1 + drawn({21, 15, r, 1}, 500), drawn({21, 15, r, 2}, 50)};
  }
}

constexpr std::size_t kElements = 1000;

/// Mean loss of the tokens of a microbatch, and their mean gradient.
double loss_of(int rank, std::size_t i) {
  return 2.0 + 2.0 * static_cast<double>((static_cast<std::size_t>(rank) + i) % 4);
}
double gradient_of(int rank, std::size_t i, std::size_t element) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 5 + i * 3 + element * 7) % 11) - 5;
}

/// Elements that may go through all_reduce.
double most_elements(int ranks) { return static_cast<double>(kElements) + 1 + 8 * ranks; }

/// Elements that went through all_reduce; how often each microbatch was run; the loss; the gradients.
Values of_known_losses(Rank me, const Case& c) {
  const Tokens tokens = tokens_of(c.size, me.rank(), c.ranks);
  Slice gradients = me.allocate(kElements, DType::f32, Category::gradient);  // NaN, as new memory is
  Slice loss = me.allocate(1, DType::f32, Category::buffer),
        part = me.allocate(kElements, DType::f32, Category::buffer);
  std::vector<double> runs(tokens.size(), 0.0);
  double elements = 0;
  const auto backward = [&](std::size_t i, float weight) {
    if (i >= runs.size()) throw Error(Verdict::fail, fmt::format("there is no microbatch {} of {}", i, runs.size()));
    ++runs[i];
    const auto n = static_cast<double>(tokens[i]);
    std::vector<float> values(kElements);
    for (std::size_t e = 0; e < kElements; ++e)
      values[e] = static_cast<float>(static_cast<double>(weight) * n * gradient_of(me.rank(), i, e));
    upload(me, part, values);
    add(me, gradients, part);
    upload(me, part.cut(0, 1),
           std::vector<float>{static_cast<float>(static_cast<double>(weight) * n * loss_of(me.rank(), i))});
    add(me, loss, part.cut(0, 1));
  };
  mean_over_tokens(me, gradients, loss, tokens, backward, [&](Rank group, const Slice& data, Location where) {
    elements += static_cast<double>(data.size());
    all_reduce_of_callers(group, data, where);
  });
  Values seen{elements};
  seen.insert(seen.end(), runs.begin(), runs.end());
  append(me, loss, seen);
  append(me, gradients, seen);
  return seen;
}

/// A mean over all tokens of all ranks, and the wrong means that it can be mistaken for.
struct Means {
  double tokens = 0, sum = 0, size = 0;  // size: the sum without signs
  double of_microbatches = 0, of_ranks = 0, ranks_summed = 0;
  std::vector<double> by_rank;  // of `sum`

  template <class F>
  Means(const Case& c, const F& value) {
    double microbatches = 0, means = 0;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Tokens mine = tokens_of(c.size, rank, c.ranks);
      double own = 0, own_sum = 0;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const auto n = static_cast<double>(mine[i]);
        if (n == 0) continue;
        own += n, own_sum += n * value(rank, i), size += n * std::abs(value(rank, i));
        ++microbatches, means += value(rank, i);
      }
      tokens += own, sum += own_sum;
      by_rank.push_back(own_sum);
      if (own > 0) ranks_summed += own_sum / own;
    }
    of_microbatches = means / microbatches;
    of_ranks = ranks_summed / c.ranks;
  }
  double expected() const { return sum / tokens; }
  bool near(double seen, double value) const { return std::abs(seen - value) <= 2e-6 * std::max(size / tokens, 1e-3); }
  const char* hint(double seen, int ranks, int rank) const {
    if (std::isnan(seen)) return ": what it held before is still in it, or something is 0/0";
    if (near(seen, of_ranks)) return ": that is the mean of the ranks' means. Count the tokens of all ranks";
    if (near(seen, of_microbatches))
      return ": that is the mean of the microbatches' means, in which a short one counts too much";
    if (near(seen, expected() * ranks))
      return ": that is p times the mean. Divide by the tokens of all ranks, and not by p: all_reduce sums";
    if (near(seen, by_rank[static_cast<std::size_t>(rank)] / tokens)) return ": that is this rank's part of the sum";
    if (near(seen, ranks_summed)) return ": that is the sum of the ranks' means. Count the tokens of all ranks";
    if (near(seen, expected() / ranks)) return ": it was divided twice, by the tokens and by the ranks";
    if (std::abs(seen - sum) <= 2e-6 * size) return ": that is the sum, of which nothing was divided";
    return "";
  }
};

std::string wrong_mean(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Tokens tokens = tokens_of(c.size, rank, c.ranks);
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (seen[1 + i] != 1 && !(tokens[i] == 0 && seen[1 + i] == 0))
        return fmt::format("rank {}: microbatch {}, of {} tokens, was run {:.0f} times, expected once", rank, i,
                           tokens[i], seen[1 + i]);
    const std::size_t at = 1 + tokens.size();
    const Means loss(c, loss_of);
    if (!loss.near(seen[at], loss.expected()))
      return fmt::format("rank {}: the loss is {:.7g}, expected {:.7g} = {:.0f}/{:.0f}{}", rank, seen[at],
                         loss.expected(), loss.sum, loss.tokens, loss.hint(seen[at], c.ranks, rank));
    for (std::size_t e = 0; e < kElements; ++e) {
      const Means mean(c, [e](int r, std::size_t i) { return gradient_of(r, i, e); });
      if (!mean.near(seen[at + 1 + e], mean.expected()))
        return fmt::format("rank {}: the loss is right, and element {} of the gradient is {:.7g}, expected {:.7g}{}",
                           rank, e, seen[at + 1 + e], mean.expected(),
                           seen[0] > most_elements(c.ranks) ? ": it went through all_reduce more than once"
                                                            : mean.hint(seen[at + 1 + e], c.ranks, rank));
    }
  }
  return "";
}

/// "21.15a first: …" where two ranks count wrong; else "".
std::string wrong_part_a() {
  if (!testing::has_ranks(2)) return "";
  constexpr std::uint64_t kOwn[] = {110, (1u << 24) + 1};
  for (const std::uint64_t own : kOwn) {
    const Outcome outcome = run({.ranks = 2}, Program([own](Rank me) {
                                  return Values{static_cast<double>(count_over_ranks(me, own, all_reduce_of_callers))};
                                }));
    if (!outcome.passed()) return "";
    for (const Values& seen : outcome.values)
      if (seen[0] != static_cast<double>(2 * own))
        return fmt::format("21.15a first: two ranks with {} each count {:.0f}, expected {}.", own, seen[0], 2 * own);
  }
  return "";
}

CasePlan plan_of_loads(std::size_t cases) {
  CasePlan plan = plan_of(cases, "load");
  plan.cause = wrong_part_a;
  return plan;
}
void run_loads(const testing::CaseJudge& judge, std::size_t cases) {
  const auto tokens = [](const Case& c, int rank) {
    return fmt::format("{{{}}}", fmt::join(tokens_of(c.size, rank, c.ranks), ", "));
  };
  testing::run_described(of_known_losses, judge, plan_of_loads(cases),
                         by_rank("Tokens in the ranks' microbatches:", tokens));
}

TEST(Lab21_15b, EveryTokenCountsTheSame) { run_loads(wrong_mean, kLoads); }

TEST(Lab21_15b, GradientsTravelOnce) {
  run_loads(
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (std::size_t rank = 0; rank < outcome.values.size(); ++rank)
          if (outcome.values[rank][0] > most_elements(c.ranks))
            return fmt::format(
                "rank {}: {:.0f} elements went through all_reduce, for {} of the gradients, 1 of the loss and at most "
                "{} "
                "besides: add up your microbatches first",
                rank, outcome.values[rank][0], kElements, 8 * c.ranks);
        return "";
      },
      6);
}

/// A microbatch of a GPT: sequences of 4 positions, of which the first `tokens` have a target.
struct OfGpt {
  std::size_t sequences, tokens;
};
OfGpt gpt_microbatch(std::size_t which, int rank, std::size_t i) {
  const std::size_t number = static_cast<std::size_t>(rank) * 3 + i, sequences = 1 + number % 2;
  if (which == 1 && rank == 0) return {sequences, i};  // hardly any on rank 0
  return {sequences, 1 + number * 5 % (4 * sequences)};
}

/// The gap ‖a − b‖/‖b‖ to the gradient of one rank that runs all microbatches itself; both losses.
Values gap_of_a_gpt(Rank me, const Case& c) {
  constexpr std::size_t kMicrobatches = 2;
  Gpt gpt(me, {.layers = 1, .heads = 2, .d_model = 8, .vocabulary = 13, .context = 4}, 1);
  Slice gradients = gpt.parameters().gradients, loss = me.allocate(1, DType::f32, Category::buffer);
  const auto backward = [&](int rank, std::size_t i, float weight) {
    const OfGpt part = gpt_microbatch(c.size, rank, i);
    std::vector<std::int32_t> tokens, targets;
    for (std::size_t t = 0; t < 4 * part.sequences; ++t) {
      const auto symbol = static_cast<std::int32_t>((static_cast<std::size_t>(rank) * 31 + i * 17 + t * t) % 13);
      tokens.push_back(symbol);
      targets.push_back(t < part.tokens ? (symbol * 5 + 1) % 13 : -1);
    }
    Batch batch{me.allocate(tokens.size(), DType::i32, Category::buffer),
                me.allocate(tokens.size(), DType::i32, Category::buffer), part.sequences, 4};
    upload(me, batch.tokens, tokens);
    upload(me, batch.targets, targets);
    Activations saved = gpt.allocate_activations(me, batch.sequences, batch.length);
    gpt.forward(me, batch, saved);
    cross_entropy(me, loss, saved.logits, batch.targets, weight);
    gpt.backward(me, batch, saved);
  };
  std::size_t all = 0;
  for (int rank = 0; rank < c.ranks; ++rank)
    for (std::size_t i = 0; i < kMicrobatches; ++i) all += gpt_microbatch(c.size, rank, i).tokens;
  fill(me, gradients, 0);
  fill(me, loss, 0);
  for (int rank = 0; rank < c.ranks; ++rank)
    for (std::size_t i = 0; i < kMicrobatches; ++i) backward(rank, i, 1.0f / static_cast<float>(all));
  const std::vector<float> serial = to_host(me, gradients);
  Values seen{to_host(me, loss)[0]};

  Tokens mine;
  for (std::size_t i = 0; i < kMicrobatches; ++i) mine.push_back(gpt_microbatch(c.size, me.rank(), i).tokens);
  mean_over_tokens(
      me, gradients, loss, mine, [&](std::size_t i, float weight) { backward(me.rank(), i, weight); },
      all_reduce_of_callers);
  const std::vector<float> parallel = to_host(me, gradients);
  double difference = 0, squares = 0;
  for (std::size_t e = 0; e < serial.size(); ++e) {
    difference += std::pow(static_cast<double>(parallel[e]) - static_cast<double>(serial[e]), 2);
    squares += std::pow(static_cast<double>(serial[e]), 2);
  }
  seen.push_back(to_host(me, loss)[0]);
  seen.push_back(std::sqrt(difference / squares));
  return seen;
}

TEST(Lab21_15b, AGptOnManyRanksIsTheSerialOne) {
  CasePlan plan = plan_of_loads(2);
  plan.ranks = {1, 2, 4};
  run_cases(
      gap_of_a_gpt,
      [](const Case&, const Outcome& outcome) -> std::string {
        for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
          const Values& seen = outcome.values[rank];
          if (!(std::abs(seen[0] - seen[1]) <= 2e-6 * seen[0]))
            return fmt::format("rank {}: the loss is {:.7g}, on one rank {:.7g}", rank, seen[1], seen[0]);
          if (!(seen[2] < 3e-6))
            return fmt::format("rank {}: the gradient differs by {:.2e} from one rank's: more than rounding", rank,
                               seen[2]);
        }
        return "";
      },
      plan);
}

}  // namespace
}  // namespace lockstep::week21::tokens_and_samples_test
