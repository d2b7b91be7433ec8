// A GPT with hand-written forward and backward. It uses only the arithmetic contract, so it runs on every backend, and
// phantom.
//
//   Gpt gpt(me, gpt_preset("tiny"), seed);
//   Activations saved = gpt.allocate_activations(me, sequences, length);
//   gpt.forward(me, batch, saved);
//   cross_entropy(me, loss, saved.logits, batch.targets, 1.0f / batch.targets.size());  // logits become their gradient
//   gpt.backward(me, batch, saved, [](std::size_t parameter) { /* its gradient is final */ });
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/gpt/model/block.hpp"
#include "common/gpt/model/config.hpp"
#include "common/gpt/model/layers.hpp"
#include "common/gpt/model/parameters.hpp"

namespace lockstep {

/// A microbatch on the device: `sequences` rows of `length` tokens (i32, below the vocabulary), and the token after
/// each (or −1: none).
struct Batch {
  Slice tokens;   // sequences × length
  Slice targets;  // sequences × length
  std::size_t sequences = 0;
  std::size_t length = 0;

  std::size_t rows() const { return sequences * length; }
};

class Gpt;

/// BlockDropout for a microbatch of a training step; the embedding's layer is 0.
using Dropout = std::function<void(Rank me, int microbatch, std::size_t layer, Dropped output, Slice y, Slice x)>;

/// Memory that one microbatch needs between forward and backward, and the scratch of the backward: activation_bytes(…)
/// in all. Allocated once and used for every step.
struct Activations {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<BlockActivations> blocks;
  Slice output;             // N × C, the last block's output
  Slice norm;               // N × C
  Slice norm_statistics;    // 2N f32
  Slice logits;             // N × V; their gradient after cross_entropy
  Slice residual_gradient;  // N × C, which the backward passes from block to block
  BackwardScratch scratch;
  int microbatch = -1;  // of a training step, for dropout; −1: nothing is dropped

  /// Called before a block's backward if blocks share memory: recomputes this block's activations in
  /// saved.blocks[layer] that other blocks have overwritten. Null: nothing is shared. Recomputation hooks in here.
  void (*restore)(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) = nullptr;
};

/// Flat slices that a model allocates. Sharded data parallelism supplies the others with `bind`, one unit at a time.
enum class Owns : std::uint8_t { values_and_gradients, values, nothing };

class Gpt {
 public:
  /// Draws initial values like GPT-2: matrices and embeddings N(0, 1/√(3C)), which for its 768 channels is its 0.02;
  /// those that write to the residual stream 1/√(2L) of that; norms 1 and 0, biases 0. Element i of tensor t depends on
  /// (seed, t, i) alone, so every sharding draws the same values.
  Gpt(Rank me, const GptConfig& config, std::uint64_t seed, Owns owns = Owns::values_and_gradients);

  /// Computes the layers with `layers` from now on: tensor parallelism, for a config with a shard. The default is
  /// Layers.
  void use(std::shared_ptr<const Layers> layers) { layers_ = std::move(layers); }
  const Layers& layers() const { return *layers_; }
  /// Drops outputs with `dropout` from now on, where saved.microbatch says that the model is training.
  void use(Dropout dropout) { dropout_ = std::move(dropout); }

  /// Uses this value and this gradient for tensor `index` of the table from now on. An empty slice means absent, and
  /// the model keeps no reference. parameters() does not change.
  void bind(std::size_t index, Slice value, Slice gradient);

  const GptConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }

  Activations allocate_activations(Rank me, std::size_t sequences, std::size_t length) const;

  /// Returns the part of `saved` that a smaller microbatch of the same length uses.
  Activations first_sequences(const Activations& saved, std::size_t sequences) const;

  /// saved.logits = model(batch.tokens); batch and `saved` have the same shape. Calls `before` with the number of each
  /// piece of gpt_usage_order before that piece runs.
  void forward(Rank me, const Batch& batch, Activations& saved, const BeforePiece& before = {}) const;

  /// Computes the gradients of all parameters, which accumulate, from the gradient of the logits in saved.logits. Calls
  /// `ready` for each parameter once its gradient is final; a tied embedding is the last.
  void backward(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready = {},
                const BeforePiece& before = {}) const;

  // The pieces, for pipelines and recomputation. Block l's input is saved.blocks[l].input; its output is the next
  // block's input, or saved.output. All backward pieces update saved.residual_gradient in place.
  void embed(Rank me, const Batch& batch, Activations& saved) const;
  void forward_block(Rank me, std::size_t layer, Activations& saved) const;
  /// Does forward_block's work until saved.blocks[layer] is filled: without the last product, whose result no backward
  /// reads. This is where PyTorch's torch.utils.checkpoint stops (use_reentrant=False, from 2.1 on).
  void rebuild_block(Rank me, std::size_t layer, Activations& saved) const;
  void forward_head(Rank me, Activations& saved) const;
  void backward_head(Rank me, Activations& saved, const GradientReady& ready) const;
  void backward_block(Rank me, std::size_t layer, Activations& saved, const GradientReady& ready) const;
  void backward_embed(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready) const;

  BlockShape block_shape(std::size_t sequences, std::size_t length) const {
    return {sequences, length, config_.heads, config_.d_model, config_.attention, config_.tensor, config_.architecture};
  }
  /// Uses the given memory for the blocks, one element per block.
  Activations allocate_activations(Rank me, std::size_t sequences, std::size_t length,
                                   std::vector<BlockActivations> blocks) const;

 private:
  // Indices in the table: token embedding, learned positions, the blocks' parts, norm weight and bias, head unless
  // tied.
  bool learned_positions() const { return config_.architecture.positions == PositionKind::learned; }
  bool norm_bias() const { return config_.architecture.norm == NormKind::layer_norm; }
  std::size_t block_index(std::size_t layer) const { return (learned_positions() ? 2 : 1) + layer * parts_.size(); }
  std::size_t norm_index() const { return block_index(config_.layers); }
  std::size_t head_index() const { return config_.tied_head ? 0 : norm_index() + (norm_bias() ? 2 : 1); }
  static Slice at(const std::vector<Slice>& tensors, std::size_t index, bool there) {
    return there ? tensors[index] : Slice();
  }
  BlockShape block_shape(const Activations& saved) const { return block_shape(saved.sequences, saved.length); }
  BlockDropout dropout_of(Rank me, std::size_t layer, const Activations& saved) const;

  GptConfig config_;
  std::shared_ptr<const Layers> layers_ = std::make_shared<Layers>();
  Dropout dropout_;
  Parameters parameters_;
  std::vector<BlockPart::Index> parts_;                        // parts of each block
  std::array<std::size_t, BlockPart::count> place_of_part_{};  // index of each part in parts_; BlockPart::count if the
                                                               // block lacks it
  std::vector<Slice> values_;                                  // by parameter, sliced once
  std::vector<Slice> gradients_;                               // by parameter
  std::vector<BlockTensors> block_values_;
  std::vector<BlockTensors> block_gradients_;
};

/// Returns the table of a GPT's parameters on this rank without allocating memory: for calculators and other layouts.
std::vector<Parameter> gpt_parameter_table(const GptConfig& config);

/// The part of a tensor in a mixture of experts: none, a router, which every rank has, or experts.
enum class MixturePart : std::uint8_t { none, router, expert };
MixturePart mixture_part(const Parameter& tensor);

/// Initialises elements first, first + 1, … of tensor `index`, as many as `part` has, like a Gpt with this seed. A
/// sharded tensor begins with the values that the serial model has there, and its padding with zeros.
void initialise_part(Rank me, const GptConfig& config, const Parameter& tensor, std::size_t index, std::size_t first,
                     Slice part, std::uint64_t seed);

/// Neighbouring elements of a rank's tensor that are also neighbours in the serial model's tensor.
struct TensorRun {
  static constexpr std::size_t kPadding = static_cast<std::size_t>(-1);
  std::size_t own = 0;     // first element in the rank's tensor
  std::size_t serial = 0;  // first element in the serial one; or kPadding for tokens beyond the vocabulary
  std::size_t size = 0;
};
/// Returns all runs of one tensor of gpt_parameter_table(config), in order: how a serial model is sharded and joined
/// again. Uses config.tensor.cut for sharded tensors, if set.
std::vector<TensorRun> tensor_runs(const GptConfig& config, const Parameter& tensor);

/// Returns the tensors that each piece of the forward pass uses, by their indices in the table: the embedding, each
/// block, the head. The backward pass runs the pieces in reverse. A tied embedding is in the first and in the last.
UsageOrder gpt_usage_order(const GptConfig& config);

}  // namespace lockstep
