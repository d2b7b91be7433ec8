// Given: the layers of 23.5, made of its linear layers between sharded rows, around any block.
#pragma once

#include <array>

#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/sharded_layers.hpp"

namespace lockstep::week23 {

/// column_backward_rows of 23.5b, with tp.overlap, and with the scatter on tp.comm too: behind the product that it does
/// not need. Of solutions/given.
void column_backward_behind(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                            const LinearTensors& values, std::size_t rows, const char* gather, const char* scatter);

/// The weights of one layer in two parts that share its input: gradients and values, and dy of each part.
struct LayerSlope {
  LinearTensors gradients;
  LinearTensors values;
  Slice dy;
};
/// column_backward_rows of a layer in two parts, whose input is gathered once and whose dx is their sum. With `behind`
/// the scatter overlaps too. Of solutions/given.
void column_backward_parts(const TensorParallel& tp, Slice dx, const std::array<LayerSlope, 2>& parts, Slice x,
                           std::size_t rows, bool behind, const char* gather, const char* scatter);

class SequenceLayers : public ShardedLayers {
 public:
  using ColumnBackward = decltype(&column_backward_rows);
  SequenceLayers(const TensorParallel& tp, std::size_t vocabulary,
                 ColumnBackward column_backward = column_backward_rows)
      : ShardedLayers(tp, vocabulary), column_backward_(column_backward) {}

  void attention_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const override {
    column_forward_rows(tp_, saved.qkv, saved.norm1, pair(values, P::qkv_weight, P::qkv_bias), shape.rows(),
                        "attention forward gather");
    block_attention(me, shape, saved);
    row_forward_rows(tp_, y, saved.attention, pair(values, P::projection_weight, P::projection_bias), shape.rows(),
                     "attention forward scatter");
  }

  void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const std::size_t rows = shape.rows(), all = rows * shape.qkv_width();
    const Slice dqkv = scratch.wide.cut(0, all), dattention = scratch.wide.cut(all, rows * shape.own_width());
    row_backward_rows(tp_, dattention, pair(gradients, P::projection_weight, P::projection_bias), dy, saved.attention,
                      pair(values, P::projection_weight, P::projection_bias), rows, "attention backward gather");
    block_attention_backward(me, shape, dqkv, dattention, saved);
    column_backward_(tp_, dx, pair(gradients, P::qkv_weight, P::qkv_bias), dqkv, saved.norm1,
                     pair(values, P::qkv_weight, P::qkv_bias), rows, "attention input gather",
                     "attention backward scatter");
    attention_ready(ready);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    column_forward_rows(tp_, saved.up, saved.norm2, pair(values, P::up_weight, P::up_bias), shape.rows(),
                        "mlp forward gather");
    block_activation(me, shape, saved);
    if (y.empty()) return;
    row_forward_rows(tp_, y, saved.gelu, pair(values, P::down_weight, P::down_bias), shape.rows(),
                     "mlp forward scatter");
  }

  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    const std::size_t rows = shape.rows();
    const Slice wide = scratch.wide.cut(0, rows * shape.mlp_width());
    row_backward_rows(tp_, wide, pair(gradients, P::down_weight, P::down_bias), dy, saved.gelu,
                      pair(values, P::down_weight, P::down_bias), rows, "mlp backward gather");
    const Slice dup = block_activation_backward(me, shape, scratch.wide, saved);
    column_backward_(tp_, dx, pair(gradients, P::up_weight, P::up_bias), dup, saved.norm2,
                     pair(values, P::up_weight, P::up_bias), rows, "mlp input gather", "mlp backward scatter");
    mlp_ready(ready);
  }

  void embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const override {
    Slice whole = whole_rows(tp_, y);
    embed_own(me, whole, tokens, table, positions, sequence);
    scatter_rows(tp_.group, y, whole, "embedding forward scatter");
  }
  void embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                      std::size_t sequence) const override {
    Slice whole = whole_rows(tp_, dy);
    gather_rows(tp_.group, whole, dy, "embedding backward gather");
    embed_own_backward(me, dtable, dpositions, whole, tokens, sequence);
  }

  /// This rank's part of all rows' embedding: of its share of the vocabulary, and on one rank the positions.
  void embed_own(Rank me, Slice whole, Slice tokens, Slice table, Slice positions, std::size_t sequence) const {
    Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer);
    shard_tokens(me, own, tokens, shard_);
    embedding(me, whole, own, table, tp_.group.rank() == 0 ? positions : Slice(), sequence);
  }
  void embed_own_backward(Rank me, Slice dtable, Slice dpositions, Slice whole, Slice tokens,
                          std::size_t sequence) const {
    Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer);
    shard_tokens(me, own, tokens, shard_);
    embedding_backward(me, dtable, dpositions, whole, own, sequence);
  }
  bool scatters_behind() const { return column_backward_ == column_backward_behind; }

  void logits(Rank, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    column_forward_rows(tp_, logits, x, {head, {}}, rows, "head forward gather");
  }
  void logits_backward(Rank, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    column_backward_(tp_, dx, {dhead, {}}, dlogits, x, {head, {}}, rows, "head input gather", "head backward scatter");
  }

 private:
  ColumnBackward column_backward_;
};

}  // namespace lockstep::week23
