// Exercise 24.7, an open task: a schedule of your own. Read labs/week24_pipeline/open_schedule.hpp first.
#include "labs/week24_pipeline/open_schedule.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

std::string open_schedule(const OpenPipeline& pipeline) {
  // lab 24.7 begin: as you like
  const int p = pipeline.shape.stages, m = pipeline.shape.microbatches;
  std::string text;
  const auto add = [&text](Work work, int i) { text += to_string({work, i}) + " "; };
  for (int s = 0; s < p; ++s) {
    const int warm_up = std::min(p - 1 - s, pipeline.most_in_flight - 1), late = pipeline.most_in_flight - 1 - warm_up;
    for (int i = 0; i < warm_up; ++i) add(Work::forward, i);
    for (int i = 0; i < m + late; ++i) {
      if (warm_up + i < m) add(Work::forward, warm_up + i);
      if (i < m) add(Work::input_gradient, i);
      if (i >= late) add(Work::weight_gradient, i - late);
    }
    text += "\n";
  }
  return text;
  // lab end
}

}  // namespace lockstep::week24
