// 24.6 by sorting.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

namespace lockstep::week24 {
namespace {

template <class Value>
double largest(std::vector<StageUse> stages, const Value& value) {
  std::sort(stages.begin(), stages.end(), [&](const StageUse& a, const StageUse& b) { return value(a) > value(b); });
  return value(stages.front());
}

}  // namespace

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  const double ideal = largest(stages, [](const StageUse& stage) { return stage.busy; });
  Bubble bubble;
  bubble.makespan = largest(stages, [](const StageUse& stage) { return stage.end; });
  bubble.longest_span = largest(stages, [](const StageUse& stage) { return stage.end - stage.begin; });
  bubble.of_ideal = bubble.makespan / ideal - 1;
  bubble.of_total = 1 - ideal / bubble.makespan;
  bubble.of_span = 1 - ideal / bubble.longest_span;
  return bubble;
}

}  // namespace lockstep::week24
