// Outcomes on their way from a process that ran an answer (--outcomes-to FILE) to one that never held any and judges
// them (--outcomes-of FILE): the same tests, in which run_cases takes what was handed over for what it would have run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/testing/cases.hpp"

namespace lockstep::testing {

/// Appends the outcome of the running test's next run, without its trace. Throws Error(usage) where it cannot.
void hand_over(const Case& the_case, std::optional<std::uint64_t> perturb, const Outcome& outcome);

/// The outcome of the running test's next run. Throws Error(usage) where none was handed over, or another run's.
Outcome handed_over(const Case& the_case, std::optional<std::uint64_t> perturb);

/// The tests of which more was handed over than was judged; "" if there are none.
std::string never_judged();

}  // namespace lockstep::testing
