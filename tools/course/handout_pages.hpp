// The pages of a handout: its README.md and AGENTS.md, and the others without links to files that it lacks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/course/course.hpp"

namespace lockstep::tools {

/// The first page that students read. `platform`: what the compiled answers fit.
std::string handout_readme(const std::vector<Week>& weeks, int hints, const std::string& platform);

/// `page` (Markdown) without the section below `heading` ("## Teaching"), up to the next heading of its level.
std::string without_section(const std::string& page, const std::string& heading);
/// The section of docs/use/commands.md that no handout has: its commands need the whole suite, or are the instructor's.
inline constexpr const char* kNoHandoutsCommands = "## Teaching, and testing the suite";

/// `page` (Markdown) with "[words](target)" replaced by "words" where the file `target`, relative to the page, does not
/// exist. Code, addresses ("https:…") and headings of the same page ("#…") stay.
std::string without_dead_links(const std::string& page, const std::function<bool(const std::string& target)>& exists);

/// AGENTS.md, which AI assistants read: that they tutor and do not solve.
std::string handout_agents(const std::vector<Week>& weeks, int hints);

}  // namespace lockstep::tools
