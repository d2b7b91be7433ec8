// A GPT in stages: each rank has the tensors of its own layers and nothing else. What crosses a boundary is N × C
// numbers, activations one way and their gradient the other.
//
//   GptStage stage(me, {2, 4}, config, first, batches, 1.0f / tokens, seed);  // first: partition(gpt_piece_costs(…),
//   2) run_schedule(pipeline, steps, stage); stage.sum_tied_gradients();
//
// Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al. (arXiv 2104.04473), section 2.2.
#pragma once

#include <map>
#include <vector>

#include "common/model/gpt.hpp"
#include "common/pipeline/stage.hpp"

namespace lockstep {

/// FLOP of each piece of gpt_visits(config), forward, a token of a sequence of `length`: the embedding (which only
/// reads: 2 C, so that it is not nothing), each block, the head with the loss's logits.
std::vector<double> gpt_piece_costs(const GptConfig& config, std::size_t length);

class SplitLayers;

class GptStage final : public StageModel {
 public:
  /// Collective over `group`, whose rank is the stage. Part k of the model (chunk c of stage s is part c·p + s) has the
  /// pieces [first[k], first[k + 1]) of gpt_visits. `batches`: this step's microbatches, on every stage (the first
  /// reads their tokens, the last their targets). The loss and gradients are Σ over all tokens times `factor`. Values
  /// are those of Gpt(…, seed).
  GptStage(Rank group, PipelineShape shape, const GptConfig& config, std::vector<std::size_t> first,
           std::vector<Batch> batches, float factor, std::uint64_t seed);

  std::size_t boundary_elements(int microbatch) const override;
  DType boundary_dtype() const override { return gpt_.config().storage; }
  void forward(int microbatch, int chunk, Slice input, Slice output) override;
  /// In halves, the products of the linear layers for their weights are the second half; what they need, each layer's
  /// input and the gradient of its output, is kept until then. Norms, biases of norms and embeddings are in the first.
  void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) override;

  /// After the last step of a schedule. A tied embedding is on the first and on the last stage: each adds the other's
  /// gradient to its own, so that both have the same bits. Collective over these two; others do nothing.
  void sum_tied_gradients();

  /// The tensors of this stage, with places in its own flat slices, and where each is in the whole model's table.
  Parameters& parameters() { return parameters_; }
  const std::vector<std::size_t>& tensors() const { return tensors_; }
  Slice loss() const { return loss_; }  ///< one f32; 0 but on the last stage

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
  void own_tensors(std::uint64_t seed);
  void allocate_scratch();
  Activations allocate(const Part& part, const Batch& batch, Slice input, Slice output) const;

  Rank me_;
  Rank tied_;  // first and last stage; size 0 elsewhere, and where nothing is shared
  PipelineShape shape_;
  std::vector<std::size_t> first_;
  std::vector<Batch> batches_;
  float factor_;
  Gpt gpt_;
  Parameters parameters_;
  std::vector<std::size_t> tensors_;
  Slice loss_, residual_;
  BackwardScratch scratch_;
  std::shared_ptr<SplitLayers> layers_;
  std::map<std::pair<int, int>, Activations> in_flight_;  // by (microbatch, chunk)
};

}  // namespace lockstep
