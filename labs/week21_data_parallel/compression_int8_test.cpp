// Tests of exercise 21.9, parts c and d: sums of arrays in eight bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/chunk.hpp"
#include "common/runtime/machine/machine.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/compression_testing.hpp"

namespace lockstep::week21 {
namespace {

// Parts c and d -------------------------------------------------------------------------------------------------------

using Int8Sum = void (*)(Rank, Slice, std::size_t, Random);
constexpr std::size_t kBlock = 7;

double blocks(std::size_t n) { return static_cast<double>((n + kBlock - 1) / kBlock); }

/// The mean of `steps` sums of the same arrays, each with new draws; then bytes and messages of the last.
Values int8_mean(Rank me, const Case& c, Int8Sum sum, int steps, bool alike) {
  const std::vector<float> mine = rough_array(alike ? 0 : me.rank(), c.size);
  Slice data = me.allocate(c.size, DType::f32, Category::gradient),
        total = me.allocate(c.size, DType::f32, Category::buffer);
  fill(me, total, 0);
  Values traffic;
  for (int step = 0; step < steps; ++step) {
    upload(me, data, mine);
    traffic.clear();
    append_traffic(me, traffic,
                   [&] { sum(me, data, kBlock, {.seed = 3, .tensor = 0, .step = static_cast<std::uint64_t>(step)}); });
    add(me, total, data);
  }
  scale(me, total, 1.0f / static_cast<float>(steps));
  append_values(me, total, traffic);
  return traffic;
}

/// Largest magnitude over 127 of rank `rank`'s block that holds `element`, where blocks begin at `begin`.
double scale_at(int rank, std::size_t element, std::size_t begin, std::size_t end, bool alike) {
  const std::size_t first = begin + (element - begin) / kBlock * kBlock;
  double largest = 0;
  for (std::size_t i = first; i < std::min(end, first + kBlock); ++i)
    largest = std::max<double>(largest, std::abs(rough(alike ? 0 : rank, i)));
  return largest / 127;
}

/// By how much a sum may be off at most, and its variance if every rank draws by itself.
struct Rounding {
  double exact = 0, most = 0, variance = 0;
};
Rounding rounding_of(const Case& c, std::size_t i, bool two_steps, bool alike) {
  const int owner = c.size > 0 ? chunk_of(c.size, i, c.ranks) : 0;
  const ChunkRange whole_or_chunk = two_steps ? chunk_range(c.size, owner, c.ranks) : ChunkRange{0, c.size};
  const std::size_t begin = whole_or_chunk.offset, end = begin + whole_or_chunk.size;
  Rounding rounding;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const double scale = scale_at(rank, i, begin, end, alike);
    rounding.exact += rough(alike ? 0 : rank, i);
    rounding.most += scale;
    rounding.variance += scale * scale / 4;  // a fraction f has f(1 − f) ≤ 1/4
  }
  if (!two_steps) return rounding;
  // The sum's own scale: no sum is larger than the largest of its block, and what rounding may have added to it.
  double largest = 0;
  const std::size_t first = begin + (i - begin) / kBlock * kBlock;
  for (std::size_t j = first; j < std::min(end, first + kBlock); ++j) {
    double sum = 0;
    for (int rank = 0; rank < c.ranks; ++rank) sum += rough(alike ? 0 : rank, j);
    largest = std::max(largest, std::abs(sum));
  }
  const double scale = (largest + rounding.most) / 127;
  rounding.most += scale;
  rounding.variance += scale * scale / 4;
  return rounding;
}

/// Judges the mean of `steps` sums: at most as far off as rounding may be, and for many steps as chance allows.
testing::CaseJudge near_the_sum(bool two_steps, int steps) {
  return [=](const Case& c, const Outcome& outcome) -> std::string {
    const std::string apart = replicas_part(outcome, 2, c.size);
    if (!apart.empty()) return apart;
    for (std::size_t i = 0; i < c.size; ++i) {
      const Rounding rounding = rounding_of(c, i, two_steps, false);
      const double off = outcome.values[0][i + 2] - rounding.exact;
      if (!(std::abs(off) <= rounding.most * 1.001 + 1e-6))
        return fmt::format(
            "element {} of {} is {:.6g}, the exact sum is {:.6g}: rounding up or down changes it by less "
            "than {:.3g}, one step of each rank's scale{}",
            i, c.size, outcome.values[0][i + 2], rounding.exact, rounding.most,
            two_steps ? " and one of the sum's" : "");
      const double deviation = std::sqrt(rounding.variance / steps);
      if (steps > 1 && !(std::abs(off) <= 6 * deviation + 1e-6))
        return fmt::format(
            "the mean of {} sums of element {} is off by {:.3g}, {:.0f} times its standard deviation: "
            "rounding is right on average only if each step draws anew",
            steps, i, off, std::abs(off) / deviation);
    }
    return "";
  };
}

/// Rms error of one sum where all ranks have the same array, over that of independent rounding with uniform fractions.
testing::CaseJudge errors_are_independent(bool two_steps) {
  return [=](const Case& c, const Outcome& outcome) -> std::string {
    double squares = 0, expected = 0;
    for (std::size_t i = 0; i < c.size; ++i) {
      const Rounding rounding = rounding_of(c, i, two_steps, true);
      squares += std::pow(outcome.values[0][i + 2] - rounding.exact, 2);
      expected += rounding.variance * 4 / 6;  // f(1 − f) is 1/6 on average
    }
    const double ratio = std::sqrt(squares / expected);
    if (ratio < 1.3) return "";
    return fmt::format(
        "{} ranks with the same array: the sum is off by {:.2f} times what independent rounding gives. Do the ranks "
        "draw the same numbers? Then all round up together, and errors add up instead of averaging out",
        c.ranks, ratio);
  };
}

/// The sum worked out on one rank from everybody's arrays, drawing as the contract says.
Slice sum_by_contract(Rank me, const Case& c, bool two_steps, const Random& key) {
  const auto scratch = [&](std::size_t size, DType type) { return me.allocate(size, type, Category::buffer); };
  const auto add_rounded = [&](const Slice& to, const Slice& from, int number, std::size_t offset) {
    Slice numbers = scratch(from.size(), DType::i8), scales = scratch((from.size() + kBlock - 1) / kBlock, DType::f32);
    Random drawn = key;
    drawn.tensor += static_cast<std::uint64_t>(number), drawn.first += offset;
    quantise(me, numbers, scales, from, kBlock, drawn);
    add_dequantised(me, to, numbers, scales, kBlock);
  };
  Slice sum = scratch(c.size, DType::f32), result = scratch(c.size, DType::f32), theirs = scratch(c.size, DType::f32);
  fill(me, sum, 0);
  fill(me, result, 0);
  const int chunks = two_steps ? c.ranks : 1;
  for (int r = 0; r < c.ranks; ++r) {
    upload(me, theirs, rough_array(r, c.size));
    for (int k = 0; k < chunks; ++k)
      add_rounded(chunk(sum, k, chunks), chunk(theirs, k, chunks), r, chunk_range(c.size, k, chunks).offset);
  }
  if (!two_steps) return sum;
  for (int k = 0; k < chunks; ++k)
    add_rounded(chunk(result, k, chunks), chunk(sum, k, chunks), c.ranks + k, chunk_range(c.size, k, chunks).offset);
  return result;
}

/// Every bit, for keys of which nothing is 0.
void draws_as_the_contract_says(Int8Sum sum, bool two_steps, Location where = Location::current()) {
  const auto program = [=](Rank me, const Case& c) {
    const Random key{.seed = 3, .tensor = 40, .step = 5, .first = 1000};
    Slice data = me.allocate(c.size, DType::f32, Category::gradient);
    upload(me, data, rough_array(me.rank(), c.size));
    sum(me, data, kBlock, key);
    Values seen;
    append_values(me, data, seen);
    append_values(me, sum_by_contract(me, c, two_steps, key), seen);
    return seen;
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < c.size; ++i)
        if (const Values& seen = outcome.values[rank]; seen[i] != seen[c.size + i])
          return fmt::format(
              "rank {}, element {} is {:.9g}, expected {:.9g}, every bit. Does rank r draw with key.tensor + r{}, and "
              "key.first{}? All keys differ: parts that draw the same numbers make correlated errors",
              rank, i, seen[i], seen[c.size + i], two_steps ? ", and with key.tensor + p + r in the second half" : "",
              two_steps ? " + the chunk's offset" : "");
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 8}, .sizes = sizes_of({1, 31, 101})}, where);
}

TEST(Lab21_9c, IsOffByLessThanOneStepOfEachScale) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_all_reduce, 1, false); }, near_the_sum(false, 1));
}

TEST(Lab21_9c, IsRightOnAverage) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_all_reduce, 64, false); },
            near_the_sum(false, 64), {.ranks = {1, 2, 3, 8}, .sizes = sizes_of({1, 31, 101})});
}

TEST(Lab21_9c, RanksErrIndependently) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_all_reduce, 1, true); },
            errors_are_independent(false), {.ranks = {4, 8}, .sizes = sizes_of({1500})});
}

TEST(Lab21_9c, SendsOneByteAnElementAndTheScales) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_all_reduce, 1, false); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              const double expected = (c.ranks - 1) * (static_cast<double>(c.size) + 4 * blocks(c.size));
              for (int rank = 0; rank < c.ranks; ++rank)
                if (outcome.values[rank][0] != expected)
                  return fmt::format(
                      "rank {} sent {} bytes, expected {}: {} one-byte numbers and {} four-byte scales, p − 1 times",
                      rank, outcome.values[rank][0], expected, c.size, blocks(c.size));
              return "";
            });
}

TEST(Lab21_9c, DrawsAsTheContractSays) { draws_as_the_contract_says(int8_all_reduce, false); }

TEST(Lab21_9d, IsOffByLessThanOneStepOfEachScale) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_two_step_all_reduce, 1, false); },
            near_the_sum(true, 1));
}

TEST(Lab21_9d, IsRightOnAverage) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_two_step_all_reduce, 64, false); },
            near_the_sum(true, 64), {.ranks = {1, 2, 3, 8}, .sizes = sizes_of({1, 31, 101})});
}

TEST(Lab21_9d, RanksErrIndependently) {
  run_cases([](Rank me, const Case& c) { return int8_mean(me, c, int8_two_step_all_reduce, 1, true); },
            errors_are_independent(true), {.ranks = {4, 8}, .sizes = sizes_of({1500})});
}

TEST(Lab21_9d, SendsEachChunkOnceInEachHalf) {
  run_cases(
      [](Rank me, const Case& c) { return int8_mean(me, c, int8_two_step_all_reduce, 1, false); },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const auto size = [&](int chunk) { return chunk_range(c.size, chunk, c.ranks).size; };
        for (int rank = 0; rank < c.ranks && c.ranks > 1; ++rank) {
          const auto expected_of = [&](int way) {  // 21.2's all-gather goes to the next rank, or to the previous one
            const double numbers = static_cast<double>(2 * c.size - size(rank) - size(rank + way));
            return numbers + 2 * (c.ranks - 1) * 4 * blocks(size(0));
          };
          const double expected = expected_of(1);
          if (outcome.values[rank][0] != expected && outcome.values[rank][0] != expected_of(-1))
            return fmt::format(
                "rank {} sent {} bytes, expected {}: in each half p − 1 chunks of int8 with their scales, not the "
                "whole array",
                rank, outcome.values[rank][0], expected);
          if (outcome.values[rank][1] != 4 * (c.ranks - 1))
            return fmt::format("rank {} sent {} messages, expected {}: numbers and scales, p − 1 times in each half",
                               rank, outcome.values[rank][1], 4 * (c.ranks - 1));
        }
        return "";
      });
}

TEST(Lab21_9d, DrawsAsTheContractSays) { draws_as_the_contract_says(int8_two_step_all_reduce, true); }

// p − 1 chunks out and as many in, in each half, without a pause: every port is at work from the first byte to the
// last. Sizes that ranks and blocks divide; arithmetic is free here.
TEST(Lab21_9d, KeepsEveryPortBusy) {
  constexpr double kAlpha = 1e-6, kBeta = 1e-9;
  run_cases(
      [](Rank me, const Case& c) {
        Slice data = me.allocate(c.size * static_cast<std::size_t>(c.ranks), DType::f32, Category::gradient);
        int8_two_step_all_reduce(me, data, 64, {.seed = 3});
        return Values{};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const double others = c.ranks - 1, chunk = static_cast<double>(c.size) * (1 + 4.0 / 64);
        const double formula = others == 0 ? 0 : (2 * others + 1) * kAlpha + 2 * others * chunk * kBeta;
        if (std::abs(outcome.seconds - formula) <= 1e-6 * formula + 1e-9) return "";
        return fmt::format(
            "{} ranks with chunks of {} elements: took {:.6g} µs, the formula says {:.6g} µs: one batch, in which each "
            "rank begins with the rank after its own. If all send to rank 0 first, they wait for its port",
            c.ranks, c.size, outcome.seconds * 1e6, formula * 1e6);
      },
      {.ranks = {1, 2, 3, 4, 7, 8},
       .sizes = sizes_of({6400, 64000}),
       .simulator_only = "it checks virtual time, which only the simulator has",
       .adjust = [](const Case&, RunOptions& options) {
         options.phantom = true;
         options.perturb.reset();  // its delays would be measured
         options.machine = Machine::uniform(kAlpha, kBeta, 1e-18);
       }});
}

}  // namespace
}  // namespace lockstep::week21
