// Tests of exercise 21.15: parts a and e, a count and ranks that run out of data, and all parts together. Part b's
// tests are in tokens_and_samples_mean_test.cpp, the sampler's in tokens_and_samples_sampler_test.cpp.
#include "labs/week21_data_parallel/tokens_and_samples_testing.hpp"

namespace lockstep::week21::tokens_and_samples_test {
namespace {

// Part a --------------------------------------------------------------------------------------------------------------

constexpr std::size_t kCounts = 9;

std::uint64_t own_count(std::size_t which, int rank) {
  const auto r = static_cast<std::uint64_t>(rank);
  switch (which) {
    case 0: return rank == 0 ? 100 : 10;              // the handout's
    case 1: return 7 * r;                             // rank 0 has none
    case 2: return 255 + r;                           // as bf16: 256 and more are rounded
    case 3: return (1u << 12) - 1;                    // the sum carries, whatever the base
    case 4: return (1u << 23) + 1;                    // fits a float; two of them do not
    case 5: return (1u << 24) + 1 + 2 * r;            // no float has this value
    case 6: return (std::uint64_t{1} << 32) + 3 + r;  // more than 32 bits
    case 7: return (std::uint64_t{1} << 36) - 1 - r;  // the largest
    default: return drawn({21, 15, r}, std::uint64_t{1} << 36);
  }
}

/// The sum of the ranks' counts without their bits from `bit` up.
std::uint64_t sum_below(int bit, const Case& c) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < c.ranks; ++rank) sum += own_count(c.size, rank) % (std::uint64_t{1} << bit);
  return sum;
}
/// ": the bits from 2^24 up are missing", if that explains the count; else "".
std::string missing_bits(const Case& c, double seen) {
  for (int bit = 36; bit > 8; --bit)
    if (seen == static_cast<double>(sum_below(bit, c))) return fmt::format(": the bits from 2^{} up are missing", bit);
  return "";
}

TEST(Lab21_15a, CountsAreExact) {
  const auto program = [](Rank me, const Case& c) {
    return Values{static_cast<double>(count_over_ranks(me, own_count(c.size, me.rank()), all_reduce_of_callers))};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < c.ranks; ++rank) sum += own_count(c.size, rank);
    const auto expected = static_cast<double>(sum);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double seen = outcome.values[static_cast<std::size_t>(rank)][0];
      const std::uint64_t own = own_count(c.size, rank);
      if (seen == expected) continue;
      return fmt::format("rank {} has {} and counts {:.0f} over all ranks, expected {}{}", rank, own, seen, sum,
                         seen == static_cast<double>(own) ? std::string(": that is its own")
                         : std::abs(seen - expected) < 0.01 * expected
                             ? ": it was rounded. f32 has all integers up to 2^24 = 16777216, bf16 up to 256"
                             : missing_bits(c, seen));
    }
    return "";
  };
  testing::run_described(program, judge, plan_of(kCounts, "count"),
                         by_rank("The ranks' counts are",
                                 [](const Case& c, int rank) { return std::to_string(own_count(c.size, rank)); }));
}

constexpr std::uint64_t kMost = (std::uint64_t{1} << 36) - 1;

/// Sums in log2 p exchanges of the whole array; p is a power of two.
void doubling_all_reduce(Rank me, const Slice& data) {
  const Slice arrived = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int distance = 1; distance < me.size(); distance *= 2) {
    me.exchange({send(me.rank() ^ distance, data), receive(me.rank() ^ distance, arrived)});
    add(me, data, arrived);
  }
}

TEST(Lab21_15a, CountsOfHundredsOfRanksAreExact) {
  const auto program = [](Rank me, const Case&) {
    return Values{static_cast<double>(count_over_ranks(me, me.rank() == 0 ? kMost - 1 : kMost, doubling_all_reduce))};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t sum = static_cast<std::uint64_t>(c.ranks) * kMost - 1;  // odd, as its lowest digit is
    for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
      const double seen = outcome.values[rank][0];
      if (seen == static_cast<double>(sum)) continue;
      return fmt::format(
          "rank 0 has 2^36 − 2, the others 2^36 − 1, and rank {} counts {:.0f}, expected {}. A digit of b bits may "
          "need "
          "b + 12 as a sum of 4,096 ranks, and f32 has 24: use digits of at most 12 bits",
          rank, seen, sum);
    }
    return "";
  };
  run_cases(program, judge,
            {.ranks = {512}, .sizes = sizes_of({0}), .simulator_only = "it needs 512 ranks", .unit = ""});
}

// Part e --------------------------------------------------------------------------------------------------------------

constexpr std::size_t kOfGradient = 5;
float active_gradient(int rank, int step, std::size_t element) {
  return static_cast<float>((rank * 5 + step * 3 + static_cast<int>(element) * 7) % 11 - 5);
}
/// The number of steps for which a rank has data.
int steps_of(std::size_t which, int rank, int ranks) {
  switch (which) {
    case 0: return rank + 1;
    case 1: return ranks - rank;
    case 2: return rank == 0 ? 0 : 2;  // rank 0 never has any
    default: return 2;
  }
}
int steps_of_all(const Case& c) {
  int most = 0;
  for (int rank = 0; rank < c.ranks; ++rank) most = std::max(most, steps_of(c.size, rank, c.ranks));
  return most;
}

/// For each step: what average_of_active returned, and the gradients. In the last step nobody has data.
Values until_nobody_has_data(Rank me, const Case& c) {
  Slice gradients = me.allocate(kOfGradient, DType::f32, Category::gradient);  // NaN until there are some
  Values seen;
  for (int step = 0; step <= steps_of_all(c); ++step) {
    const bool has_data = step < steps_of(c.size, me.rank(), c.ranks);
    std::vector<float> mine(kOfGradient);
    for (std::size_t e = 0; e < kOfGradient; ++e) mine[e] = active_gradient(me.rank(), step, e);
    if (has_data) upload(me, gradients, mine);
    seen.push_back(average_of_active(me, gradients, has_data, all_reduce_of_callers));
    append(me, gradients, seen);
  }
  return seen;
}

TEST(Lab21_15e, RanksWithoutDataAddNothing) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int step = 0; step <= steps_of_all(c); ++step) {
      int active = 0;
      for (int rank = 0; rank < c.ranks; ++rank) active += step < steps_of(c.size, rank, c.ranks);
      for (int rank = 0; rank < c.ranks; ++rank) {
        const std::string where =
            fmt::format("step {}, in which {} of {} ranks have data: rank {}", step, active, c.ranks, rank);
        const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
        const std::size_t at = static_cast<std::size_t>(step) * (1 + kOfGradient);
        if (seen[at] != active) return fmt::format("{} gets {:.0f}, expected {}", where, seen[at], active);
        for (std::size_t e = 0; e < kOfGradient; ++e) {
          double sum = 0;
          for (int r = 0; r < c.ranks; ++r)
            if (step < steps_of(c.size, r, c.ranks)) sum += static_cast<double>(active_gradient(r, step, e));
          const double expected = active == 0 ? 0 : sum / active, value = seen[at + 1 + e];
          if (std::abs(value - expected) <= 2e-6) continue;
          return fmt::format("{}: element {} of the gradient is {:.7g}, expected {:.7g}{}", where, e, value, expected,
                             std::isnan(value) && active == 0 && step > 0
                                 ? ": nobody has data: 0 · 1/0 is NaN. Do not divide when the count is 0"
                             : std::isnan(value) ? ": a rank without data must add zeros, whatever its gradients hold"
                             : std::abs(value - sum / c.ranks) <= 2e-6 ? ": the sum was divided by all ranks"
                             : std::abs(value - sum) <= 2e-6           ? ": that is the sum"
                                                                       : ": what a rank without data holds is old");
        }
      }
    }
    return "";
  };
  testing::run_described(until_nobody_has_data, judge, plan_of(4, "plan"),
                         by_rank("Steps for which the ranks have data:", [](const Case& c, int rank) {
                           return std::to_string(steps_of(c.size, rank, c.ranks));
                         }));
}

// All parts together --------------------------------------------------------------------------------------------------

constexpr std::uint64_t kSamples = 12, kGlobalBatch = 4, kSteps = 7;

std::uint64_t tokens_of_sample(std::uint64_t sample) { return 1 + sample * sample % 9; }
double loss_of_sample(std::uint64_t sample) { return 1 + static_cast<double>(sample % 5); }

/// The loss of each step, over two epochs and a step of the third.
Values losses(Rank me, const Case& c) {
  const Sampler how{
      .samples = kSamples, .ranks = c.ranks, .batch = kGlobalBatch / static_cast<std::uint64_t>(c.ranks), .seed = 5};
  Slice gradients = me.allocate(1, DType::f32, Category::gradient), loss = me.allocate(1, DType::f32, Category::buffer);
  Slice part = me.allocate(1, DType::f32, Category::buffer);
  Position at;
  Values seen;
  for (std::uint64_t step = 0; step < kSteps; ++step, at = position_after(how, at, 1)) {
    if (at.done > kSamples) throw Error(Verdict::fail, fmt::format("{} of {} samples are done", at.done, kSamples));
    const std::vector<std::uint64_t> mine = samples_of(how, at, me.rank());
    if (mine.size() < how.batch)
      throw Error(Verdict::fail,
                  fmt::format("step {}, epoch {}, {} of {} samples done: {} to read, expected {} or more", step,
                              at.epoch, at.done, kSamples, mine.size(), how.batch));
    Tokens tokens;
    for (std::size_t i = 0; i < how.batch; ++i) tokens.push_back(tokens_of_sample(mine[i]));
    const auto backward = [&](std::size_t i, float weight) {
      fill(me, part, weight * static_cast<float>(tokens[i]) * static_cast<float>(loss_of_sample(mine[i])));
      add(me, loss, part);
    };
    mean_over_tokens(me, gradients, loss, tokens, backward, all_reduce_of_callers);
    append(me, loss, seen);
  }
  return seen;
}

TEST(Lab21_15, AStepIsTheSameOnAnyNumberOfRanks) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const std::vector<std::uint64_t> order = shuffled(kSamples, 5, step / 3);
        double sum = 0, tokens = 0;
        for (std::uint64_t i = 0; i < kGlobalBatch; ++i) {
          const std::uint64_t sample = order[step % 3 * kGlobalBatch + i];
          tokens += static_cast<double>(tokens_of_sample(sample));
          sum += static_cast<double>(tokens_of_sample(sample)) * loss_of_sample(sample);
        }
        const double seen = outcome.values[static_cast<std::size_t>(rank)][step];
        if (!(std::abs(seen - sum / tokens) <= 1e-5))
          return fmt::format("rank {}: the loss of step {} is {:.7g}, on one rank {:.7g}", rank, step, seen,
                             sum / tokens);
      }
    return "";
  };
  run_cases(losses, judge, {.ranks = {1, 2, 4}, .sizes = sizes_of({kSamples}), .unit = "sample"});
}

}  // namespace
}  // namespace lockstep::week21::tokens_and_samples_test
