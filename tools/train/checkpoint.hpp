// A training run's checkpoints: AdamW's state as parts of the serial model, so that any other layout of ranks can
// resume from it; and when ranks agree that all is written, or that a checkpoint is no good. The files are
// common/gpt/checkpoint's; docs/use/checkpoints.md says what they hold and what is promised.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/files.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "tools/train/held.hpp"
#include "tools/train/log.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

/// "4 layers, 6 heads, …": two models are exchangeable where this is equal.
std::string describe_model(const GptConfig& config);

/// The other state that a run must know to resume; each may be null.
struct OtherState {
  week22::LossScaler* scaler = nullptr;
  week21::LocalSgd* outer = nullptr;
};

/// All calls are made by all ranks together, on the main queue.
class Checkpoints {
 public:
  /// Everything is kept by reference. Rank 0 locks the directory that is saved to: throws
  /// Error(usage) where another run saves there.
  Checkpoints(Rank me, const TrainPlan& plan, std::vector<Held> held, const OtherState& other, TrainLog& log,
              checkpoint::Files& files);
  ~Checkpoints();

  /// Puts back the last checkpoint of plan.request.resume that is whole, in whichever layout it was written. One that
  /// is not is refused in a line that names the file. Throws Error(usage) where none is left, or it is of another
  /// model, optimizer, or number of replicas that step on their own. 16-bit values that other ranks' optimizers update
  /// are not put back. False where the run saves to the same directory, and nothing was saved yet.
  bool resume();
  /// Before the first step: the serial model's values, of which each rank takes its part.
  void begin_with(const std::vector<float>& values);
  /// Takes the state as it is, and returns; it is written while training continues. Waits for the save before.
  void save();
  /// True if `mine` is true on any rank.
  bool anybody(bool mine);
  /// Rank 0's number.
  int from_judge(int number);
  /// After each step, without messages: with --on-save-error stop, and of a run that has diverged, throws Error(fail)
  /// as soon as this rank's file could not be written.
  void check() const;
  /// Waits for the last save.
  void finish();
  /// Rank 0: the last checkpoint that is there, or "none".
  std::string last() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
