// 24.6 with each convention from the other: idle/total = 1 − 1/(1 + idle/ideal). It rounds otherwise.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

namespace lockstep::week24 {
namespace {

double of_total(double of_ideal) { return 1 - 1 / (1 + of_ideal); }

}  // namespace

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  const auto most = [&](auto&& of) {
    double most = 0;
    for (const StageUse& stage : stages) most = std::max(most, of(stage));
    return most;
  };
  const double busy = most([](const StageUse& stage) { return stage.busy; });
  Bubble bubble{.makespan = most([](const StageUse& stage) { return stage.end; }),
                .longest_span = most([](const StageUse& stage) { return stage.end - stage.begin; })};
  bubble.of_ideal = bubble.makespan / busy - 1;
  bubble.of_total = of_total(bubble.of_ideal);
  bubble.of_span = of_total(bubble.longest_span / busy - 1);
  return bubble;
}

}  // namespace lockstep::week24
