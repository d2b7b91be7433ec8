// Exercise 22.6: activation checkpointing. Read labs/week22_zero/checkpointing.hpp first.
#include "labs/week22_zero/checkpointing.hpp"

namespace lockstep::week22 {

std::vector<BlockActivations> keep_inputs(Rank me, std::size_t layers, const BlockShape& shape, DType dtype) {
  todo("22.6a", "all blocks share the memory of one, except for their inputs: each has its own");
}

void restore_block(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {
  todo("22.6a", "run this block's forward again. It also writes the next block's input, with the same bits");
}

std::vector<BlockActivations> share_probabilities(Rank me, std::size_t layers, const BlockShape& shape, DType dtype) {
  todo("22.6b", "all blocks share the probabilities of one; everything else each has for itself");
}

void restore_probabilities(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {
  const BlockShape shape = gpt.block_shape(saved.sequences, saved.length);
  if (shape.kind == AttentionKind::flash) return;  // its backward computes them again by itself
  BlockActivations& block = saved.blocks[layer];
  todo("22.6b", "compute them from qkv, which the block has kept");
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
  todo("22.6c", "one block's input, statistics and probabilities; then which of them are kept `layers` times");
}

double block_forward_flop(const BlockShape& shape) {
  const double rows = static_cast<double>(shape.rows()), c = static_cast<double>(shape.d_model);
  const double t = static_cast<double>(shape.length);
  // 12 C² multiply-adds a row in the linear layers; for attention, (T + 1)/2 positions of C channels a row on average,
  // twice.
  return 24 * rows * c * c + 2 * (2 * rows * (t + 1) / 2 * c);
}

double recomputed_flop(const BlockShape& shape, Recompute recompute) {
  todo("22.6c",
       "all of the forward, the product of queries and keys, or nothing. Flash attention recomputes its scores "
       "anyway");
}

std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length, Recompute recompute) {
  const BlockShape shape{sequences, length, config.heads, config.d_model, config.attention};
  const std::size_t all = lockstep::activation_bytes(config, sequences, length);
  const std::size_t blocks = block_activation_bytes(shape, config.storage, config.layers, Recompute::none);
  return all - blocks + block_activation_bytes(shape, config.storage, config.layers, recompute);
}

}  // namespace lockstep::week22
