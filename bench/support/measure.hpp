// Timing of all measurements: verified first, then warmed up. Contenders take turns within one run, in a different
// order each turn, with an untimed act and a barrier before each sample. The slowest rank's time counts, and every rank
// takes the same number of samples.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/support/links.hpp"
#include "common/runtime/run.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {

/// Purpose of preparing a contender: to be checked once, or to be timed many times (values must not grow).
enum class Purpose { verify, time };

/// True in the simulator, where one act suffices.
bool time_is_virtual();

/// True on MPI, where ranks are processes.
bool on_mpi();

/// True on the backends that compute on GPUs.
bool on_gpu();

/// True if ranks are threads that share one GPU's memory, of which α and β predict nothing.
bool shares_memory();

/// True if times depend on the cores' caches and on other load; false if times are emulated by sleeping.
bool on_own_cores(const RunOptions& options);

/// No rank continues before all have arrived. Takes two slices to send and receive.
void barrier(Rank me, Slice token, Slice received);

/// The largest over all ranks of the value at `index`, such as the slowest rank's seconds.
double slowest(const Outcome& outcome, std::size_t index);

/// A contender on one rank, with its memory allocated. Both functions run on that rank; `act` may communicate, `right`
/// may not.
struct Prepared {
  std::function<void()> act;    // the timed operation
  std::function<bool()> right;  // called after one act: true if this rank's result is exact. Empty: nothing to compare
};

struct Plan {
  int samples = 31;                   // per contender; one if time is virtual
  int warm_up = 3;                    // acts before the samples
  double budget_seconds = 20;         // wall-clock time for all contenders; reduces the samples to as few as 5 if
                                      // necessary
  double exchange = 0, addition = 0;  // expected seconds of the probes; 0: not known
};

/// Results on one rank for a contender that ran in other processes.
struct Apart {
  std::vector<double> seconds;   // one per sample; the same number on every rank
  bool right = false;            // the result, checked once
  double waiting_cpu_share = 1;  // CPU time of this rank's process in the meantime / elapsed time
};

struct Contender {
  std::string name;
  std::function<Prepared(Rank, Purpose)> prepare;                       // empty if `apart` is not
  double predicted_seconds = std::numeric_limits<double>::quiet_NaN();  // by a formula, before any run
  /// The same with the links' prices at the time of measurement; takes precedence over the number. Not called where
  /// ranks share memory.
  std::function<double(const LinkPrices&)> predict = {};
  bool counted = true;  // by the ledgers; false for a library's own collective
  /// For contenders with their own threads and messages, which would disturb the others and be disturbed by them. All
  /// samples are taken in a separate run, after the others', by processes that this rank starts, waits for asleep, and
  /// has ended when it returns.
  std::function<Apart(Rank, const Plan&)> apart = {};
  bool drawn = true;       // has a timeline (timeline.hpp)
  std::string title = {};  // the timeline's; empty: the measurement and the contender's name
};

/// Times of the same small message and addition during a run, one of each before every turn. They change only if other
/// load takes the cores, their clock or their caches.
struct Probes {
  static constexpr double kBytes = 65536;
  static constexpr double kSame = 0.05;  // relative change on a quiet computer
  double exchange = 0, addition = 0;     // medians, seconds; 0: none (one rank, or virtual time)
  double drift = 0;                      // change from the first to the second half of the run, the larger of the two
                                         // probes'
  int turns_left_out = 0;                // turns in which the computer was in another state
};

/// Number of untimed acts of a contender before each of its samples, given the duration of one. Whatever ran before,
/// the caches should be as the contender leaves them. One act restores a core's own caches; arrays that just fit into
/// the last cache need several. A long act goes through its memory often enough itself.
int acts_before_sample(double seconds);

/// Returns the turns that count: those whose probes are within a twentieth of the expected times; all if fewer than
/// five are, or if there is no expectation.
std::vector<std::size_t> turns_that_count(const Plan& plan, const std::vector<double>& exchanges,
                                          const std::vector<double>& additions);

/// Returns the probes' medians, and the change between the halves. `exchanges` may be empty.
Probes probes_of(const std::vector<double>& exchanges, const std::vector<double>& additions);

struct Measurement {
  std::string contender;
  double predicted_seconds = 0;  // NaN: none
  Median seconds;
  std::vector<double> samples;   // samples of the median; the same index is the same turn for all contenders
  Probes probes;                 // the run's, the same for all contenders in it
  bool apart = false;            // measured in its own processes, without turns
  double waiting_cpu_share = 0;  // if so: the maximum over ranks (Apart)
  bool verified = false;         // false in a phantom run, which has no values, and if nothing can be compared
  bool counted = true;
  std::uint64_t messages = 0;    // in one act, all ranks
  std::uint64_t bytes_sent = 0;  // likewise
  std::uint64_t bytes_sent_per_rank_max = 0;
  double wall_seconds = 0;  // simulator: duration of the run with the one act
};

/// Measures contenders against each other. Throws the error of a failed run, and Error(fail) for a wrong result.
std::vector<Measurement> measure(const RunOptions& options, const std::vector<Contender>& contenders, const Plan& plan);

}  // namespace lockstep::bench
