// Exercise 21.5: the α-β-γ cost model. Read labs/week21_data_parallel/cost_model.hpp first.
#include "labs/week21_data_parallel/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "common/runtime/machine/machine.hpp"

namespace lockstep::week21 {

CostModel cost_model(const Machine& machine, int ranks) {
  if (ranks == 1) return {0, 0, machine.gamma(), machine.launch};
  const int level = machine.level_between(0, ranks - 1);
  return {machine.alpha(level), machine.beta(level), machine.gamma(), machine.launch};
}

CostModel cost_of_all_at_once(const Machine& machine, int ranks) {
  CostModel cost = cost_model(machine, ranks);
  if (ranks == 1) return cost;
  for (int level = 0; level <= machine.level_between(0, ranks - 1); ++level) {
    const LinkLevel& link = machine.levels[static_cast<std::size_t>(level)];
    if (!link.shared) continue;
    const int behind = level == 0 ? link.ranks : machine.levels[static_cast<std::size_t>(level) - 1].ranks;
    const int sharing = behind == 0 ? ranks : std::min(behind, ranks);
    cost.beta = std::max(cost.beta, sharing / link.bytes_per_second);
  }
  return cost;
}

double naive_all_reduce_seconds(CostModel cost, int ranks, double bytes) {
  todo("21.5", "p − 1 times a message and an addition; then p − 1 arrays are sent, the last of which arrives α later");
}

double ring_all_reduce_seconds(CostModel cost, int ranks, double bytes) {
  todo("21.5", "2(p − 1) messages of n/p bytes, and p − 1 additions of n/p bytes");
}

// Both algorithms, step by step: `among(2d)` prices messages between ranks d apart. Where p is no power of two, p − b
// spare ranks first send their array to be added, and get the sum at the end.
namespace {
using PriceAmong = std::function<CostModel(int ranks)>;

double with_spare_ranks(CostModel cost, int ranks, int butterfly, double bytes, double seconds) {
  const double message = cost.alpha + bytes * cost.beta;
  return ranks == butterfly ? seconds : seconds + 2 * message + bytes * cost.gamma + cost.launch;
}

double doubling(const PriceAmong& among, int ranks, double bytes) {
  const int butterfly = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  double seconds = 0;
  for (int group = 2; group <= butterfly; group *= 2) {  // the whole array, exchanged and added
    const CostModel cost = among(group);
    seconds += cost.alpha + bytes * cost.beta + bytes * cost.gamma + cost.launch;
  }
  return with_spare_ranks(among(ranks), ranks, butterfly, bytes, seconds);
}

double halving_doubling(const PriceAmong& among, int ranks, double bytes) {
  const int butterfly = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  double seconds = 0, part = bytes;
  for (int group = 2; group <= butterfly; group *= 2) {  // a part, half as long each time: there, added, and back
    const CostModel cost = among(group);
    part /= 2;
    seconds += 2 * (cost.alpha + part * cost.beta) + part * cost.gamma + cost.launch;
  }
  return with_spare_ranks(among(ranks), ranks, butterfly, bytes, seconds);
}

PriceAmong everywhere(CostModel cost) {
  return [cost](int) { return cost; };
}
PriceAmong on(const Machine& machine) {
  return [&machine](int ranks) { return cost_of_all_at_once(machine, ranks); };
}
}  // namespace

double recursive_doubling_seconds(CostModel cost, int ranks, double bytes) {
  return doubling(everywhere(cost), ranks, bytes);
}
double recursive_doubling_seconds(const Machine& machine, int ranks, double bytes) {
  return doubling(on(machine), ranks, bytes);
}

double rabenseifner_seconds(CostModel cost, int ranks, double bytes) {
  return halving_doubling(everywhere(cost), ranks, bytes);
}
double rabenseifner_seconds(const Machine& machine, int ranks, double bytes) {
  return halving_doubling(on(machine), ranks, bytes);
}

Bandwidth bandwidth(int ranks, double bytes, double seconds) {
  const double algorithm = bytes / seconds;
  return {algorithm, algorithm * 2 * (ranks - 1) / ranks};  // one rank moves nothing: its busbw is 0
}

double communication_efficiency(double compute_seconds, double communication_seconds) {
  return compute_seconds / (compute_seconds + communication_seconds);
}

std::vector<OverheadPoint> overhead_chart(const std::vector<double>& parameters,
                                          const std::vector<double>& bytes_per_second, Workload workload) {
  std::vector<OverheadPoint> chart;
  for (double size : parameters)
    for (double link : bytes_per_second) {
      const double compute = 6 * size * workload.tokens / workload.flop_per_second;
      const double communication =
          ring_all_reduce_seconds({.beta = 1 / link}, workload.ranks, size * workload.bytes_per_parameter);
      chart.push_back({size, link, compute, communication, communication_efficiency(compute, communication)});
    }
  return chart;
}

}  // namespace lockstep::week21
