// Given: the layers of 23.4 except the head. A block's tensors and activations, as 23.2 and 23.3 name them, and calls
// of these; the embedding and the loss are calls of parts a and b. Other blocks than GPT-2's, and attention whose
// probabilities stay in memory, have the same linear layers around this rank's part of the block.
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
    const AttentionTensors tensors = attention_of(values);
    AttentionSaved heads = attention_of(saved);
    if (is_of_23_3(shape)) return parallel_attention_forward(tp_, shape.attention(), tensors, heads, y);
    column_forward(tp_, saved.qkv, saved.norm1, tensors.qkv, shape.rows());
    block_attention(me, shape, saved);
    row_forward(tp_, y, saved.attention, tensors.projection, shape.rows(), "attention forward");
  }

  void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const Slice dattention = scratch.narrow.cut(0, shape.rows() * shape.own_width());
    const Slice dqkv = scratch.wide.cut(0, shape.rows() * shape.qkv_width());
    const AttentionTensors tensors = attention_of(values), totals = attention_of(gradients);
    if (is_of_23_3(shape)) {
      parallel_attention_backward(tp_, shape.attention(), tensors, totals, attention_of(saved), dattention, dqkv, dx,
                                  dy);
    } else {
      row_backward(tp_, dattention, totals.projection, dy, saved.attention, tensors.projection, shape.rows());
      block_attention_backward(me, shape, dqkv, dattention, saved);
      column_backward(tp_, dx, totals.qkv, dqkv, saved.norm1, tensors.qkv, shape.rows(), "attention backward");
    }
    attention_ready(ready);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    const MlpTensors tensors = mlp_of(values);
    MlpSaved wide = mlp_of(saved);
    if (is_of_23_2(shape) && !y.empty()) return parallel_mlp_forward(tp_, tensors, wide, y, shape.rows());
    column_forward(tp_, saved.up, saved.norm2, tensors.up, shape.rows());
    block_activation(me, shape, saved);
    if (!y.empty()) row_forward(tp_, y, saved.gelu, tensors.down, shape.rows(), "mlp forward");
  }

  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    const MlpTensors tensors = mlp_of(values), totals = mlp_of(gradients);
    const Slice wide = scratch.wide.cut(0, shape.rows() * shape.mlp_width());
    if (is_of_23_2(shape)) {
      parallel_mlp_backward(tp_, tensors, totals, mlp_of(saved), wide, dx, dy, shape.rows());
    } else {
      row_backward(tp_, wide, totals.down, dy, saved.gelu, tensors.down, shape.rows());
      const Slice dup = block_activation_backward(me, shape, scratch.wide, saved);
      column_backward(tp_, dx, totals.up, dup, saved.norm2, tensors.up, shape.rows(), "mlp backward");
    }
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
  static bool is_of_23_2(const BlockShape& shape) { return shape.architecture == Architecture(); }
  static bool is_of_23_3(const BlockShape& shape) {
    return shape.architecture == Architecture() && shape.kind == AttentionKind::flash;
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
