// Shared by the tests of this week's all-reduces.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "common/arithmetic.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/inputs.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::week21 {

using namespace lockstep::testing;

using Collective = std::function<void(Rank, Slice)>;

inline Slice uploaded(Rank me, const std::vector<float>& values, Category category = Category::gradient) {
  Slice data = me.allocate(values.size(), DType::f32, category);
  upload(me, data, values);
  return data;
}

inline Values host(Rank me, const Slice& data) {
  const std::vector<float> values = to_host(me, data);
  return {values.begin(), values.end()};
}

/// Every rank contributes its input; returns what `data` holds afterwards.
inline CaseProgram reduce_with(Collective collective) {
  return [collective](Rank me, const Case& c) {
    Slice data = uploaded(me, inputs_of(me.rank(), c.size, c.ranks));
    collective(me, data);
    return host(me, data);
  };
}

/// Every rank contributes its input; returns the seconds that `collective` took on this rank.
inline CaseProgram time_of(Collective collective) {
  return [collective](Rank me, const Case& c) {
    Slice data = uploaded(me, inputs_of(me.rank(), c.size, c.ranks));
    const double began = me.now();
    collective(me, data);
    return Values{me.now() - began};
  };
}

/// The seconds of time_of, of the rank that took longest.
inline double slowest(const Outcome& outcome) {
  double seconds = 0;
  for (const Values& seen : outcome.values) seconds = std::max(seconds, seen[0]);
  return seconds;
}

/// reduce_with for integers.
inline CaseProgram reduce_integers_with(Collective collective) {
  return [collective](Rank me, const Case& c) {
    Slice data = me.allocate(c.size, DType::i32, Category::buffer);
    upload(me, data, integer_inputs_of(me.rank(), c.size, c.ranks));
    collective(me, data);
    return host(me, data);
  };
}

/// Even and odd ranks each sum among themselves, at the same time and in reverse order: ranks and partners must be
/// those of the group.
inline void expect_sums_inside_a_group(const Collective& collective) {
  const auto program = [collective](Rank me, const Case& c) {
    Rank group = me.split(me.rank() % 2, -me.rank());
    Slice data = uploaded(group, inputs_of(me.rank(), c.size, c.ranks));
    collective(group, data);
    return host(me, data);
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto expected = [&c](int rank, std::size_t i) {
      double sum = 0;
      for (int peer = rank % 2; peer < c.ranks; peer += 2) sum += input_of(peer, i, c.ranks);
      return sum;
    };
    return first_difference(outcome, c.size, {expected, {}});
  };
  run_cases(program, judge, {.ranks = {2, 5, 8}, .sizes = sizes_of({7, 31})});
}

/// Sums that are rounded: every rank must end with the same bits, or replicas drift apart.
inline void expect_the_same_bits_everywhere(const Collective& collective, std::vector<int> ranks) {
  const auto program = [collective](Rank me, const Case& c) {
    Slice data = me.allocate(c.size, DType::f32, Category::gradient);
    random_normal(me, data, {.seed = 1, .tensor = static_cast<std::uint64_t>(me.rank())}, 0, 1);
    collective(me, data);
    return host(me, data);
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 1; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < c.size; ++i)
        if (outcome.values[rank][i] != outcome.values[0][i])
          return fmt::format(
              "element {} is {:.9g} on rank 0 and {:.9g} on rank {}: the ranks added in different orders, and "
              "their replicas would diverge",
              i, outcome.values[0][i], outcome.values[rank][i], rank);
    return "";
  };
  run_cases(program, judge, {.ranks = std::move(ranks), .sizes = sizes_of({997})});
}

/// Counts of each of the four numbers in a price: its value where that one is 1 and the others are 0.
struct Counts {
  double messages, bytes, bytes_added, additions;
};
/// "" where `price` counts so; else a line for each number that it counts otherwise, to the ninth digit, after `of`.
inline std::string wrong_counts(const std::function<double(CostModel)>& price, Counts expected, const std::string& of) {
  const auto line = [&](const char* symbol, double seen, double right, const char* what) -> std::string {
    if (std::isnan(seen))
      return fmt::format("{}: what counts {} is 0/0 or ∞ − ∞, expected {:.10g}: {}\n", of, symbol, right, what);
    return std::abs(seen - right) <= 1e-9 * right ? ""
                                                  : fmt::format("{}: {} counts {:.10g} time{}, expected {:.10g}: {}\n",
                                                                of, symbol, seen, seen == 1 ? "" : "s", right, what);
  };
  return line("α", price({.alpha = 1}), expected.messages, "messages one after the other") +
         line("β", price({.beta = 1}), expected.bytes, "bytes through the busiest port") +
         line("γ", price({.gamma = 1}), expected.bytes_added, "bytes added by the busiest rank") +
         line("launch", price({.launch = 1}), expected.additions, "additions one after the other");
}

inline std::string first_of(std::initializer_list<std::string> complaints) {
  for (const std::string& complaint : complaints)
    if (!complaint.empty()) return complaint;
  return "";
}

/// Every rank's peak, against its array of n bytes and `scratch` (by rank) more. `words` say what the scratch is for.
inline std::string too_much_memory(const Case& c, const Outcome& outcome,
                                   const std::function<std::uint64_t(int rank)>& scratch, const std::string& words) {
  const std::uint64_t n = c.size * sizeof(float);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::uint64_t held = outcome.ledgers[rank].memory.peak_total, allowed = n + scratch(rank);
    if (held > allowed)
      return fmt::format("rank {} held {} bytes at its peak, allowed {}: its array of {}, {}", rank, held, allowed, n,
                         words);
  }
  return "";
}

/// Virtual seconds of `collective` on `machine`, for arrays of these numbers of fp32 elements, without memory; empty
/// where the test was skipped or has failed.
inline std::vector<double> virtual_seconds(const Collective& collective, const Machine& machine, int ranks,
                                           const std::vector<std::size_t>& sizes,
                                           Location where = Location::current()) {
  std::vector<double> seconds;
  const auto adjust = [&machine](const Case&, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();  // its delays would be measured
    options.machine = machine;
    options.machine.eager_bytes = 0;
  };
  run_cases(
      [&](Rank me, const Case& c) {
        collective(me, me.allocate(c.size, DType::f32, Category::gradient));
        return Values{};
      },
      [&](const Case&, const Outcome& outcome) {
        seconds.push_back(outcome.seconds);
        return "";
      },
      {.ranks = {ranks},
       .sizes = sizes_of(sizes),
       .together = true,
       .simulator_only = "it checks virtual time, which only the simulator has",
       .adjust = adjust},
      where);
  return seconds.size() == sizes.size() ? seconds : std::vector<double>{};
}

}  // namespace lockstep::week21
