// Tests of exercise 21.9, parts a and b: sums of sparse vectors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/chunk.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/compression_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {
namespace {

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
  append_traffic(me, seen, [&] { sparse_sum(me, data, mine, indices); });
  append_values(me, data, seen);
  return seen;
}

/// The sum of element i, added in f32 in the order of ranks.
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
                      std::isnan(seen) ? "it was never written; start from zeros, since most elements are in no vector"
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
                  return fmt::format("element {} is {:.9g}; added in rank order, 0 first, it is {:.9g}", i,
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
        append_values(me, data, seen);
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
    append_values(me, data, seen);
    append_values(me, error, seen);
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
                      "errors hold {}: {} {}",
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
        // On one rank the sum equals the message: never smaller than the elements that are left.
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
            return fmt::format("step {}: k is {}, and more elements were sent: {}", step, (c.size + 4) / 5, chosen);
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
        if (!(seen[0] >= 0.5 && std::abs(seen[1] - seen[0]) <= 1e-3))
          return fmt::format(
              "without error feedback the mean of 20 sums lies {:.3f} and of 80 sums {:.3f} from the true sum "
              "(relative); only the same tenth of each rank's elements is ever sent, so both must be equal, and large",
              seen[0], seen[1]);
        if (seen[2] < 0.5 * seen[0] && seen[3] < 0.35 * seen[2]) return "";
        return fmt::format(
            "with error feedback the mean of 20 sums lies {:.3f} and of 80 sums {:.3f} from the true sum (relative): "
            "what is not sent yet is bounded, so the distance must fall as 1/steps",
            seen[2], seen[3]);
      },
      {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({101, 400})});
}

}  // namespace
}  // namespace lockstep::week21
