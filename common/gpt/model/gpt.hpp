// A GPT with hand-written forward and backward, on the arithmetic contract alone: it runs on every backend, and
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

/// What one microbatch leaves between forward and backward, and the scratch of the backward: activation_bytes(…) in
/// all. Made once and used for every step.
struct Activations {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<BlockActivations> blocks;
  Slice output;             // N × C, of the last block
  Slice norm;               // N × C
  Slice norm_statistics;    // 2N f32
  Slice logits;             // N × V; their gradient after cross_entropy
  Slice residual_gradient;  // N × C, handed from block to block by the backward
  BackwardScratch scratch;

  /// Called before a block's backward, where blocks share memory: fills again what this block's forward left in
  /// saved.blocks[layer] and others have overwritten since. Null: nothing is shared. Recomputation hooks in here.
  void (*restore)(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) = nullptr;
};

/// Which flat slices a model allocates. Sharded data parallelism brings the others with `bind`, a unit at a time.
enum class Owns : std::uint8_t { values_and_gradients, values, nothing };

class Gpt {
 public:
  /// Values as GPT-2 draws them: matrices and embeddings N(0, 1/√(3C)), which at its 768 channels is its 0.02; those
  /// that write to the residual stream 1/√(2L) of that; norms 1 and 0, biases 0. Element i of tensor t depends on
  /// (seed, t, i) alone, so every sharding draws the same values.
  Gpt(Rank me, const GptConfig& config, std::uint64_t seed, Owns owns = Owns::values_and_gradients);

  /// Who does the layers from now on: tensor parallelism, for a config with its shard. Else the class Layers itself.
  void use(std::shared_ptr<const Layers> layers) { layers_ = std::move(layers); }
  const Layers& layers() const { return *layers_; }

  /// From now on tensor `index` of the table has this value and this gradient; an empty one is not there, and is kept
  /// by nobody. What parameters() says stays as it is.
  void bind(std::size_t index, Slice value, Slice gradient);

  const GptConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }

  Activations allocate_activations(Rank me, std::size_t sequences, std::size_t length) const;

  /// The part of `saved` that a smaller microbatch of the same length uses.
  Activations first_sequences(const Activations& saved, std::size_t sequences) const;

  /// saved.logits = model(batch.tokens); batch and `saved` have the same shape. Calls `before` with the number of each
  /// piece of gpt_usage_order before that runs.
  void forward(Rank me, const Batch& batch, Activations& saved, const BeforePiece& before = {}) const;

  /// From the gradient of the logits in saved.logits to the gradients of all parameters, which accumulate. Calls
  /// `ready` for each parameter once its gradient is final; a tied embedding comes last of all.
  void backward(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready = {},
                const BeforePiece& before = {}) const;

  // The pieces, for pipelines and recomputation. Block l's input is saved.blocks[l].input, its output the next one's
  // input, or saved.output. All backward pieces work on saved.residual_gradient in place.
  void embed(Rank me, const Batch& batch, Activations& saved) const;
  void forward_block(Rank me, std::size_t layer, Activations& saved) const;
  void forward_head(Rank me, Activations& saved) const;
  void backward_head(Rank me, Activations& saved, const GradientReady& ready) const;
  void backward_block(Rank me, std::size_t layer, Activations& saved, const GradientReady& ready) const;
  void backward_embed(Rank me, const Batch& batch, Activations& saved, const GradientReady& ready) const;

  BlockShape block_shape(std::size_t sequences, std::size_t length) const {
    return {sequences, length, config_.heads, config_.d_model, config_.attention, config_.tensor, config_.architecture};
  }
  /// With the memory of the blocks as given, one for each.
  Activations allocate_activations(Rank me, std::size_t sequences, std::size_t length,
                                   std::vector<BlockActivations> blocks) const;

 private:
  // Places in the table: token embedding, learned positions, the blocks' parts, norm weight and bias, head unless tied.
  bool learned_positions() const { return config_.architecture.positions == PositionKind::learned; }
  bool norm_bias() const { return config_.architecture.norm == NormKind::layer_norm; }
  std::size_t block_index(std::size_t layer) const { return (learned_positions() ? 2 : 1) + layer * parts_.size(); }
  std::size_t norm_index() const { return block_index(config_.layers); }
  std::size_t head_index() const { return config_.tied_head ? 0 : norm_index() + (norm_bias() ? 2 : 1); }
  static Slice at(const std::vector<Slice>& tensors, std::size_t index, bool there) {
    return there ? tensors[index] : Slice();
  }
  BlockShape block_shape(const Activations& saved) const { return block_shape(saved.sequences, saved.length); }

  GptConfig config_;
  std::shared_ptr<const Layers> layers_ = std::make_shared<Layers>();
  Parameters parameters_;
  std::vector<BlockPart::Index> parts_;                        // that a block has
  std::array<std::size_t, BlockPart::count> place_of_part_{};  // among them; not there: BlockPart::count
  std::vector<Slice> values_;                                  // by parameter, cut once
  std::vector<Slice> gradients_;                               // by parameter
  std::vector<BlockTensors> block_values_;
  std::vector<BlockTensors> block_gradients_;
};

/// The table of a GPT's parameters on this rank, without memory: for calculators and other layouts.
std::vector<Parameter> gpt_parameter_table(const GptConfig& config);

/// Elements first, first + 1, … of tensor `index`, as many as `part` has, as a Gpt with this seed begins with them. A
/// tensor that is cut over ranks begins with what the serial model has in its place, and padding with zeros.
void initialise_part(Rank me, const GptConfig& config, const Parameter& tensor, std::size_t index, std::size_t first,
                     Slice part, std::uint64_t seed);

/// Neighbouring elements of a rank's tensor that are neighbours in the serial model's tensor as well.
struct TensorRun {
  static constexpr std::size_t kPadding = static_cast<std::size_t>(-1);
  std::size_t own = 0;     // first element in the rank's tensor
  std::size_t serial = 0;  // and in the serial one, or kPadding: tokens that the vocabulary does not have
  std::size_t size = 0;
};
/// All runs of one tensor of gpt_parameter_table(config), in order: how a serial model is cut, and joined again. Of
/// tensors that are cut as config.tensor.cut says, where it is there.
std::vector<TensorRun> tensor_runs(const GptConfig& config, const Parameter& tensor);

/// The tensors that each piece of the forward pass works with, by their places in the table: the embedding, each block,
/// the head. The backward pass goes through the pieces in reverse. A tied embedding is in the first and in the last.
UsageOrder gpt_usage_order(const GptConfig& config);

}  // namespace lockstep
