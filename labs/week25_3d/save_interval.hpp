// Exercise 25.5: how often to save. Saving too rarely loses work to failures; saving too often spends time on saves.
// Find the interval between two saves from what saving and failing cost, by formula and by simulation, and turn it into
// the trainer's --checkpoint-every.
//
// J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974. J. T. Daly, A higher
// order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.
#pragma once

namespace lockstep::week25 {

/// Costs of saving and failing, in seconds. Failures come at random: the time to the next one is exponential, whatever
/// the run does meanwhile. They may come during a save, and during a restart, which then begins again.
struct SavingCosts {
  double save = 0;     ///< δ > 0: training stops for a save
  double restart = 0;  ///< R ≥ 0: from a failure until training resumes from the last complete checkpoint
  double mtbf = 0;     ///< M > 0: mean time between failures of the whole job
};

// Part a: by formula --------------------------------------------------------------------------------------------------

/// The share of a long run's time that is not lasting work, where it saves after every `interval` > 0 seconds of work.
/// `interval` seconds of lasting work take M·e^(R/M)·(e^((interval + δ)/M) − 1) seconds on average (Daly, section 3).
/// To within 1e-12, however small (interval + δ)/M is; 1 where that time is too large for a double.
double expected_waste(const SavingCosts& costs, double interval);

/// Seconds of work between two saves that waste close to the least.
struct Intervals {
  double young = 0;  ///< √(2δM): nearly optimal where δ ≪ M
  double daly = 0;   ///< √(2δM)·(1 + x/3 + x²/9) − δ with x = √(δ/(2M)), where δ < 2M; else M
};
Intervals best_intervals(const SavingCosts& costs);

// Part b: by simulation -----------------------------------------------------------------------------------------------

/// A run's time by use, in seconds: these add up to it.
struct TimeSpent {
  double work = 0;      ///< lasting: contained in a complete checkpoint
  double saves = 0;     ///< also those that a failure interrupted
  double lost = 0;      ///< work that a failure destroyed
  double restarts = 0;  ///< also those that a failure interrupted
  int failures = 0;

  double seconds() const { return work + saves + lost + restarts; }
};

enum class Doing { work, save, restart };

struct RunState {
  Doing doing = Doing::work;
  double left = 0;     ///< seconds until the current activity is done: `interval`, δ or R at its beginning
  double unsaved = 0;  ///< seconds of work that is in no complete checkpoint: not in `spent` yet
  TimeSpent spent;
};

/// Continues the run's current activity until it is done or `available` > 0 seconds have passed; returns the seconds
/// that have passed. An activity that is done, even at the very end of `available`, is followed by the next: work by a
/// save; a save, which makes all unsaved work lasting, by work; a restart by work.
double advance(RunState& run, const SavingCosts& costs, double interval, double available);

/// A failure, now: unsaved work is lost, and a restart begins.
void fail(RunState& run, const SavingCosts& costs);

// Part c: the trainer's option ----------------------------------------------------------------------------------------

/// Figures that `./lab train --checkpoint` prints for its saves and its steps, in seconds, each above 0.
struct MeasuredSaves {
  double step = 0;      ///< a training step
  double stopped = 0;   ///< training stopped for a save: δ
  double complete = 0;  ///< from the beginning of a save until its checkpoint is complete, while training continues
};

/// --checkpoint-every: the number of steps k ≥ 1 between two saves for which expected_waste is least (of several that
/// are equal to within 1e-9, any), among those for which a save is complete when the next one begins: stopped + k·step
/// ≥ complete. (Otherwise the trainer's next save would have to wait for it.) k fits in an int.
int steps_between_saves(const MeasuredSaves& saves, double restart, double mtbf);

}  // namespace lockstep::week25
