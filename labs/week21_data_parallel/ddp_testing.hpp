// Shared by the tests of 21.7: a script, run over many numbers of ranks and parameters.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ddp_script_testing.hpp"

namespace lockstep::week21 {

using testing::CasePlan;
using testing::run_cases;
using testing::scripted_parameters;
using testing::sizes_of;

/// For tests of later parts: the mistake in average(), part a, which every bucket goes through; "" if it averages.
inline std::string wrong_average() {
  if (!testing::has_ranks(2)) return "";
  const Outcome outcome = run({.ranks = 2}, Program([](Rank me) {
                                Slice value = me.allocate(1, DType::f32, Category::gradient);
                                fill(me, value, me.rank() == 0 ? 1 : 3);
                                average(me, value, ring_all_reduce);
                                return Values{read(me, value, 2)};
                              }));
  if (!outcome.passed()) return "";
  for (const Values& seen : outcome.values)
    if (seen[0] != 2)
      return fmt::format(
          "21.7a first: average() of 1 and 3 on two ranks gives {}, expected 2{}. Every bucket goes through it.",
          seen[0],
          seen[0] == 4   ? ": the sum is not divided by p"
          : seen[0] == 0 ? ": 1 / p of two ints is 0 in C++"
                         : "");
  return "";
}

inline void run_script(const Script& script, CasePlan plan = {}, Location where = Location::current()) {
  if (::testing::Test::HasFailure()) return;  // one mistake, one report
  plan.unit = "parameter";
  plan.sizes = sizes_of({1, 2, 5, 12});
  plan.queues = script.options.overlap;
  plan.cause = wrong_average;
  run_cases([&](Rank me, const Case& c) { return train_script(me, c.size, script); },
            [&](const Case& c, const Outcome& outcome) {
              const std::string wrong = wrong_counts(c, outcome, script);
              return wrong.empty() ? wrong_values(c, outcome, script) : wrong;
            },
            plan, where);
}

}  // namespace lockstep::week21
