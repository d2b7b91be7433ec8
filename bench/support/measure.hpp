// How everything is timed: verified first, warmed up, contenders in turn within one run and in another order each turn,
// a barrier before each sample, and of each sample the slowest rank counts. Every rank takes the same number of
// samples.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {

/// What a contender is prepared for: to be checked once, or to be timed many times (values must not grow).
enum class Purpose { verify, time };

/// Nobody goes on before all have arrived; two elements to send and receive.
void barrier(Rank me, Slice token, Slice received);

/// A contender on one rank, its memory allocated. Both run on that rank; `act` may communicate, `right` may not.
struct Prepared {
  std::function<void()> act;    // what is timed
  std::function<bool()> right;  // after one act: is this rank's result exact? Empty: nothing to compare
};

struct Contender {
  std::string name;
  std::function<Prepared(Rank, Purpose)> prepare;
  double predicted_seconds = std::numeric_limits<double>::quiet_NaN();  // by a formula, before anything ran
  bool counted = true;  // by the ledgers; false for a library's own collective
};

struct Plan {
  int samples = 31;            // of each contender; one where time is virtual
  int warm_up = 3;             // acts before them
  double budget_seconds = 20;  // of wall-clock time for all contenders: fewer samples, at least 5, where needed
};

struct Measurement {
  std::string contender;
  double predicted_seconds = 0;  // NaN: none
  Median seconds;
  std::vector<double> samples;  // that it is the median of; the same turn of two contenders has the same index
  bool verified = false;        // false in a phantom run, which has no values, and where nothing can be compared
  bool counted = true;
  std::uint64_t messages = 0;    // of one act, all ranks
  std::uint64_t bytes_sent = 0;  // likewise
  std::uint64_t bytes_sent_per_rank_max = 0;
  double wall_seconds = 0;  // simulator: of the run that held the one act
};

/// Measures contenders against each other. Throws what a run failed with, and Error(fail) where a result is wrong.
std::vector<Measurement> measure(const RunOptions& options, const std::vector<Contender>& contenders, const Plan& plan);

}  // namespace lockstep::bench
