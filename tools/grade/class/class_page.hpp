// A class's results on one page, and as a table of points.
#pragma once

#include <string>

#include "tools/grade/class/class_data.hpp"

namespace lockstep::tools {

/// HTML, under a heading with the weeks that were graded. `feedback`: the folder of the students' pages as seen from
/// this one; empty: there are none.
std::string class_page(const ClassData& data, const std::string& feedback);

/// "4 of 10 graded so far".
std::string so_far(const ClassData& data);

/// submission, points, most, graded, late, grace (days used), counted (points that are left), then the points of each
/// part; empty where it was not graded. "21.2 (all parts together)" is what the tests of its parts leave of 21.2's.
std::string class_csv(const ClassData& data);

}  // namespace lockstep::tools
