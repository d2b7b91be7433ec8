// ./lab card: design cards, whose answers the planner's program judges.
#pragma once

#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// What ./lab card does with its arguments, but for the build: lists the cards, shows one or judges an answer.
int play_card(const Paths& paths, const std::vector<std::string>& arguments);

}  // namespace lockstep::tools
