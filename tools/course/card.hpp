// ./lab card: design cards, whose answers the planner's program judges.
#pragma once

#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// Runs ./lab card with its arguments: lists the cards, shows one or judges an answer. The program must be built.
int play_card(const Paths& paths, const std::vector<std::string>& arguments);

}  // namespace lockstep::tools
