// A GPT in stages: each rank has the tensors of its own layers and nothing else. N × C numbers cross a boundary:
// activations forward, and their gradient backward.
//
//   const auto first = partition(gpt_piece_costs(config, length), 2);
//   GptStage stage(me, {2, 4}, config, first, batches, 1.0f / tokens, seed);
//   run_schedule(pipeline, steps, stage);
//   stage.sum_tied(stage.parameters().gradient(0));
//
// Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al. (arXiv 2104.04473), section 2.2.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/pipeline/stage.hpp"

namespace lockstep {

/// Forward FLOP of each piece of gpt_usage_order(config), per token of a sequence of `length`: the embedding (which
/// only reads; 2 C, so that it is not free), each block, the head with the loss's logits. Blocks that are recomputed
/// cost 4/3: two forwards, and a backward of two.
std::vector<double> gpt_piece_costs(const GptConfig& config, std::size_t length, bool recomputed = false);

/// Returns the tensors of gpt_parameter_table(config) on stage `stage`, in order, but routers and then experts of
/// mixtures last. Part k of the model (placed by part_of) has the pieces [first[k], first[k + 1]) of gpt_usage_order.
std::vector<std::size_t> gpt_stage_tensors(const GptConfig& config, const PipelineShape& shape,
                                           const std::vector<std::size_t>& first, int stage);

class SplitLayers;

/// Hooks that a stage calls during its passes; any may be empty. Tensors are numbered in its own table, pieces as in
/// gpt_usage_order.
struct StageHooks {
  BeforePiece before_forward;
  std::function<void()> end_forward;
  BeforePiece before_backward;
  std::function<void()> end_backward;
  GradientReady ready;  ///< once per schedule and tensor, when no microbatch adds to its gradient any more
  std::function<void(const Step& step, bool begins)> step;  ///< at the beginning and end of each step of the schedule
};

/// Activations that a microbatch in flight keeps of its blocks. The others live in memory that all microbatches share,
/// and `restore` recomputes them before a block's backward: exercise 22.6.
struct StageMemory {
  enum class Keep : std::uint8_t { all, all_but_probabilities, inputs };
  Keep keep = Keep::all;
  void (*restore)(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) = nullptr;
};

class GptStage final : public StageModel {
 public:
  /// Collective over `group`, whose rank is the stage. Part k of the model (placed by part_of) has the pieces
  /// [first[k], first[k + 1]) of gpt_usage_order. `batches`: the microbatches of every step, on every stage (the first
  /// reads their tokens, the last their targets); none is larger than the first. The loss and gradients are Σ over all
  /// tokens times `factor`. Values are those of Gpt(…, seed). `owns` says whether the stage allocates gradients and
  /// values; the rest is bound.
  GptStage(Rank group, PipelineShape shape, const GptConfig& config, std::vector<std::size_t> first,
           std::vector<Batch> batches, float factor, std::uint64_t seed, Owns owns = Owns::values_and_gradients,
           StageMemory memory = {});

  /// Computes the layers with `layers`: tensor parallelism. Such layers do not split a backward: halves are a USAGE
  /// error.
  void use(std::shared_ptr<const Layers> layers);
  void use(StageHooks hooks) { hooks_ = std::move(hooks); }
  void use(Dropout dropout) { gpt_.use(std::move(dropout)); }  ///< as of Gpt
  const StageHooks& hooks() const { return hooks_; }
  /// Multiplies gradients, but not losses, by this scale: one f32.
  void scale_gradients(Slice scale) { gradient_scale_ = std::move(scale); }
  /// From now on forward steps keep nothing, and add factor · Σ over tokens to `loss`, one f32. An empty slice restores
  /// training.
  void only_evaluate(Slice loss, float factor);

  std::size_t boundary_elements(int microbatch) const override;
  DType boundary_dtype() const override { return gpt_.config().storage; }
  void forward(int microbatch, int chunk, Slice input, Slice output) override;
  /// In a split backward, the second half computes the linear layers' weight gradients. Each layer's input and the
  /// gradient of its output are kept until then. Norms, their biases and embeddings are in the first half.
  void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) override;

  /// True if the token embedding, tensor 0 of the table here, is also on another stage.
  bool shares_embedding() const { return tied_.size() == 2; }
  /// Adds the other stage's gradient to this one's, `mine`, so that both have the same bits: a tied embedding is on the
  /// first and on the last stage (unless in a V). Collective over these two; does nothing on others.
  void sum_tied(Slice mine);

  /// The tensors of this stage, with offsets in its own flat slices, and the index of each in the whole model's table.
  Parameters& parameters() { return parameters_; }
  const std::vector<std::size_t>& tensors() const { return tensors_; }
  /// The tensors of this table that each piece of gpt_usage_order uses; a piece of another stage has none.
  UsageOrder usage_order() const;
  /// Uses this value and gradient for tensor `index` of this table from now on.
  void bind(std::size_t index, Slice value, Slice gradient);
  /// Writes the initial values of elements first, … of tensor `index` of this table.
  void initialise(std::size_t index, std::size_t first, Slice part) const;
  const GptConfig& config() const { return gpt_.config(); }
  Slice loss() const { return loss_; }  ///< one f32; 0 except on the stage with the head

 private:
  struct Part {
    std::size_t begin = 0, end = 0;  // pieces
  };
  Part part_of(int chunk) const;
  bool embeds(const Part& part) const { return part.begin == 0; }
  bool has_head(const Part& part) const { return part.end == gpt_.config().layers + 2; }
  /// Blocks [first, last) of a part.
  std::size_t first_block(const Part& part) const { return part.begin == 0 ? 0 : part.begin - 1; }
  std::size_t last_block(const Part& part) const { return has_head(part) ? gpt_.config().layers : part.end - 1; }
  /// Slice with block `l`'s input; for l one past the last block of a part, its output.
  Slice& place(Activations& saved, std::size_t l) const {
    return l < gpt_.config().layers ? saved.blocks[l].input : saved.output;
  }
  void own_tensors(std::uint64_t seed, Owns owns);
  void allocate_scratch();
  Activations allocate(const Part& part);
  BlockActivations allocate_block(const BlockShape& shape);
  void pass_back(const Part& part, const Batch& batch, Activations& saved, const Slice& output_gradient,
                 const Slice& input_gradient, bool last);
  void all_ready(const Part& part);
  void ready(std::size_t index);
  /// True if this stage itself computes the chunk's input. gives_to_itself: likewise for its output.
  bool takes_from_itself(int chunk) const;
  bool gives_to_itself(int chunk) const { return chunk + 1 < shape_.chunks && takes_from_itself(chunk + 1); }
  Slice boundary(int microbatch) {
    return me_.allocate(boundary_elements(microbatch), boundary_dtype(), Category::activation);
  }
  /// Memory of a microbatch from its forward to the end of its backward; reused by later ones.
  struct InFlight {
    Activations saved;
    Activations whole;  // set if the microbatch is not the largest: the memory that `saved` is a part of
  };
  InFlight take(int chunk, const Batch& batch);
  void give_back(int microbatch, int chunk);

  Rank me_;
  Rank tied_;  // the first and last stage; size 0 elsewhere, or if the embedding is not shared
  PipelineShape shape_;
  std::vector<std::size_t> first_;
  std::vector<Batch> batches_;
  float factor_;
  std::uint64_t seed_;
  StageMemory memory_;
  Gpt gpt_;
  StageHooks hooks_;
  Slice gradient_scale_;
  Slice evaluation_;  // receives the losses; empty while training
  float evaluation_factor_ = 0;
  Parameters parameters_;
  std::vector<std::size_t> tensors_;
  std::vector<std::size_t> own_;  // by tensor of the whole table: its index in this one
  Slice loss_, residual_, spare_;
  BackwardScratch scratch_;
  BlockActivations shared_;  // the shared activations, if blocks do not keep all
  std::shared_ptr<SplitLayers> layers_;
  std::map<std::pair<int, int>, InFlight> in_flight_;  // by (microbatch, chunk)
  std::map<int, std::vector<Activations>> free_;       // by chunk: free memory for the largest microbatch
  std::vector<int> backwards_;                         // by chunk: microbatches completed in this schedule
  HandOver handed_;
  bool embeds_twice_ = false;    // both uses of a tied embedding are on this stage, in two parts
  bool embedding_half_ = false;  // one of these parts has completed its last backward
};

}  // namespace lockstep
