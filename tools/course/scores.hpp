// The scoreboard of open tasks, which are judged by how much and not by yes or no. outputs/scores.log keeps what one's
// own answers reached; of a class, ./lab grade has measured it.
#pragma once

#include <string>

#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// Keeps the scores that a passing answer's tests have noted, and says in a line each how they compare with the best of
/// before; "" where it has none.
std::string keep_scores(const Paths& paths, const testing::Judgement& judgement);

/// One's own scores: the best of each task, and the last. Returns 0.
int print_scores(const Paths& paths);

/// Prints a ranking, best first, from the folder of results that ./lab grade has written. Returns 0; throws
/// Error(usage) where the folder has no results.
int print_ranking(const std::string& folder);

}  // namespace lockstep::tools
