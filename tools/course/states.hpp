// Where a learner stands: what became of each exercise, and what comes next.
#pragma once

#include <optional>
#include <string>

#include "tools/course/record.hpp"

namespace lockstep::tools {

/// What is known of an answer without judging it.
struct State {
  bool passes = false;    ///< as it is now
  bool untouched = true;  ///< as it was handed out
  bool borrowed = false;  ///< by ./lab borrow
  std::string words;      ///< "PASS", "FAIL (edited since)", "begun, not checked", "borrowed", "-"
};
State state_of(const Paths& paths, const Exercise& exercise);

/// The exercise to go on with: the first of the core in the course's order that neither passes nor is borrowed, then
/// the first extra one; `after` an exercise, the first of those behind it if there is any. Empty where all pass.
std::optional<Exercise> next_exercise(const Paths& paths, const std::string& after = "");

/// "21.3 Recursive doubling and Rabenseifner, 90 minutes (extra)".
std::string in_one_line(const Exercise& exercise);

/// The same, ": ./lab check 21.3" behind it.
std::string describe_next(const Exercise& exercise);

}  // namespace lockstep::tools
