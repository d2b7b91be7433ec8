// ./lab drill: which variant of a drill a learner has, what became of it, and the program that plays and judges it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// "drill 21   A data-parallel run that went wrong   20 min  core   open"; a line each, without the others' weeks where
/// one is named.
std::string format_drills(const Paths& paths, const std::vector<Drill>& drills);
/// "1 of 3 core drills solved", of the weeks that are here; "" where these have none.
std::string count_drills(const Paths& paths);

/// The first core drill that is not solved, of a week whose core exercises all pass or are borrowed; empty where there
/// is none.
std::optional<Drill> next_drill(const Paths& paths);
/// "drill 21 A data-parallel run that went wrong, 20 minutes: ./lab drill 21".
std::string describe_next(const Drill& drill);

/// Runs ./lab drill with its arguments: starts the program `drill`, which must be built.
int play_drill(const Paths& paths, const std::vector<std::string>& arguments);

}  // namespace lockstep::tools
