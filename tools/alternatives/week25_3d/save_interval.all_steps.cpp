// 25.5 with powers instead of e^x − 1 in one call, a table of what follows what, and all numbers of steps compared.
#include "labs/week25_3d/save_interval.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::week25 {
namespace {

/// e^x − 1 by its series where that is short.
double grown(double x) {
  if (x > 0.1) return std::exp(x) - 1;
  double sum = 0, term = 1;
  for (int n = 1; n < 20; ++n) sum += term *= x / n;
  return sum;
}

}  // namespace

double expected_waste(const SavingCosts& costs, double interval) {
  const double turn = (interval + costs.save) / costs.mtbf, restart = costs.restart / costs.mtbf;
  return 1 - interval / costs.mtbf * std::exp(-restart) / grown(turn);
}

Intervals best_intervals(const SavingCosts& costs) {
  const double ratio = costs.save / (2 * costs.mtbf);
  Intervals found;
  found.young = 2 * costs.mtbf * std::sqrt(ratio);
  found.daly = costs.mtbf;
  if (ratio < 1) found.daly = found.young + found.young * std::sqrt(ratio) / 3 + found.young * ratio / 9 - costs.save;
  return found;
}

double advance(RunState& run, const SavingCosts& costs, double interval, double available) {
  struct Stage {
    double* book;
    Doing next;
    double takes;
  };
  const std::array<Stage, 3> stages = {Stage{&run.unsaved, Doing::save, costs.save},
                                       Stage{&run.spent.saves, Doing::work, interval},
                                       Stage{&run.spent.restarts, Doing::work, interval}};
  const Stage& stage = stages[static_cast<std::size_t>(run.doing)];
  if (available < run.left) {
    run.left -= available;
    *stage.book += available;
    return available;
  }
  const double passed = run.left;
  *stage.book += passed;
  if (run.doing == Doing::save) {
    run.spent.work += run.unsaved;
    run.unsaved = 0;
  }
  run.left = stage.takes;
  run.doing = stage.next;
  return passed;
}

void fail(RunState& run, const SavingCosts& costs) {
  TimeSpent spent = run.spent;
  spent.lost += run.unsaved;
  spent.failures += 1;
  run = {.doing = Doing::restart, .left = costs.restart, .spent = spent};
}

int steps_between_saves(const MeasuredSaves& saves, double restart, double mtbf) {
  const SavingCosts costs{saves.stopped, restart, mtbf};
  int fewest = 1;
  while (saves.stopped + fewest * saves.step < saves.complete - 1e-9 * saves.step) ++fewest;
  const int most = std::max(fewest, 2 + static_cast<int>(best_intervals(costs).young / saves.step));
  int best = fewest;
  for (int steps = fewest + 1; steps <= most; ++steps)
    if (expected_waste(costs, steps * saves.step) < expected_waste(costs, best * saves.step)) best = steps;
  return best;
}

}  // namespace lockstep::week25
