// Exercise 24.7, an open task: a schedule of your own. Read labs/week24_pipeline/open_schedule.hpp first.
#include "labs/week24_pipeline/open_schedule.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

std::string open_schedule(const OpenPipeline& pipeline) {
  todo("24.7", "as you like");
}

}  // namespace lockstep::week24
