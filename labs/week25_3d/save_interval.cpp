// Exercise 25.5: how often to save. Read labs/week25_3d/save_interval.hpp first.
#include "labs/week25_3d/save_interval.hpp"

#include <algorithm>
#include <cmath>

#include "common/error.hpp"

namespace lockstep::week25 {

double expected_waste(const SavingCosts& costs, double interval) {
  todo("25.5a",
       "how long `interval` seconds of work take, and which share of that is not work; e^x − 1 of a small x is "
       "std::expm1");
}

Intervals best_intervals(const SavingCosts& costs) {
  todo("25.5a", "Young's, and Daly's correction of it; take care where δ is 2M or more");
}

double advance(RunState& run, const SavingCosts& costs, double interval, double available) {
  const double passed = std::min(run.left, available);
  run.left -= passed;
  todo("25.5b",
       "the run after `passed` seconds of what it is doing. If that is complete, what has become lasting, and what "
       "comes next?");
  return passed;
}

void fail(RunState& run, const SavingCosts& costs) {
  ++run.spent.failures;
  todo("25.5b", "what is lost, and what begins");
}

int steps_between_saves(const MeasuredSaves& saves, double restart, double mtbf) {
  const SavingCosts costs{.save = saves.stopped, .restart = restart, .mtbf = mtbf};
  todo("25.5c",
       "the number of steps with the least waste among those that are allowed. The waste has a single minimum; where "
       "would you begin to look for it?");
}

}  // namespace lockstep::week25
