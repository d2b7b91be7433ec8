// Exercise 25.5: how often to save. Read labs/week25_3d/save_interval.hpp first.
#include "labs/week25_3d/save_interval.hpp"

#include <algorithm>
#include <cmath>

#include "common/error.hpp"

namespace lockstep::week25 {

double expected_waste(const SavingCosts& costs, double interval) {
  // lab 25.5a begin: how long `interval` seconds of work take, and which share of that is not work; e^x − 1 of a small
  // x is std::expm1
  const double m = costs.mtbf;
  const double taken = m * std::exp(costs.restart / m) * std::expm1((interval + costs.save) / m);
  return 1 - interval / taken;
  // lab end
}

Intervals best_intervals(const SavingCosts& costs) {
  // lab 25.5a begin: Young's, and Daly's correction of it; take care where δ is 2M or more
  const double young = std::sqrt(2 * costs.save * costs.mtbf), x = std::sqrt(costs.save / (2 * costs.mtbf));
  return {young, costs.save < 2 * costs.mtbf ? young * (1 + x / 3 + x * x / 9) - costs.save : costs.mtbf};
  // lab end
}

double advance(RunState& run, const SavingCosts& costs, double interval, double available) {
  const double passed = std::min(run.left, available);
  run.left -= passed;
  // lab 25.5b begin: the run after `passed` seconds of what it is doing. If that is complete, what has become lasting,
  // and what comes next?
  if (run.doing == Doing::work) run.unsaved += passed;
  if (run.doing == Doing::save) run.spent.saves += passed;
  if (run.doing == Doing::restart) run.spent.restarts += passed;
  if (run.left > 0) return passed;
  if (run.doing == Doing::save) {
    run.spent.work += run.unsaved;
    run.unsaved = 0;
  }
  run.doing = run.doing == Doing::work ? Doing::save : Doing::work;
  run.left = run.doing == Doing::save ? costs.save : interval;
  // lab end
  return passed;
}

void fail(RunState& run, const SavingCosts& costs) {
  ++run.spent.failures;
  // lab 25.5b begin: what is lost, and what begins
  run.spent.lost += run.unsaved;
  run.unsaved = 0;
  run.doing = Doing::restart;
  run.left = costs.restart;
  // lab end
}

int steps_between_saves(const MeasuredSaves& saves, double restart, double mtbf) {
  const SavingCosts costs{.save = saves.stopped, .restart = restart, .mtbf = mtbf};
  // lab 25.5c begin: the number of steps with the least waste among those that are allowed. The waste has a single
  // minimum; where would you begin to look for it?
  const auto waste = [&](int steps) { return expected_waste(costs, steps * saves.step); };
  const double enough = std::ceil((saves.complete - saves.stopped) / saves.step);
  const int fewest = std::max(1, static_cast<int>(enough));
  int steps = std::max(fewest, static_cast<int>(best_intervals(costs).daly / saves.step));
  while (waste(steps + 1) < waste(steps)) ++steps;
  while (steps > fewest && waste(steps - 1) < waste(steps)) --steps;
  return steps;
  // lab end
}

}  // namespace lockstep::week25
