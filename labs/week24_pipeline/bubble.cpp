// Exercise 24.6: the bubble, measured. Read labs/week24_pipeline/bubble.hpp first.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  Bubble bubble;
  for (const StageUse& stage : stages) {
    bubble.makespan = std::max(bubble.makespan, stage.end);
    bubble.longest_span = std::max(bubble.longest_span, stage.end - stage.begin);
  }
  todo("24.6", "what would the run take if no stage ever waited? Then the three ratios");
}

}  // namespace lockstep::week24
