// Exercise 23.4 (extra): the whole GPT on p ranks. The block is made of 23.2 and 23.3; embedding and loss are sharded
// by vocabulary, so that no rank holds a whole row of logits: at V = 50,257 they are the largest activation of a small
// model (arXiv 1909.08053, section 3).
#pragma once

#include <memory>

#include "common/gpt/model/layers.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

/// Given: the tokens of one rank, and how many there are. A vocabulary that does not divide is padded: the last ranks
/// have fewer tokens than rows.
VocabularyShard vocabulary_shard(std::size_t vocabulary, int rank, int ranks);

// Part a: the embedding. The table's rows are sharded; the positions are whole on every rank.

/// y (N × C, whole) = table[tokens] + positions. A token's row is on one rank, the others add zeros; positions may be
/// in the sum only once. One all-reduce, in the region "embedding forward".
void parallel_embedding(const TensorParallel& tp, Slice y, Slice tokens, Slice table, Slice positions,
                        std::size_t sequence, VocabularyShard shard);
/// Gradients accumulate: of this rank's rows, and of the positions (the same on every rank). No all-reduce: dy is
/// whole.
void parallel_embedding_backward(const TensorParallel& tp, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                                 std::size_t sequence, VocabularyShard shard);

// Part b: the loss.

/// loss[0] += the loss of the whole vocabulary; logits (N × V/p) become their gradient, unless `only_loss`. Each row's
/// softmax needs two numbers of every rank (cross_entropy_statistics): an all-gather of p × 2N f32, in the region
/// "loss", instead of the logits, which are never copied or gathered. gradient_scale: of cross_entropy, may be empty.
void parallel_cross_entropy(const TensorParallel& tp, Slice loss, Slice logits, Slice targets, VocabularyShard shard,
                            float factor, Slice gradient_scale, bool only_loss);

// Part c: the block, and all together.

/// The layers of a model whose config says tensor = {tp.group.rank(), tp.group.size()}: gpt.use(make_tensor_layers(…)).
/// Norms and residuals stay whole on every rank.
std::shared_ptr<const Layers> make_tensor_layers(const TensorParallel& tp, std::size_t vocabulary);

}  // namespace lockstep::week23
