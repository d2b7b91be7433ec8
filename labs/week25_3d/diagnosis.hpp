// Exercise 25.4: where a step's time goes, and what keeps it from scaling. From each rank's ledger to five costs that
// add up to the step; from these to the one that limits it; and from several numbers of ranks to a scaling law.
//
// The costs are those of the POP metrics (Rosas, Giménez and Labarta, Scalability prediction for fundamental
// performance factors, Supercomputing Frontiers and Innovations 1(2), 2014): load balance, serialisation, transfer.
#pragma once

#include <vector>

#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::week25 {

// Part a: from ledgers to costs ---------------------------------------------------------------------------------------

/// One rank's step, in seconds.
struct RankStep {
  double arithmetic = 0;  ///< all its operations
  double launch = 0;      ///< of these: what the same number of empty operations would take
  double hidden = 0;      ///< seconds in which its messages moved while it computed
  double messages = 0;    ///< received
  double bytes = 0;       ///< received
};

struct StepLedgers {
  double seconds = 0;           ///< of the step: until the last rank has ended it
  double latency = 0;           ///< α of a message, seconds
  double seconds_per_byte = 0;  ///< β
  std::vector<RankStep> ranks;  ///< at least one
};

/// The five costs, in seconds; they add up to the step. The busy rank is the one with the most arithmetic (of several,
/// any of them): while it does not compute, it waits.
struct Decomposition {
  double compute = 0;    ///< arithmetic without launch, mean over the ranks: what a perfectly shared step would take
  double launch = 0;     ///< mean over the ranks
  double imbalance = 0;  ///< arithmetic of the busy rank beyond the mean
  double exposed = 0;    ///< of the busy rank's waiting: its messages' time on the wire that no arithmetic hid
  double bubble = 0;     ///< the rest of its waiting: for other ranks' work
  double wire = 0;       ///< not a sixth cost: time on the wire of the busy rank's messages, hidden or not

  double seconds() const { return compute + launch + imbalance + exposed + bubble; }
};
/// `exposed` is never more than the busy rank waits, and never negative.
Decomposition decompose(const StepLedgers& step);

// Part b: from costs to the limit -------------------------------------------------------------------------------------

enum class Scaling { strong, weak };

enum class Limit {
  none,            ///< less than kWorthNaming of the step is lost
  not_overlapped,  ///< exposed communication, though arithmetic (with launch) is longer than all of the wire
  communication,   ///< exposed communication, and more on the wire than arithmetic (just as much: either of the two)
  bubble,
  imbalance,
  launch,    ///< the model is too small: the same number of operations, with less to do in each
  repeated,  ///< arithmetic that the ranks do not share, or that takes longer in small pieces
};
inline constexpr double kWorthNaming = 0.05;

struct Diagnosis {
  Limit limit = Limit::none;
  double ideal = 0;  ///< seconds: T(1)/p for strong scaling, T(1) for weak
  double lost = 0;   ///< T(p) − ideal
  double most = 0;   ///< of it, what the limit costs; 0 without one
};

/// Compares what p ranks lose against their share of the serial step (all of it for weak scaling, 1/p for strong): each
/// cost of the parallel step minus the same share of the serial step's. The largest loss is the limit.
Diagnosis name_limit(const Decomposition& parallel, const Decomposition& serial, int ranks, Scaling scaling);

// Part c: from several numbers of ranks to a law ----------------------------------------------------------------------

struct Measured {
  int ranks = 1;
  double seconds = 0;
  bool has_cores = true;  ///< one core per rank: otherwise the time says nothing about scaling, and is left out
};

/// Given: Amdahl's serial fraction of the times with has_cores. Error(usage) as fit_amdahl where too few are left.
week21::SerialFraction fit_strong(const std::vector<Measured>& times);

/// Gustafson's: with the speedup S(p) = p·T(1)/T(p) of a problem that grows with p, p − S(p) = s·(p − 1). T(1) is the
/// mean of the times on one rank; the others are fitted by least squares, with a 95 % interval. Error(usage) without a
/// time on one rank, or with fewer than two on more.
week21::SerialFraction fit_weak(const std::vector<Measured>& times);

/// The most ranks on which Amdahl's efficiency is still at least `efficiency`, in (0, 1]; equality up to rounding
/// (1e-9) counts. INT_MAX where s ≤ 0, or where the number does not fit in an int.
int most_ranks(double serial_fraction, double efficiency);

}  // namespace lockstep::week25
