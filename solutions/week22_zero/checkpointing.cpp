// Exercise 22.6: activation checkpointing. Read labs/week22_zero/checkpointing.hpp first.
#include "labs/week22_zero/checkpointing.hpp"

namespace lockstep::week22 {

std::vector<BlockActivations> keep_inputs(Rank me, std::size_t layers, const BlockShape& shape, DType dtype) {
  // lab 22.6a begin: all blocks share the memory of one, except for their inputs: each has its own
  std::vector<BlockActivations> blocks(layers, allocate_block_activations(me, shape, dtype));
  for (std::size_t l = 1; l < layers; ++l)
    blocks[l].input = me.allocate(shape.rows() * shape.d_model, dtype, Category::activation);
  return blocks;
  // lab end
}

void restore_block(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {
  // lab 22.6a begin: run this block's forward again. It also writes the next block's input, with the same bits
  gpt.forward_block(me, layer, saved);
  // lab end
}

std::vector<BlockActivations> share_probabilities(Rank me, std::size_t layers, const BlockShape& shape, DType dtype) {
  // lab 22.6b begin: all blocks share the probabilities of one; everything else each has for itself
  std::vector<BlockActivations> blocks{allocate_block_activations(me, shape, dtype)};
  for (std::size_t l = 1; l < layers; ++l)
    blocks.push_back(allocate_block_activations(me, shape, dtype, blocks.front().probabilities));
  return blocks;
  // lab end
}

void restore_probabilities(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {
  const BlockShape shape = gpt.block_shape(saved.sequences, saved.length);
  if (shape.kind == AttentionKind::flash) return;  // its backward computes them again by itself
  BlockActivations& block = saved.blocks[layer];
  // lab 22.6b begin: compute them from qkv, which the block has kept
  attention_probabilities(me, block.probabilities, block.qkv, shape.attention());
  // lab end
}

Activations checkpointed_activations(Rank me, const Gpt& gpt, std::size_t sequences, std::size_t length,
                                     Recompute recompute) {
  if (recompute == Recompute::none) return gpt.allocate_activations(me, sequences, length);
  const bool full = recompute == Recompute::full;
  const BlockShape shape = gpt.block_shape(sequences, length);
  const GptConfig& config = gpt.config();
  Activations saved = gpt.allocate_activations(me, sequences, length,
                                               full ? keep_inputs(me, config.layers, shape, config.storage)
                                                    : share_probabilities(me, config.layers, shape, config.storage));
  saved.restore = full ? restore_block : restore_probabilities;
  return saved;
}

std::size_t block_activation_bytes(const BlockShape& shape, DType dtype, std::size_t layers, Recompute recompute) {
  // lab 22.6c begin: one block's input, statistics and probabilities; then which of them are kept `layers` times
  const std::size_t element = bytes_of(dtype), input = shape.rows() * shape.d_model * element;
  const bool flash = shape.kind == AttentionKind::flash;
  const std::size_t probabilities = flash ? 0 : shape.rows() * shape.heads * shape.length * element;
  const std::size_t statistics = 4 * (2 * 2 * shape.rows() + (flash ? shape.rows() * shape.heads : 0));
  const std::size_t block = 16 * input + statistics + probabilities;
  if (recompute == Recompute::full) return layers * input + (block - input);
  if (recompute == Recompute::selective) return layers * (block - probabilities) + probabilities;
  return layers * block;
  // lab end
}

double block_forward_flop(const BlockShape& shape) {
  const double rows = static_cast<double>(shape.rows()), c = static_cast<double>(shape.d_model);
  const double t = static_cast<double>(shape.length);
  // 12 C² multiply-adds a row in the linear layers; for attention, (T + 1)/2 positions of C channels a row on average,
  // twice.
  return 24 * rows * c * c + 2 * (2 * rows * (t + 1) / 2 * c);
}

double recomputed_flop(const BlockShape& shape, Recompute recompute) {
  // lab 22.6c begin: all of the forward, the product of queries and keys, or nothing. Flash attention recomputes its
  // scores anyway
  const double scores = static_cast<double>(shape.rows()) * static_cast<double>((shape.length + 1) * shape.d_model);
  if (recompute == Recompute::full) return block_forward_flop(shape);
  if (recompute == Recompute::selective && shape.kind == AttentionKind::materialised) return scores;
  return 0;
  // lab end
}

std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length, Recompute recompute) {
  const BlockShape shape{sequences, length, config.heads, config.d_model, config.attention};
  const std::size_t all = lockstep::activation_bytes(config, sequences, length);
  const std::size_t blocks = block_activation_bytes(shape, config.storage, config.layers, Recompute::none);
  return all - blocks + block_activation_bytes(shape, config.storage, config.layers, recompute);
}

}  // namespace lockstep::week22
