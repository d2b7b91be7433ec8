// Exercise 21.5: the α-β-γ cost model. Read labs/week21_data_parallel/cost_model.hpp first.
#include "labs/week21_data_parallel/cost_model.hpp"

#include <cmath>

#include "common/machine/machine.hpp"

namespace lockstep::week21 {

CostModel cost_model(const Machine& machine, int ranks) {
  if (ranks == 1) return {0, 0, machine.gamma(), machine.launch};
  const int level = machine.level_between(0, ranks - 1);
  return {machine.alpha(level), machine.beta(level), machine.gamma(), machine.launch};
}

double naive_all_reduce_seconds(CostModel cost, int ranks, double bytes) {
  todo("21.5", "p − 1 times a message and an addition; then p − 1 arrays leave, and the last one arrives α later");
}

double ring_all_reduce_seconds(CostModel cost, int ranks, double bytes) {
  todo("21.5", "2(p − 1) messages of n/p bytes, and p − 1 additions of n/p bytes");
}

double recursive_doubling_seconds(CostModel cost, int ranks, double bytes) {
  return std::log2(ranks) * (cost.alpha + bytes * cost.beta + bytes * cost.gamma + cost.launch);
}

double rabenseifner_seconds(CostModel cost, int ranks, double bytes) {
  const double moved = bytes * (ranks - 1) / ranks;  // n/2 + n/4 + … + n/p
  return std::log2(ranks) * (2 * cost.alpha + cost.launch) + 2 * moved * cost.beta + moved * cost.gamma;
}

Bandwidth bandwidth(int ranks, double bytes, double seconds) {
  todo("21.5", "algbw and busbw; one rank moves nothing, so its busbw is 0");
}

double communication_efficiency(double compute_seconds, double communication_seconds) {
  todo("21.5", "the fraction of the step that computes");
}

std::vector<OverheadPoint> overhead_chart(const std::vector<double>& parameters,
                                          const std::vector<double>& bytes_per_second, Workload workload) {
  std::vector<OverheadPoint> chart;
  todo("21.5",
       "for each model size, for each bandwidth: seconds of computing, seconds of a ring all-reduce of the gradients "
       "with β = 1/bandwidth and nothing else, and their efficiency");
}

}  // namespace lockstep::week21
