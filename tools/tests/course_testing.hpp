// The suite's own course, as tests read it.
#pragma once

#include "tools/course/course.hpp"

namespace lockstep::tools {

inline Course the_course() { return Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json"); }

}  // namespace lockstep::tools
