// Tests of exercise 21.9: sparse sums that are exact and alike on every rank, a memory that loses nothing, rounding
// that is right on average and independent, bytes to the byte, and a GPT that learns with what is left of its
// gradients.
#include "labs/week21_data_parallel/compression.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/chunk.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/machine.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/ddp_gpt.hpp"

namespace lockstep::week21 {
namespace {

/// Appends a slice's values.
void look(Rank me, const Slice& data, Values& seen) {
  for (float value : to_host(me, data)) seen.push_back(value);
}

/// Appends bytes and messages that `act` sent.
void count(Rank me, Values& seen, const std::function<void()>& act) {
  const Traffic before = ledger_of(me).traffic;
  act();
  const Traffic after = ledger_of(me).traffic;
  seen.push_back(static_cast<double>(after.bytes_sent - before.bytes_sent));
  seen.push_back(static_cast<double>(after.messages_sent - before.messages_sent));
}

/// The first of `size` elements from `at` on that is not on every rank what it is on rank 0.
std::string replicas_part(const Outcome& outcome, std::size_t at, std::size_t size) {
  for (std::size_t rank = 1; rank < outcome.values.size(); ++rank)
    for (std::size_t i = at; i < at + size; ++i)
      if (outcome.values[rank][i] != outcome.values[0][i])
        return fmt::format(
            "element {} is {:.9g} on rank 0 and {:.9g} on rank {}: replicas part when each adds in an order of its "
            "own, "
            "or keeps what it has not sent. Add all ranks' parts from zeros, in the order of ranks",
            i - at, outcome.values[0][i], outcome.values[rank][i], rank);
  return "";
}

/// No value that binary fractions hold well, different on each rank, element and step; positive and negative.
float rough(int rank, std::size_t i, int step = 0) {
  const auto mixed = static_cast<unsigned>(i * 2654435761u + static_cast<unsigned>(rank) * 40503u +
                                           static_cast<unsigned>(step) * 9973u);
  return static_cast<float>((mixed >> 8) % 20011) / 9973.0f - 1.0f;
}
std::vector<float> rough_array(int rank, std::size_t size, int step = 0) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = rough(rank, i, step);
  return values;
}

// Part a --------------------------------------------------------------------------------------------------------------

/// Even ranks have the even elements, odd ranks the odd ones: half of `size` each, multiplied by `factor`.
std::size_t index_of(int rank, std::size_t j) { return 2 * j + static_cast<std::size_t>(rank % 2); }
float value_of(int rank, std::size_t j, bool exact, int ranks) {
  return exact ? testing::input_of(rank, j, ranks) : rough(rank, j);
}

Values sparse_sums(Rank me, const Case& c, bool exact) {
  const std::size_t k = c.size / 2;
  std::vector<float> values(k);
  std::vector<std::int32_t> where(k);
  for (std::size_t j = 0; j < k; ++j) {
    values[j] = value_of(me.rank(), j, exact, c.ranks);
    where[j] = static_cast<std::int32_t>(index_of(me.rank(), j));
  }
  Slice data = me.allocate(c.size, DType::f32, Category::gradient);  // full of NaN, as new memory is
  Slice indices = me.allocate(k, DType::i32, Category::buffer), mine = uploaded(me, values, Category::buffer);
  upload(me, indices, where);
  Values seen;
  count(me, seen, [&] { sparse_sum(me, data, mine, indices); });
  look(me, data, seen);
  return seen;
}

/// What element i comes to, added in f32 in the order of ranks.
float sparse_total(const Case& c, std::size_t i, bool exact) {
  float sum = 0;
  for (int rank = static_cast<int>(i % 2); rank < c.ranks; rank += 2)
    if (i / 2 < c.size / 2) sum += value_of(rank, i / 2, exact, c.ranks);
  return sum;
}

TEST(Lab21_9a, SumsOfSparseVectorsAreExact) {
  run_cases([](Rank me, const Case& c) { return sparse_sums(me, c, true); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              for (int rank = 0; rank < c.ranks; ++rank)
                for (std::size_t i = 0; i < c.size; ++i) {
                  const double seen = outcome.values[rank][i + 2], expected = sparse_total(c, i, true);
                  if (seen == expected) continue;
                  return fmt::format(
                      "rank {}: element {} is {}, expected {}: {}", rank, i, seen, expected,
                      std::isnan(seen) ? "it was never written; start from zeros, most elements are in no vector"
                      : i / 2 >= c.size / 2
                          ? "no rank has it"
                          : fmt::format("the sum over the {} ranks. It is {}", i % 2 == 0 ? "even" : "odd",
                                        testing::explain_sum(seen, i / 2, c.size, rank, c.ranks)));
                }
              return "";
            });
}

TEST(Lab21_9a, EveryRankHasTheSameBits) {
  run_cases([](Rank me, const Case& c) { return sparse_sums(me, c, false); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              const std::string apart = replicas_part(outcome, 2, c.size);
              if (!apart.empty()) return apart;
              for (std::size_t i = 0; i < c.size; ++i)
                if (outcome.values[0][i + 2] != sparse_total(c, i, false))
                  return fmt::format("element {} is {:.9g}; added in the order of ranks, 0 first, it is {:.9g}", i,
                                     outcome.values[0][i + 2], sparse_total(c, i, false));
              return "";
            });
}

TEST(Lab21_9a, SendsEachPairToEveryOtherRank) {
  run_cases([](Rank me, const Case& c) { return sparse_sums(me, c, true); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              for (int rank = 0; rank < c.ranks; ++rank) {
                const double k = static_cast<double>(c.size / 2), others = c.ranks - 1;
                if (outcome.values[rank][0] != others * 8 * k)
                  return fmt::format(
                      "rank {} sent {} bytes, expected {}: {} values and as many indices, 4 bytes each, p − 1 times",
                      rank, outcome.values[rank][0], others * 8 * k, k);
                if (outcome.values[rank][1] > 2 * others)
                  return fmt::format("rank {} sent {} messages, expected {}: two all-gathers", rank,
                                     outcome.values[rank][1], 2 * others);
              }
              return "";
            });
}

// Part b --------------------------------------------------------------------------------------------------------------

/// Magnitudes that differ, in an order that differs from rank to rank; whole numbers, so that all sums are exact.
float whole(int rank, std::size_t i, int step) {
  const auto mixed = (i * 37 + static_cast<std::size_t>(rank) * 11 + static_cast<std::size_t>(step) * 5) % 101;
  return static_cast<float>(mixed + 1) * ((i + static_cast<std::size_t>(rank)) % 2 ? 1.0f : -1.0f);
}

TEST(Lab21_9b, WithoutMemoryTheLargestAreSummed) {
  run_cases(
      [](Rank me, const Case& c) {
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = whole(me.rank(), i, 0);
        Slice data = uploaded(me, mine);
        top_k_all_reduce(me, data, {}, (c.size + 2) / 3);
        Values seen;
        look(me, data, seen);
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        std::vector<double> expected(c.size);
        for (int rank = 0; rank < c.ranks; ++rank) {
          std::vector<std::size_t> order(c.size);
          for (std::size_t i = 0; i < c.size; ++i) order[i] = i;
          std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return std::abs(whole(rank, a, 0)) > std::abs(whole(rank, b, 0));
          });
          for (std::size_t j = 0; j < (c.size + 2) / 3; ++j) expected[order[j]] += whole(rank, order[j], 0);
        }
        for (int rank = 0; rank < c.ranks; ++rank)
          for (std::size_t i = 0; i < c.size; ++i)
            if (outcome.values[rank][i] != expected[i])
              return fmt::format(
                  "rank {}: element {} is {}, expected {}: the sum over the ranks for which it is among "
                  "the {} of largest magnitude",
                  rank, i, outcome.values[rank][i], expected[i], (c.size + 2) / 3);
        return "";
      },
      {.sizes = sizes_of({0, 1, 7, 31, 101})});
}

constexpr int kMemorySteps = 6;

/// Each step's sum, then this rank's error after it.
Values remembered(Rank me, const Case& c) {
  Slice data = me.allocate(c.size, DType::f32, Category::gradient);
  Slice error = me.allocate(c.size, DType::f32, Category::optimizer);
  fill(me, error, 0);
  Values seen;
  std::vector<float> mine(c.size);
  for (int step = 0; step < kMemorySteps; ++step) {
    for (std::size_t i = 0; i < c.size; ++i) mine[i] = whole(me.rank(), i, step);
    upload(me, data, mine);
    top_k_all_reduce(me, data, error, (c.size + 4) / 5);
    look(me, data, seen);
    look(me, error, seen);
  }
  return seen;
}

TEST(Lab21_9b, WhatIsNotSentIsOwedAndNothingIsLost) {
  run_cases(remembered,
            [](const Case& c, const Outcome& outcome) -> std::string {
              std::vector<double> sent(c.size), wanted(c.size);
              for (int step = 0; step < kMemorySteps; ++step) {
                const std::size_t at = 2 * c.size * static_cast<std::size_t>(step);
                for (std::size_t i = 0; i < c.size; ++i) {
                  double owed = 0;
                  sent[i] += outcome.values[0][at + i];
                  for (int rank = 0; rank < c.ranks; ++rank) {
                    wanted[i] += whole(rank, i, step);
                    owed += outcome.values[rank][at + c.size + i];
                  }
                  if (sent[i] + owed == wanted[i]) continue;
                  return fmt::format(
                      "after step {}, element {}: the ranks' gradients came to {} so far, the sums to {}, and the "
                      "errors hold "
                      "{}: {} {}",
                      step, i, wanted[i], sent[i], owed, std::abs(sent[i] + owed - wanted[i]),
                      owed == 0 ? "are lost; what is not sent must stay in `error`"
                                : "too many or too few; error = error + gradient − what is sent, each exactly once");
                }
              }
              return "";
            },
            {.sizes = sizes_of({1, 7, 31, 101})});
}

TEST(Lab21_9b, WhatIsOwedLongestIsSent) {
  run_cases(
      remembered,
      [](const Case& c, const Outcome& outcome) -> std::string {
        // On one rank the sum is what was sent: never smaller than what is left.
        for (int step = 0; step < kMemorySteps; ++step) {
          const auto at = static_cast<std::ptrdiff_t>(2 * c.size * static_cast<std::size_t>(step));
          const auto sums = outcome.values[0].begin() + at, errors = sums + static_cast<std::ptrdiff_t>(c.size);
          double smallest = 1e9, largest = 0;
          std::size_t chosen = 0;
          for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(c.size); ++i) {
            if (sums[i] != 0) ++chosen, smallest = std::min(smallest, std::abs(sums[i]));
            largest = std::max(largest, std::abs(errors[i]));
          }
          if (chosen > (c.size + 4) / 5)
            return fmt::format("step {}: {} elements were sent, k is {}", step, chosen, (c.size + 4) / 5);
          if (smallest < largest)
            return fmt::format(
                "step {}: {} was sent while {} stays in `error`: choose the largest of error + gradient, not of the "
                "gradient alone",
                step, smallest, largest);
        }
        return "";
      },
      {.ranks = {1}, .sizes = sizes_of({7, 31, 101})});
}

/// ‖mean of the sums over `steps` steps − the plain sum‖ / ‖plain sum‖, where the gradients never change.
double bias(Rank me, std::size_t size, int steps, bool feedback) {
  Slice data = me.allocate(size, DType::f32, Category::gradient),
        total = me.allocate(size, DType::f32, Category::buffer);
  Slice error = me.allocate(feedback ? size : 0, DType::f32, Category::optimizer);
  Slice plain = uploaded(me, rough_array(me.rank(), size)), squares = me.allocate(2, DType::f32, Category::buffer);
  for (const Slice& slice : {total, error, squares}) fill(me, slice, 0);
  for (int step = 0; step < steps; ++step) {
    upload(me, data, rough_array(me.rank(), size));
    top_k_all_reduce(me, data, error, top_k_count(size, 0.1));
    add(me, total, data);
  }
  ring_all_reduce(me, plain);
  scale(me, total, -1.0f / static_cast<float>(steps));
  add(me, total, plain);
  add_squares(me, squares.cut(0, 1), total);
  add_squares(me, squares.cut(1, 1), plain);
  return std::sqrt(read(me, squares.cut(0, 1), 0) / read(me, squares.cut(1, 1), 1));
}

TEST(Lab21_9b, MemoryRemovesTheBias) {
  run_cases(
      [](Rank me, const Case& c) {
        return Values{bias(me, c.size, 20, false), bias(me, c.size, 80, false), bias(me, c.size, 20, true),
                      bias(me, c.size, 80, true)};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        if (seen[0] < 0.5 || std::abs(seen[1] - seen[0]) > 1e-3)
          return fmt::format(
              "without memory the mean of 20 sums lies {:.3f} and of 80 sums {:.3f} from the true sum (relative); "
              "nothing but a tenth of each rank's elements is ever sent, so both must be the same, and large",
              seen[0], seen[1]);
        if (seen[2] < 0.5 * seen[0] && seen[3] < 0.35 * seen[2]) return "";
        return fmt::format(
            "with memory the mean of 20 sums lies {:.3f} and of 80 sums {:.3f} from the true sum (relative): what "
            "is owed is bounded, so the distance must fall as 1/steps",
            seen[2], seen[3]);
      },
      {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({101, 400})});
}

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
    count(me, traffic,
          [&] { sum(me, data, kBlock, {.seed = 3, .tensor = 0, .step = static_cast<std::uint64_t>(step)}); });
    add(me, total, data);
  }
  scale(me, total, 1.0f / static_cast<float>(steps));
  look(me, total, traffic);
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
      if (steps > 1 && std::abs(off) > 6 * deviation + 1e-6)
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
                      "rank {} sent {} bytes, expected {}: {} numbers of a byte and {} scales of four, p − 1 times",
                      rank, outcome.values[rank][0], expected, c.size, blocks(c.size));
              return "";
            });
}

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
          const double numbers = static_cast<double>(2 * c.size - size(rank) - size(rank + 1));
          const double expected = numbers + 2 * (c.ranks - 1) * 4 * blocks(size(0));
          if (outcome.values[rank][0] != expected)
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
       .simulator_only = "a statement about virtual time",
       .adjust = [](const Case&, RunOptions& options) {
         options.phantom = true;
         options.perturb.reset();  // its delays would be measured
         options.machine = Machine::uniform(kAlpha, kBeta, 1e-18);
       }});
}

// Part e --------------------------------------------------------------------------------------------------------------

constexpr Method kMethods[] = {Method::ring, Method::top_k, Method::int8, Method::int8_two_step};
const char* name_of(Method method) {
  constexpr const char* kNames[] = {"the ring", "top-k", "int8", "int8 in two steps"};
  return kNames[static_cast<int>(method)];
}

/// Flat gradients of `size` elements, a parameter each half.
Parameters parameters_of(Rank me, std::size_t size) {
  Parameters all;
  all.list = {{"first", 0, size / 2, 1, size / 2}, {"second", size / 2, size - size / 2, 1, size - size / 2}};
  all.values = me.allocate(size, DType::f32, Category::parameter);
  all.gradients = me.allocate(size, DType::f32, Category::gradient);
  fill(me, all.values, 0);
  fill(me, all.gradients, 1);
  return all;
}

TEST(Lab21_9e, BytesAreThoseOfTheLedger) {
  run_cases(
      [](Rank me, const Case& c) {
        Values seen;
        for (const Method method : kMethods) {
          const Parameters parameters = parameters_of(me, c.size);
          const AllReduce sum = compressed_all_reduce(me, parameters, {.method = method, .density = 0.125, .block = 8});
          count(me, seen, [&] { sum(me, parameters.gradients); });
        }
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (std::size_t m = 0; m < 4; ++m) {
          const double sent = outcome.values[0][2 * m];
          const double said =
              bytes_sent({.method = kMethods[m], .density = 0.125, .block = 8}, c.ranks, static_cast<double>(c.size));
          if (sent != said)
            return fmt::format("{} of {} elements on {} ranks: bytes_sent says {}, the ledger {}", name_of(kMethods[m]),
                               c.size, c.ranks, said, sent);
        }
        return "";
      },
      {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({192, 1920})});
}

TEST(Lab21_9e, BreaksEvenWhereTheRingSendsAsMuch) {
  for (const Method method : kMethods)
    for (const double density : {0.5, 0.01, 0.001})
      for (const std::size_t block : {std::size_t{16}, std::size_t{256}}) {
        const Compression how{.method = method, .density = density, .block = block};
        const double even = ranks_to_break_even(how);
        for (int p = 2; p <= 4096; p += 1 + p / 16) {
          const double mine = bytes_sent(how, p, 1 << 20), ring = bytes_sent({}, p, 1 << 20);
          if (std::abs(mine / ring - 1) < 1e-9) {
            ASSERT_NEAR(even, method == Method::ring ? 1 : p, 1e-6 * p)
                << name_of(method) << ", density " << density << ", blocks of " << block << ": on " << p
                << " ranks it sends as much as the ring, but ranks_to_break_even says " << even;
            continue;
          }
          ASSERT_EQ(mine > ring, p > even) << name_of(method) << ", density " << density << ", blocks of " << block
                                           << ": on " << p << " ranks it sends " << mine << " bytes and the ring "
                                           << ring << ", but ranks_to_break_even says " << even;
        }
      }
}

// In DDP --------------------------------------------------------------------------------------------------------------

constexpr int kTrainSteps = 24;
constexpr std::size_t kSequences = 16;

/// Trains the GPT under DDP with compressed averages; returns its loss over the batch before the first and after the
/// last step, then its values.
Values compressed_training(Rank dp, const Compression& how, bool overlap) {
  Gpt gpt(dp, small_gpt(), /*seed=*/1);
  const Parameters& parameters = gpt.parameters();
  const DdpOptions options{.bucket_bytes = 1024, .first_bucket_bytes = 256, .overlap = overlap};
  const auto ddp = make_ddp(dp, parameters, options, compressed_all_reduce(dp, parameters, how));
  const ChunkRange shard = chunk_range(kSequences, dp.rank(), dp.size());
  const Batch mine = gpt_batch(dp, 0, shard.offset, shard.size), all = gpt_batch(dp, 0, 0, kSequences);
  Values losses, ignored;
  const auto measure = [&] {
    Activations saved = gpt.allocate_activations(dp, kSequences, kLength);
    Slice loss = dp.allocate(1, DType::f32, Category::activation);
    fill(dp, loss, 0);
    gpt.forward(dp, all, saved);
    cross_entropy_loss(dp, loss, saved.logits, all.targets, 1 / static_cast<float>(all.rows()));
    losses.push_back(read(dp, loss, 0));
  };
  measure();
  for (int step = 0; step < kTrainSteps; ++step) {
    fill(dp, parameters.gradients, 0);
    gpt_pass(dp, gpt, mine, shard_weight(shard.size, kSequences, dp.size()),
             [&](std::size_t i) { ddp->gradient_ready(i); });
    ddp->finish();
    ignored.clear();
    gradient_descent(dp, parameters, ignored);
  }
  measure();
  losses.insert(losses.end(), ignored.begin(), ignored.end());
  return losses;
}

constexpr Compression kSparse{.method = Method::top_k, .density = 0.02};
const std::vector<Compression> kTrained = {
    {},
    kSparse,
    {.method = Method::top_k, .density = 0.02, .feedback = false},
    {.method = Method::int8, .block = 64},
    {.method = Method::int8_two_step, .block = 64},
};

TEST(Lab21_9, AGptLearnsFromWhatIsLeft) {
  std::vector<double> drops(kTrained.size());
  run_cases([](Rank me, const Case& c) { return compressed_training(me, kTrained[c.size], true); },
            [&](const Case& c, const Outcome& outcome) -> std::string {
              const Values& seen = outcome.values[0];
              const std::string apart = replicas_part(outcome, 2, seen.size() - 2);
              if (!apart.empty()) return "replicas after training: " + apart;
              drops[c.size] = seen[0] - seen[1];
              const double part = drops[c.size] / drops[0];
              const bool forgets = c.size == 2;
              if (forgets ? part < 0.6 : part > 0.85) return "";
              return fmt::format(
                  "trained with {}{} the loss fell by {:.3f}, {:.0f} % of what it falls without compression; "
                  "expected {}",
                  name_of(kTrained[c.size].method), forgets ? " without memory" : "", drops[c.size], 100 * part,
                  forgets ? "less than 60 %: is there a memory after all?" : "more than 85 %");
            },
            {.ranks = {4}, .sizes = sizes_of({0, 1, 2, 3, 4}), .unit = "method"});
}

TEST(Lab21_9, OverlapChangesNoBit) {
  run_cases(
      [](Rank me, const Case& c) {
        Values seen = compressed_training(me, kTrained[c.size], true);
        const Values other = compressed_training(me, kTrained[c.size], false);
        seen.insert(seen.end(), other.begin(), other.end());
        return seen;
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        for (std::size_t i = 0; i < seen.size() / 2; ++i)
          if (seen[i] != seen[i + seen.size() / 2])
            return fmt::format(
                "value {} is {:.9g} with overlap and {:.9g} without: what is kept between steps must not "
                "depend on when a bucket is summed",
                i, seen[i], seen[i + seen.size() / 2]);
        return "";
      },
      {.ranks = {3}, .sizes = sizes_of({1, 3, 4}), .queues = true, .unit = "method"});
}

}  // namespace
}  // namespace lockstep::week21
