// Hands outcomes from a process that ran an answer (--outcomes-to FILE) to one that never held any and judges them
// (--outcomes-of FILE). Both run the same tests; in the second, run_cases takes outcomes that were handed over instead
// of running, and answered() takes results instead of calling.
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

/// Encloses a run or a call: nothing else is handed over, or taken from there, while one of these is alive.
class OneOutcome {
 public:
  OneOutcome();
  ~OneOutcome();
  OneOutcome(const OneOutcome&) = delete;
};

/// True if calls are handed over, from here or to here, and this is part of no other outcome.
bool calls_are_handed_over();
/// True if this process takes results of calls that were handed over.
bool calls_were_handed_over();

/// Appends the result of a call, in bytes, or takes the running test's next one. A result that is missing, or another
/// call's, fails the test, and throws Error(usage).
void hand_over_call(const std::string& call, const std::string& result);
std::string handed_over_call(const std::string& call);

/// The tests of which more was handed over than was judged; "" if there are none.
std::string never_judged();

}  // namespace lockstep::testing
