// Given: the training state of one rank on the data-parallel axis, divided by a ZeRO stage: your 21.7, 22.2, 22.3 and
// 22.4 behind one interface. Stage 0 is plain data parallelism. For 25.2; labs/trainer/engine.hpp makes one.
#pragma once

#include <functional>
#include <vector>

#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/stage.hpp"
#include "common/gpt/model/units.hpp"

namespace lockstep::week25 {

/// Neighbouring elements of a rank's gradients, or values, that the other ranks hold in the same way.
struct Piece {
  Slice elements;
  bool cut = false;   ///< ranks of a tensor-parallel group hold different elements; else all hold these
  bool norm = false;  ///< of a norm
};

/// The same calls for every stage, made on the main queue by every rank of the data-parallel group.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Calls of a pass around the model's own work. In stages 0 and 1 `ready` is called once per window for each tensor,
  /// when its gradient is final.
  using Hooks = StageHooks;
  virtual Hooks hooks() = 0;
  /// For a forward pass alone.
  virtual Hooks forward_hooks() { return {}; }
  /// Ends a window; afterwards gradient_shares() are the sums over its passes of the averages over the ranks.
  virtual void finish() {}
  /// The same for passes one after the other: pass(i, hooks) for each microbatch i, and the end.
  virtual void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) {
    const Hooks own = hooks();
    for (int i = 0; i < microbatches; ++i) pass(i, own);
  }

  /// This rank's part of the gradients; whole in stage 0.
  virtual std::vector<Slice> gradient_shares() const = 0;
  /// The same, split where tensors differ in kind.
  virtual std::vector<Piece> gradient_pieces() const = 0;
  /// One AdamW step; then the gradients are zero.
  virtual void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) = 0;

  /// Units that are reduced or gathered at once; with state sharded, rank r keeps chunk r of each. None on one rank in
  /// stage 0.
  virtual std::vector<Unit> units() const = 0;
  /// One for all parameters in stage 0, else one for this rank's chunk of each unit, in order.
  virtual std::vector<Optimizer*> optimizers() = 0;

  /// Its tensors, with places in the flat values.
  virtual const std::vector<Parameter>& table() const = 0;
  /// From now on every rank has all values, and no more steps are made: to sample, or to compare. Collective.
  virtual void hold_whole_values() {}
  /// This rank's chunk of each unit's values in stage 3; else all values, whole.
  virtual std::vector<Slice> value_shares() = 0;
  /// The same, split where tensors differ in kind.
  virtual std::vector<Piece> value_pieces() = 0;
  /// All of them, by tensor; valid in stages 0 to 2, and after hold_whole_values().
  virtual Slice whole_values() = 0;
};

}  // namespace lockstep::week25
