// Given: the layers of 23.4 but for the head. A block's tensors and activations, as 23.2 and 23.3 name them, and calls
// of these; the embedding and the loss are calls of parts a and b.
#pragma once

#include "labs/week23_tensor_parallel/sharded_layers.hpp"
#include "labs/week23_tensor_parallel/tensor_attention.hpp"
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

class TensorBlockLayers : public ShardedLayers {
 public:
  using ShardedLayers::ShardedLayers;

  void attention_forward(Rank, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const override {
    check(shape);
    AttentionSaved heads = attention_of(saved);
    parallel_attention_forward(tp_, shape.attention(), attention_of(values), heads, y);
  }

  void attention_backward(Rank, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const std::size_t own = shape.rows() * shape.own_width();
    const Slice dattention = scratch.narrow.cut(0, own), dqkv = scratch.wide.cut(0, 3 * own);
    parallel_attention_backward(tp_, shape.attention(), attention_of(values), attention_of(gradients),
                                attention_of(saved), dattention, dqkv, dx, dy);
    attention_ready(ready);
  }

  void mlp_forward(Rank, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    MlpSaved wide = mlp_of(saved);
    parallel_mlp_forward(tp_, mlp_of(values), wide, y, shape.rows());
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
  static void check(const BlockShape& shape) {
    if (shape.kind != AttentionKind::flash)
      usage_error("tensor parallelism splits flash attention; materialised attention runs on one rank");
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
