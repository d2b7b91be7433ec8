// 25.5 with the exact least waste, where its derivative is 0, by bisection; and the run as a switch that returns early.
#include "labs/week25_3d/save_interval.hpp"

#include <cmath>

namespace lockstep::week25 {

double expected_waste(const SavingCosts& costs, double interval) {
  const double share = interval / costs.mtbf, turn = share + costs.save / costs.mtbf;
  const double lasting = share * std::exp(-costs.restart / costs.mtbf) / std::expm1(turn);
  return 1 - lasting;
}

Intervals best_intervals(const SavingCosts& costs) {
  const double d = costs.save / costs.mtbf;
  const double series = std::sqrt(2 * d) + d / 3 + std::pow(d, 1.5) / (9 * std::sqrt(2.0)) - d;
  return {.young = costs.mtbf * std::sqrt(2 * d), .daly = d >= 2 ? costs.mtbf : costs.mtbf * series};
}

double advance(RunState& run, const SavingCosts& costs, double interval, double available) {
  const bool done = run.left <= available;
  const double passed = done ? run.left : available;
  run.left -= passed;
  switch (run.doing) {
    case Doing::work:
      run.unsaved += passed;
      if (done) run.doing = Doing::save, run.left = costs.save;
      return passed;
    case Doing::save:
      run.spent.saves += passed;
      if (!done) return passed;
      run.spent.work += run.unsaved;
      run.unsaved = 0;
      break;
    case Doing::restart:
      run.spent.restarts += passed;
      if (!done) return passed;
      break;
  }
  run.doing = Doing::work;
  run.left = interval;
  return passed;
}

void fail(RunState& run, const SavingCosts& costs) {
  ++run.spent.failures;
  run.spent.lost += run.unsaved;
  run.unsaved = 0;
  run.left = costs.restart;
  run.doing = Doing::restart;
}

int steps_between_saves(const MeasuredSaves& saves, double restart, double mtbf) {
  const SavingCosts costs{saves.stopped, restart, mtbf};
  // The waste falls with the interval τ as long as e^((τ + δ)/M)·(1 − τ/M) is above 1.
  double low = 0, high = mtbf;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::log1p(-middle / mtbf) + (middle + saves.stopped) / mtbf > 0 ? low : high) = middle;
  }
  int steps = static_cast<int>(low / saves.step);
  if (steps < 1 || expected_waste(costs, (steps + 1) * saves.step) < expected_waste(costs, steps * saves.step)) ++steps;
  const double fewest = std::ceil((saves.complete - saves.stopped) / saves.step);
  return steps < fewest ? static_cast<int>(fewest) : steps;
}

}  // namespace lockstep::week25
