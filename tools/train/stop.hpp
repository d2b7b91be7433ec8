// SIGTERM and Ctrl-C ask a run to save and end; a second one ends it at once. All ranks must end after the same step,
// though each looks at another moment.
#pragma once

namespace lockstep::train {

/// While it lives: the first SIGTERM, SIGINT or SIGUSR1 is noted, and a second SIGTERM or SIGINT has its usual effect.
/// SIGUSR1 is what launch/mpirun.sh sends to the ranks, each second, and has them ignore before. One at a time in a
/// process.
class StopSignals {
 public:
  /// `listen`: false where there is nothing to save, and signals keep their usual effect.
  explicit StopSignals(bool listen);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  /// The signal that came; 0: none.
  int received() const;
  /// From now on signals have their usual effect, unless one has come.
  void leave();
  /// For ranks that share this object, each after each of its steps: whether to end after `done` steps. No rank
  /// continues where another ends.
  bool end_after(int done);

 private:
  bool listens_;
  int furthest_ = -1;  // after which a rank has gone on
  int last_ = -1;      // after which all end
};

}  // namespace lockstep::train
