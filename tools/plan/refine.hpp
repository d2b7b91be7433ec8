// The best plans once more, each as the simulator plays it: formulas choose whom to look at, the simulator ranks.
//
// Formulas leave out what messages do to each other where ports are shared and slow: on Ethernet they say a third to a
// sixth of the time. They hardly ever say too much, so they serve as a bound: who is predicted slower than the last of
// the best found so far need not be played.
#pragma once

#include <optional>
#include <vector>

#include "labs/trainer/plan/search.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {

struct Refined {
  week25::Rated rated;                        ///< by formula
  std::optional<week25::PhantomStep> played;  ///< nothing where stages are placed differently in their nodes
  double seconds() const { return played ? played->seconds : rated.time.total(); }
};

struct Refinement {
  std::vector<Refined> best;  ///< of each mesh one, fastest first, each in its GPU's memory
  int played = 0;
  bool all = false;  ///< who was not played is predicted slower than the last of `best`
};

/// `count` meshes out of `fitting`, which is sorted by prediction: first the four best of each mesh by formula, then up
/// to 24 of each. Ends, too, once the steps of schedules that were played, on all stages, are more than `most`: 150,000
/// of them take some ten seconds.
Refinement refine(const Task& task, const std::vector<week25::Rated>& fitting, std::size_t count, double most = 150e3);

/// Puts the ten best of a search into the simulator's order, which is returned; behind them what formulas say of the
/// rest.
std::vector<Refined> rank_by_simulator(const Task& task, Search& found);

}  // namespace lockstep::plan
