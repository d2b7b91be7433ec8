// Exercise 21.5: what an all-reduce costs, predicted with four numbers, before anything runs.
//
// The α-β-γ model: a message of n bytes takes α + nβ seconds, adding n bytes to n others takes γn. See Hockney,
// Parallel Computing 20 (1994), and Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 2.
//
// Symbols: p ranks, n bytes of the whole array. The formulas are exact for arrays that p divides and that are larger
// than the machine's eager_bytes, between ranks of one level of links, each with ports of its own; otherwise they are
// estimates.
#pragma once

#include <vector>

namespace lockstep {
struct Machine;
}

namespace lockstep::week21 {

struct CostModel {
  double alpha = 0;   ///< α: seconds a message takes, however short
  double beta = 0;    ///< β: seconds per byte of a message; 1/β is the link's bandwidth
  double gamma = 0;   ///< γ: seconds per byte reduced
  double launch = 0;  ///< seconds that every arithmetic operation takes, however short (a kernel launch)
};

/// Given: the costs on `machine` of the slowest link among `ranks` ≥ 1 neighbours (one rank: messages are free).
CostModel cost_model(const Machine& machine, int ranks);
/// Given: the same where each of these ranks sends across that link at once: a port that several share, such as a
/// node's only NIC, serves them in turn.
CostModel cost_of_all_at_once(const Machine& machine, int ranks);

// Every function below returns 0 for one rank. -----------------------------------------------------------------------

/// Seconds of 21.1: rank 0 receives p − 1 arrays one after the other and adds each; then sends the sum to each peer.
/// Its port sends them back to back; the last one still has to travel.
double naive_all_reduce_seconds(CostModel cost, int ranks, double bytes);

/// Seconds of 21.2: p − 1 steps that exchange and add one chunk, then p − 1 that exchange one.
double ring_all_reduce_seconds(CostModel cost, int ranks, double bytes);

/// Given: 21.3's recursive doubling, any p: ⌊lg p⌋ steps that exchange and add the whole array; two more messages and
/// an addition where p is not a power of two. With a machine, each step costs what the links that its distance crosses
/// cost.
double recursive_doubling_seconds(CostModel cost, int ranks, double bytes);
double recursive_doubling_seconds(const Machine& machine, int ranks, double bytes);
/// Given: 21.3's Rabenseifner, likewise: halving, then doubling. Few steps and few bytes.
double rabenseifner_seconds(CostModel cost, int ranks, double bytes);
double rabenseifner_seconds(const Machine& machine, int ranks, double bytes);

/// Given: how nccl-tests reports an all-reduce (doc/PERFORMANCE.md), in bytes per second.
struct Bandwidth {
  double algorithm = 0;  ///< algbw: bytes of the array / seconds
  double bus = 0;        ///< busbw: algbw × 2(p − 1)/p: what a link carries, comparable between different p
};
Bandwidth bandwidth(int ranks, double bytes, double seconds);

/// Given: compute / (compute + communication), the part of a step that is not spent communicating, if nothing overlaps.
double communication_efficiency(double compute_seconds, double communication_seconds);

/// One rank's work in a step.
struct Workload {
  int ranks = 2;
  double tokens = 8192;            ///< of this rank, in a step
  double flop_per_second = 1e14;   ///< reached in training, not the peak
  double bytes_per_parameter = 4;  ///< of a gradient
};

struct OverheadPoint {
  double parameters = 0;
  double bytes_per_second = 0;
  double compute_seconds = 0;        ///< 6 FLOP per parameter and token: 2 forward, 4 backward (arXiv 2001.08361)
  double communication_seconds = 0;  ///< one ring all-reduce of all gradients; without latency and additions
  double efficiency = 0;
};
/// Given: the overhead chart. A point for each model size and, within it, each bandwidth of a link, in the order given.
std::vector<OverheadPoint> overhead_chart(const std::vector<double>& parameters,
                                          const std::vector<double>& bytes_per_second, Workload workload);

}  // namespace lockstep::week21
