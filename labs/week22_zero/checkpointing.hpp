// Exercise 22.6: activation checkpointing. The backward pass needs what the forward pass computed; instead of keeping
// all of it, keep little and compute the rest again.
//
// Follows Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174), and, for
// what to choose in a transformer, Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
// (arXiv 2205.05198), sections 4 and 5. PyTorch: torch.utils.checkpoint.
//
//   Activations saved = checkpointed_activations(me, gpt, sequences, length, Recompute::full);
//   gpt.forward(me, batch, saved);
//   gpt.backward(me, batch, saved);   // calls saved.restore before each block's backward, from the last to the first
#pragma once

#include <vector>

#include "common/gpt/model/gpt.hpp"

namespace lockstep::week22 {

/// The part that is computed again in the backward pass: nothing; the probabilities of materialised attention; or a
/// whole block, from its input.
enum class Recompute : std::uint8_t { none, selective, full };

// Part a: full ------------------------------------------------------------------------------------------------------

/// Memory for `layers` ≥ 1 blocks that keep their inputs and nothing else: each has an `input` of its own (N × C), and
/// all share one set of everything else. Category::activation.
std::vector<BlockActivations> keep_inputs(Rank me, std::size_t layers, const BlockShape& shape, DType dtype);

/// Before the backward of block `layer`: fills saved.blocks[layer] again from its input. The blocks after it are done.
void restore_block(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved);

// Part b: selective -------------------------------------------------------------------------------------------------

/// Memory for `layers` ≥ 1 blocks that keep everything but the probabilities of materialised attention (B × h × T × T),
/// of which they share one. With flash attention there are none, and every block keeps everything.
std::vector<BlockActivations> share_probabilities(Rank me, std::size_t layers, const BlockShape& shape, DType dtype);

/// Before the backward of block `layer`: fills its probabilities again, and nothing else.
void restore_probabilities(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved);

/// Given: activations of a microbatch whose blocks keep what `recompute` says, with the right `restore`.
Activations checkpointed_activations(Rank me, const Gpt& gpt, std::size_t sequences, std::size_t length,
                                     Recompute recompute);

// Part c: what it saves, and what it costs ----------------------------------------------------------------------------

/// Bytes of the activations of `layers` ≥ 1 blocks, all together. One block's are 16 N·C elements, the statistics of
/// two norms (mean and deviation of each row) in fp32, and attention's own: with flash attention one fp32 for each row
/// and head, else the probabilities.
std::size_t block_activation_bytes(const BlockShape& shape, DType dtype, std::size_t layers, Recompute recompute);

/// Given: FLOP of one block's forward in its matrix products: four linear layers, and the scores and sums of attention,
/// over the T (T + 1) / 2 pairs of positions that the causal mask allows. A multiply-add counts as two.
double block_forward_flop(const BlockShape& shape);

/// FLOP, in matrix products, that the backward of one block repeats.
double recomputed_flop(const BlockShape& shape, Recompute recompute);

/// Given: bytes of a whole model's activations of a microbatch: the blocks', and those of head and backward pass, which
/// do not depend on `recompute`.
std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length, Recompute recompute);

}  // namespace lockstep::week22
