// How everything is timed: verified first, warmed up, contenders in turn within one run and in another order each turn,
// an act of its own and a barrier before each sample, and of each sample the slowest rank counts. Every rank takes the
// same number of samples.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/support/links.hpp"
#include "common/runtime/run.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {

/// What a contender is prepared for: to be checked once, or to be timed many times (values must not grow).
enum class Purpose { verify, time };

/// Of a run in the simulator: one act says all.
bool time_is_virtual();

/// Nobody goes on before all have arrived; two elements to send and receive.
void barrier(Rank me, Slice token, Slice received);

/// A contender on one rank, its memory allocated. Both run on that rank; `act` may communicate, `right` may not.
struct Prepared {
  std::function<void()> act;    // what is timed
  std::function<bool()> right;  // after one act: is this rank's result exact? Empty: nothing to compare
};

struct Plan {
  int samples = 31;                   // of each contender; one where time is virtual
  int warm_up = 3;                    // acts before them
  double budget_seconds = 20;         // of wall-clock time for all contenders: fewer samples, at least 5, where needed
  double exchange = 0, addition = 0;  // seconds that the probes are known to take; 0: not known
};

/// What one rank knows of a contender that other processes ran.
struct Apart {
  std::vector<double> seconds;   // of each sample; as many on every rank
  bool right = false;            // the result, checked once
  double waiting_cpu_share = 1;  // CPU time of this rank's process meanwhile, over the time that passed
};

struct Contender {
  std::string name;
  std::function<Prepared(Rank, Purpose)> prepare;                       // empty where `apart` is not
  double predicted_seconds = std::numeric_limits<double>::quiet_NaN();  // by a formula, before anything ran
  /// The same from the prices that links have by then; goes before the number.
  std::function<double(const LinkPrices&)> predict = {};
  bool counted = true;  // by the ledgers; false for a library's own collective
  /// Of what has threads and messages of its own, which would disturb the others and they it: all samples in a run of
  /// their own, after the others', by processes that this rank starts, waits for asleep, and has ended when it returns.
  std::function<Apart(Rank, const Plan&)> apart = {};
  bool drawn = true;       // has a timeline (timeline.hpp)
  std::string title = {};  // of it; empty: what is measured, and the contender's name
};

/// What the same small message and addition took all through a run, one of each before every turn: they change only
/// where something else has the cores, their clock or their caches.
struct Probes {
  static constexpr double kBytes = 65536;
  static constexpr double kSame = 0.05;  // what they may change by on a quiet computer
  double exchange = 0, addition = 0;     // medians, seconds; 0: none (one rank, or virtual time)
  double drift = 0;                      // of the second half of the run against the first, the larger of the two
  int turns_left_out = 0;                // in which the computer was another one
};

/// Acts of a contender before each of its samples, where one takes so long: whoever was before it, it shall find the
/// caches as it leaves them itself. One brings back what a core's own caches hold, but of arrays that a last cache just
/// holds each finds more there; a long act goes through its memory often enough by itself.
int acts_before_sample(double seconds);

/// The turns that count: those whose probes are within a twentieth of what is known; all where fewer than five are, or
/// nothing is known.
std::vector<std::size_t> turns_that_count(const Plan& plan, const std::vector<double>& exchanges,
                                          const std::vector<double>& additions);

/// The probes' medians, and how far their halves are apart. `exchanges` may be empty.
Probes probes_of(const std::vector<double>& exchanges, const std::vector<double>& additions);

struct Measurement {
  std::string contender;
  double predicted_seconds = 0;  // NaN: none
  Median seconds;
  std::vector<double> samples;   // that it is the median of; the same turn of two contenders has the same index
  Probes probes;                 // of the run, the same for all in it
  bool apart = false;            // by processes of its own: no turns
  double waiting_cpu_share = 0;  // then, of the rank that had most (Apart)
  bool verified = false;         // false in a phantom run, which has no values, and where nothing can be compared
  bool counted = true;
  std::uint64_t messages = 0;    // of one act, all ranks
  std::uint64_t bytes_sent = 0;  // likewise
  std::uint64_t bytes_sent_per_rank_max = 0;
  double wall_seconds = 0;  // simulator: of the run that held the one act
};

/// Measures contenders against each other. Throws what a run failed with, and Error(fail) where a result is wrong.
std::vector<Measurement> measure(const RunOptions& options, const std::vector<Contender>& contenders, const Plan& plan);

}  // namespace lockstep::bench
