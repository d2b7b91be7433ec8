// Given: the layers of 23.4 except the head. A block's tensors and activations, as 23.2 and 23.3 name them, and calls
// of these; the embedding and the loss are calls of parts a and b.
#pragma once

#include "labs/week23_tensor_parallel/sharded_layers.hpp"
#include "labs/week23_tensor_parallel/tensor_attention.hpp"
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

class TensorBlockLayers : public ShardedLayers {
 public:
  using ShardedLayers::ShardedLayers;

  void attention_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const override {
    if (shape.kind == AttentionKind::materialised) return materialised_forward(me, shape, values, saved, y);
    AttentionSaved heads = attention_of(saved);
    parallel_attention_forward(tp_, shape.attention(), attention_of(values), heads, y);
  }

  void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const std::size_t own = shape.rows() * shape.own_width();
    const Slice dattention = scratch.narrow.cut(0, own), dqkv = scratch.wide.cut(0, 3 * own);
    const AttentionTensors tensors = attention_of(values), totals = attention_of(gradients);
    if (shape.kind == AttentionKind::materialised) {
      row_backward(tp_, dattention, totals.projection, dy, saved.attention, tensors.projection, shape.rows());
      block_attention_backward(me, shape, dqkv, dattention, saved);
      column_backward(tp_, dx, totals.qkv, dqkv, saved.norm1, tensors.qkv, shape.rows(), "attention backward");
    } else {
      parallel_attention_backward(tp_, shape.attention(), tensors, totals, attention_of(saved), dattention, dqkv, dx,
                                  dy);
    }
    attention_ready(ready);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    MlpSaved wide = mlp_of(saved);
    if (!y.empty()) return parallel_mlp_forward(tp_, mlp_of(values), wide, y, shape.rows());
    column_forward(tp_, saved.up, saved.norm2, mlp_of(values).up, shape.rows());
    gelu(me, saved.gelu, saved.up);
  }

  void mlp_backward(Rank, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    const Slice wide = scratch.wide.cut(0, 4 * shape.rows() * shape.own_width());
    parallel_mlp_backward(tp_, mlp_of(values), mlp_of(gradients), mlp_of(saved), wide, dx, dy, shape.rows());
    mlp_ready(ready);
  }

  void embed(Rank, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const override {
    parallel_embedding(tp_, y, tokens, table, positions, sequence, shard_);
  }
  void embed_backward(Rank, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                      std::size_t sequence) const override {
    parallel_embedding_backward(tp_, dtable, dpositions, dy, tokens, sequence, shard_);
  }

 private:
  /// As 23.3, around probabilities of this rank's heads that stay in memory.
  void materialised_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                            Slice y) const {
    const AttentionTensors tensors = attention_of(values);
    column_forward(tp_, saved.qkv, saved.norm1, tensors.qkv, shape.rows());
    block_attention(me, shape, saved);
    row_forward(tp_, y, saved.attention, tensors.projection, shape.rows(), "attention forward");
  }

  static AttentionTensors attention_of(const BlockTensors& tensors) {
    return {pair(tensors, P::qkv_weight, P::qkv_bias), pair(tensors, P::projection_weight, P::projection_bias)};
  }
  static MlpTensors mlp_of(const BlockTensors& tensors) {
    return {pair(tensors, P::up_weight, P::up_bias), pair(tensors, P::down_weight, P::down_bias)};
  }
  static AttentionSaved attention_of(const BlockActivations& saved) {
    return {saved.norm1, saved.qkv, saved.attention, saved.attention_statistics};
  }
  static MlpSaved mlp_of(const BlockActivations& saved) { return {saved.norm2, saved.up, saved.gelu}; }
};

}  // namespace lockstep::week23
