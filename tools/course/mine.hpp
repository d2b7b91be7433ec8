// Programs with the learner's answers in them: mine.PROGRAM, one for each PROGRAM that runs exercises
// (lockstep_use_answers in cmake/LockstepLabs.cmake).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/course/judge.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// The ids of the answers that `program` links; none where it is not in this build.
std::set<std::string> linked_by(const Paths& paths, const std::string& program);

/// The exercises whose answers `program` links, in the course's order; none of a program that runs none.
std::vector<Exercise> exercises_of(const Paths& paths, const std::string& program);

/// Lists the `exercises` that use the reference: "21.2 (yours: FAIL), 21.7 (not in this handout)". `borrowed` are those
/// of them whose answers could be the learner's.
std::string whose_are_the_references(const Paths& paths, const std::vector<Borrowed>& borrowed,
                                     const std::vector<Exercise>& exercises);

/// Builds mine.PROGRAM for each of `programs`. Answers that are not known to pass are judged first; where `borrow`, the
/// reference stands in for those that do not. Returns whose code runs in them together: "yours: all", or "yours: 21.2
/// 21.7; borrowed: 22.4 (yours: FAIL)"; each program is told of its own. Throws Error(usage) where one cannot be built.
std::string build_mine(const Paths& paths, const std::vector<std::string>& programs, bool borrow);

}  // namespace lockstep::tools
