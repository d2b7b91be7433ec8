// What the tests of 21.7 share: a script, run over many numbers of ranks and parameters.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ddp_script.hpp"

namespace lockstep::week21 {

using testing::CasePlan;
using testing::run_cases;
using testing::scripted_parameters;
using testing::sizes_of;

inline void run_script(const Script& script, CasePlan plan = {}, Location where = Location::current()) {
  if (::testing::Test::HasFailure()) return;  // one mistake, one report
  plan.unit = "parameter";
  plan.sizes = sizes_of({1, 2, 5, 12});
  plan.queues = script.options.overlap;
  run_cases([&](Rank me, const Case& c) { return train_script(me, c.size, script); },
            [&](const Case& c, const Outcome& outcome) {
              const std::string wrong = wrong_counts(c, outcome, script);
              return wrong.empty() ? wrong_values(c, outcome, script) : wrong;
            },
            plan, where);
}

}  // namespace lockstep::week21
