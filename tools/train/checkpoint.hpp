// A training run's checkpoints: what of AdamW's state this rank has, told as parts of the serial model, so that any
// other layout of ranks can resume from it; and when ranks agree that all is written, or that a checkpoint is no good.
// The files are common/gpt/checkpoint's; docs/use/checkpoints.md says what they hold and what is promised.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/files.hpp"
#include "common/gpt/checkpoint/pieces.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "tools/train/log.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

/// "4 layers, 6 heads, …": two models are exchangeable where this is equal.
std::string describe_model(const GptConfig& config);

/// One of a rank's optimizers: an inner one, or the outer one (21.12).
struct Held {
  Optimizer* optimizer = nullptr;
  week21::LocalSgd* outer = nullptr;
  std::vector<checkpoint::Run> runs;     // which elements of the serial model its arrays are; padding is none
  std::vector<checkpoint::Run> written;  // those that no other rank writes
};

/// Some tensors of a rank, as its optimizers have them.
struct HeldTensors {
  GptConfig part;                     // this rank's part of every layer
  std::vector<Parameter> table;       // of these tensors, offsets in the optimizers' flat values
  std::vector<std::size_t> in_model;  // the place of each in the whole model's table
  std::vector<Unit> units;            // with ZeRO: an optimizer has this rank's chunk of each; else empty
  bool writes = true;                 // false where another stage has the same and writes it
  bool alone = false;                 // no other rank of dp has what is cut of them: experts
};
/// One Held for each optimizer. What ranks of `dp` hold alike, each writes a share of; what tensor-parallel ranks hold
/// alike, the first writes.
std::vector<Held> held_by(const std::vector<Optimizer*>& optimizers, const HeldTensors& tensors, Rank dp);
/// For replicas that step on their own. A checkpoint then holds p + 1 models one after the other. The first is that of
/// the last outer step, with the velocity in place of m, of which each rank writes a share. Then comes each replica's
/// own.
std::vector<Held> held_by(Optimizer& optimizer, week21::LocalSgd& outer, const HeldTensors& tensors, Rank dp);

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
