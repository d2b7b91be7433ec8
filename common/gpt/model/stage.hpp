// A GPT in stages: each rank has the tensors of its own layers and nothing else. What crosses a boundary is N × C
// numbers, activations one way and their gradient the other.
//
//   GptStage stage(me, {2, 4}, config, first, batches, 1.0f / tokens, seed);  // first: partition(gpt_piece_costs(…),
//   2) run_schedule(pipeline, steps, stage); stage.sum_tied_gradients();
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

/// FLOP of each piece of gpt_usage_order(config), forward, a token of a sequence of `length`: the embedding (which only
/// reads: 2 C, so that it is not nothing), each block, the head with the loss's logits.
std::vector<double> gpt_piece_costs(const GptConfig& config, std::size_t length);

/// Tensors of gpt_parameter_table(config) that stage `stage` has, in their order. Part k of the model (part_of says
/// whose) has the pieces [first[k], first[k + 1]) of gpt_usage_order.
std::vector<std::size_t> gpt_stage_tensors(const GptConfig& config, const PipelineShape& shape,
                                           const std::vector<std::size_t>& first, int stage);

class SplitLayers;

/// What a stage calls around its passes; any may be empty. Tensors count in its own table, pieces as in
/// gpt_usage_order.
struct StageHooks {
  BeforePiece before_forward;
  std::function<void()> end_forward;
  BeforePiece before_backward;
  std::function<void()> end_backward;
  GradientReady ready;  ///< once a schedule for each tensor: no microbatch adds to its gradient any more
  std::function<void(const Step& step, bool begins)> step;  ///< around each step of the schedule
};

/// What a microbatch in flight keeps of its blocks. What it does not keep is memory that all share, and is computed
/// again by `restore` before a block's backward: exercise 22.6.
struct StageMemory {
  enum class Keep : std::uint8_t { all, all_but_probabilities, inputs };
  Keep keep = Keep::all;
  void (*restore)(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) = nullptr;
};

class GptStage final : public StageModel {
 public:
  /// Collective over `group`, whose rank is the stage. Part k of the model (part_of says whose) has the pieces
  /// [first[k], first[k + 1]) of gpt_usage_order. `batches`: the microbatches of every step, on every stage (the
  /// first reads their tokens, the last their targets); none is larger than the first. The loss and gradients are Σ
  /// over all tokens times `factor`. Values are those of Gpt(…, seed); of gradients and values it has what `owns` says,
  /// and the rest is bound.
  GptStage(Rank group, PipelineShape shape, const GptConfig& config, std::vector<std::size_t> first,
           std::vector<Batch> batches, float factor, std::uint64_t seed, Owns owns = Owns::values_and_gradients,
           StageMemory memory = {});

  /// Who does the layers: tensor parallelism. Such layers do a backward whole: halves are a USAGE error.
  void use(std::shared_ptr<const Layers> layers);
  void use(StageHooks hooks) { hooks_ = std::move(hooks); }
  const StageHooks& hooks() const { return hooks_; }
  /// Gradients, not losses, are multiplied by it: one f32.
  void scale_gradients(Slice scale) { gradient_scale_ = std::move(scale); }
  /// Forward steps from now on keep nothing, and add factor · Σ over tokens to `loss`, one f32; an empty one: as
  /// before.
  void only_evaluate(Slice loss, float factor);

  std::size_t boundary_elements(int microbatch) const override;
  DType boundary_dtype() const override { return gpt_.config().storage; }
  void forward(int microbatch, int chunk, Slice input, Slice output) override;
  /// In halves, the products of the linear layers for their weights are the second half; what they need, each layer's
  /// input and the gradient of its output, is kept until then. Norms, biases of norms and embeddings are in the first.
  void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) override;

  /// Whether the token embedding, tensor 0 of the table here, is on another stage too.
  bool shares_embedding() const { return tied_.size() == 2; }
  /// A tied embedding is on the first and on the last stage, but in a V: each adds the other's gradient to its own,
  /// `mine`, so that both have the same bits. Collective over these two; others do nothing.
  void sum_tied(Slice mine);
  /// After the last step of a schedule: of the whole gradient.
  void sum_tied_gradients();

  /// The tensors of this stage, with places in its own flat slices, and where each is in the whole model's table.
  Parameters& parameters() { return parameters_; }
  const std::vector<std::size_t>& tensors() const { return tensors_; }
  /// The same for tensors of this table that the pieces of gpt_usage_order use; a piece of another stage has none.
  UsageOrder usage_order() const;
  /// From now on tensor `index` of this table has this value and gradient.
  void bind(std::size_t index, Slice value, Slice gradient);
  /// Elements first, … of tensor `index` of this table as they begin.
  void initialise(std::size_t index, std::size_t first, Slice part) const;
  const GptConfig& config() const { return gpt_.config(); }
  Slice loss() const { return loss_; }  ///< one f32; 0 but on the stage with the head

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
  /// Where block `l`'s input is; for l one after the last block of a part its output.
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
  /// Whether this stage gives the chunk what it takes, and the one after.
  bool takes_from_itself(int chunk) const;
  bool gives_to_itself(int chunk) const { return chunk + 1 < shape_.chunks && takes_from_itself(chunk + 1); }
  Slice boundary(int microbatch) {
    return me_.allocate(boundary_elements(microbatch), boundary_dtype(), Category::activation);
  }
  /// Memory of a microbatch, from its forward to the end of its backward: used again by later ones.
  struct InFlight {
    Activations saved;
    Activations whole;  // where the microbatch is not the largest: what `saved` is cut from
  };
  InFlight take(int chunk, const Batch& batch);
  void give_back(int microbatch, int chunk);

  Rank me_;
  Rank tied_;  // first and last stage; size 0 elsewhere, and where nothing is shared
  PipelineShape shape_;
  std::vector<std::size_t> first_;
  std::vector<Batch> batches_;
  float factor_;
  std::uint64_t seed_;
  StageMemory memory_;
  Gpt gpt_;
  StageHooks hooks_;
  Slice gradient_scale_;
  Slice evaluation_;  // where losses go; empty: training
  float evaluation_factor_ = 0;
  Parameters parameters_;
  std::vector<std::size_t> tensors_;
  std::vector<std::size_t> own_;  // by tensor of the whole table: its place in this one
  Slice loss_, residual_, spare_;
  BackwardScratch scratch_;
  BlockActivations shared_;  // of blocks that keep less than all
  std::shared_ptr<SplitLayers> layers_;
  std::map<std::pair<int, int>, InFlight> in_flight_;  // by (microbatch, chunk)
  std::map<int, std::vector<Activations>> free_;       // by chunk: memory for the largest microbatch
  std::vector<int> backwards_;                         // by chunk: microbatches that are done, of this schedule
  HandOver handed_;
  bool embeds_twice_ = false;    // a tied embedding's two uses are in two parts of this stage
  bool embedding_half_ = false;  // one of these parts has done its last backward
};

}  // namespace lockstep
