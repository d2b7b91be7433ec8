// One rank's model and training state, divided by a ZeRO stage: weeks 21 and 22 behind one interface, for ./lab train
// and ./lab bench zero. Stage 0 is plain data parallelism.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/model/gpt.hpp"
#include "common/model/optimizer.hpp"
#include "common/model/units.hpp"
#include "labs/week22_zero/fsdp.hpp"

namespace lockstep::train {

struct EngineOptions {
  GptConfig model;
  int stage = 0;
  std::uint64_t seed = 1;
  AdamW adamw;
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients, stages 0 and 1
  week22::Wrapping wrapping;                         ///< stages 2 and 3: what is reduced, or gathered, at once
  bool overlap = true;                               ///< communicate on a second queue
  int prefetch = 1;                                  ///< stage 3, with overlap: units gathered ahead
  DType reduce = DType::f32;                         ///< in which gradients are summed; stages 0 to 2: the model's type
};

/// The same calls for every stage, made on the main queue by every rank.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Gpt& gpt() = 0;

  /// What a pass does around the model's own work.
  struct Hooks {
    BeforeVisit before_forward;
    std::function<void()> end_forward;
    BeforeVisit before_backward;
    GradientReady ready;
    std::function<void()> end_backward;
  };
  /// Runs pass(i, hooks) for each microbatch i of a window; afterwards gradient_shares() are the sums over the passes
  /// of the averages over the ranks.
  virtual void window(int microbatches, const std::function<void(int, const Hooks&)>& pass) = 0;
  /// For a forward pass alone.
  virtual Hooks forward_hooks() { return {}; }

  /// This rank's part of the gradients; whole in stage 0.
  virtual std::vector<Slice> gradient_shares() const = 0;
  /// sum[0] = the squared norm of the whole gradient, factor[0] = what clips it to max_norm.
  virtual void clip(Slice factor, Slice sum, float max_norm) = 0;
  /// One AdamW step; then the gradients are zero.
  virtual void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) = 0;

  /// What is reduced or gathered at once; with state sharded, rank r keeps chunk r of each. None on one rank in stage
  /// 0.
  virtual std::vector<Unit> units() const = 0;
  /// One for all parameters in stage 0, else one for this rank's chunk of each unit, in order.
  virtual std::vector<Optimizer*> optimizers() = 0;

  /// From now on every rank has all values, and no more steps are made: to sample, or to compare. Collective.
  virtual void hold_whole_values() {}
  /// This rank's chunk of each unit's values in stage 3; else all values, whole.
  virtual std::vector<Slice> value_shares() { return {gpt().parameters().values}; }
  /// All of them, by tensor; valid in stages 0 to 2, and after hold_whole_values().
  virtual Slice whole_values() = 0;
};

/// "model", "block", "layer", or a least number of elements. Throws Error(usage) for anything else.
week22::Wrapping wrapping_named(const std::string& name);

/// Collective over `dp`, at set-up. Throws Error(usage) for an unknown stage.
std::unique_ptr<Engine> make_engine(Rank dp, const EngineOptions& options);

/// Forward and backward of one microbatch under the engine's hooks: gradients (+=), and loss[0] += factor · Σ over
/// tokens; the gradients alone are multiplied by `gradient_scale`. `saved` fits the largest microbatch.
void run_pass(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor,
              const Engine::Hooks& hooks, Slice gradient_scale = {});

}  // namespace lockstep::train
