// For tests whose cases have numbers, such as layouts or loads: messages say in words what a case is.
#pragma once

#include <functional>
#include <string>

#include "common/testing/cases.hpp"

namespace lockstep::testing {

/// Describes a case, in a sentence with its full stop.
using CaseWords = std::function<std::string(const Case&)>;

/// Calls run_cases. `words` stand at the end of the judge's message; and where there is nothing to judge, as in a
/// deadlock, before the description of the failure, unless an earlier part is the cause.
inline void run_described(const CaseProgram& program, const CaseJudge& judge, CasePlan plan, const CaseWords& words,
                          Location where = Location::current()) {
  Case runs;
  bool told = false;
  plan.adjust = [&, adjust = plan.adjust](const Case& c, RunOptions& options) {
    runs = c, told = false;
    if (adjust) adjust(c, options);
  };
  plan.cause = [&, cause = plan.cause] {
    const std::string first = cause ? cause() : "";
    return first.empty() && !told ? "(" + words(runs) + ")" : first;
  };
  const auto telling = [&](const Case& c, const Outcome& outcome) {
    std::string wrong = judge(c, outcome);
    told = !wrong.empty();
    if (told) wrong += (wrong.ends_with('.') || wrong.ends_with('?') ? " " : ". ") + words(c);
    return wrong;
  };
  run_cases(program, telling, plan, where);
}

}  // namespace lockstep::testing
