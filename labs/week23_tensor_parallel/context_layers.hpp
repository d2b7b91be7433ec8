// Given to the trainer: the layers of a model whose sequences ranks share (context parallelism), from your 23.1 and
// 23.6. Rows are those of this rank's two chunks, the earlier one of all sequences first; what works row by row is
// unchanged. Layers may be sharded over tensor-parallel ranks as well, and with 23.5's layers these rows, too.
#pragma once

#include <memory>

#include "common/gpt/model/layers.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"
#include "labs/week23_tensor_parallel/ring_attention.hpp"
#include "labs/week23_tensor_parallel/sequence_layers.hpp"

namespace lockstep::week23 {

class ContextLayers final : public Layers {
 public:
  /// `group` shares each sequence; `inner` does what does not depend on positions. If it is SequenceLayers, the ranks
  /// of tp share the rows of norms and residuals.
  ContextLayers(Rank group, const TensorParallel& tp, std::shared_ptr<const Layers> inner)
      : group_(group),
        tp_(tp),
        inner_(std::move(inner)),
        shared_rows_(dynamic_cast<const SequenceLayers*>(inner_.get())) {}

  void attention_forward(Rank, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const override {
    const Parts parts(shape, saved.qkv);
    const LinearTensors qkv = pair(values, P::qkv_weight, P::qkv_bias);
    const LinearTensors projection = pair(values, P::projection_weight, P::projection_bias);
    {
      Slice x = saved.norm1;
      if (shared_rows_) {
        x = whole_rows(tp_, saved.norm1);
        gather_rows(tp_.group, x, saved.norm1, "attention forward gather");
      }
      column_forward(tp_, parts.q, x, parts.of_q(qkv), shape.rows());
      column_forward(tp_, parts.kv, x, parts.of_kv(qkv), shape.rows());
    }
    turn(shape, parts, Turn::forward);
    ring_attention_forward(ring(shape), saved.attention, saved.attention_statistics, parts.q, parts.kv);
    if (shared_rows_)
      row_forward_rows(tp_, y, saved.attention, projection, shape.rows(), "attention forward scatter");
    else
      row_forward(tp_, y, saved.attention, projection, shape.rows(), "attention forward");
  }

  void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const std::size_t rows = shape.rows(), own = shape.own_width();
    const Parts parts(shape, saved.qkv), slopes(shape, scratch.wide.cut(0, rows * shape.qkv_width()));
    const LinearTensors qkv = pair(values, P::qkv_weight, P::qkv_bias);
    const LinearTensors dqkv = pair(gradients, P::qkv_weight, P::qkv_bias);
    const LinearTensors projection = pair(values, P::projection_weight, P::projection_bias);
    const LinearTensors dprojection = pair(gradients, P::projection_weight, P::projection_bias);
    const Slice dattention = scratch.narrow.cut(0, rows * own);  // dx is there later
    if (shared_rows_)
      row_backward_rows(tp_, dattention, dprojection, dy, saved.attention, projection, rows,
                        "attention backward gather");
    else
      row_backward(tp_, dattention, dprojection, dy, saved.attention, projection, rows);
    ring_attention_backward(ring(shape), slopes.q, slopes.kv, dattention, saved.attention, saved.attention_statistics,
                            parts.q, parts.kv);
    turn(shape, slopes, Turn::backward);
    if (shared_rows_) {
      column_backward_parts(
          tp_, dx, {{{parts.of_q(dqkv), parts.of_q(qkv), slopes.q}, {parts.of_kv(dqkv), parts.of_kv(qkv), slopes.kv}}},
          saved.norm1, rows, shared_rows_->scatters_behind(), "attention input gather", "attention backward scatter");
    } else {
      linear_backward_input(me, dx, slopes.q, parts.of_q(qkv).weight, rows);
      matmul(me, matrix(dx, rows, shape.d_model), matrix(slopes.kv, rows, parts.shared),
             matrix(parts.of_kv(qkv).weight, parts.shared, shape.d_model), Into::accumulate);
      const Ticket summed = f_backward(tp_, dx, "attention backward");
      linear_backward_weight(me, parts.of_q(dqkv).weight, parts.of_q(dqkv).bias, slopes.q, saved.norm1, rows);
      linear_backward_weight(me, parts.of_kv(dqkv).weight, parts.of_kv(dqkv).bias, slopes.kv, saved.norm1, rows);
      me.wait(summed);
    }
    for (const P::Index part : {P::projection_bias, P::projection_weight, P::qkv_bias, P::qkv_weight}) ready(part);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    inner_->mlp_forward(me, shape, values, saved, y);
  }
  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    inner_->mlp_backward(me, shape, values, gradients, saved, scratch, dx, dy, ready);
  }

  void embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t length) const override {
    const Slice whole = shared_rows_ ? whole_rows(tp_, y) : y;
    for (int i = 0; i < 2; ++i) {
      const Slice own = rows_of_chunk(positions, whole, tokens, i, length);
      if (shared_rows_)
        shared_rows_->embed_own(me, half(whole, i), half(tokens, i), table, own, length / 2);
      else
        inner_->embed(me, half(whole, i), half(tokens, i), table, own, length / 2);
    }
    if (shared_rows_) scatter_rows(tp_.group, y, whole, "embedding forward scatter");
  }
  void embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                      std::size_t length) const override {
    const Slice whole = shared_rows_ ? whole_rows(tp_, dy) : dy;
    if (shared_rows_) gather_rows(tp_.group, whole, dy, "embedding backward gather");
    for (int i = 0; i < 2; ++i) {
      const Slice own = rows_of_chunk(dpositions, whole, tokens, i, length);
      if (shared_rows_)
        shared_rows_->embed_own_backward(me, dtable, own, half(whole, i), half(tokens, i), length / 2);
      else
        inner_->embed_backward(me, dtable, own, half(whole, i), half(tokens, i), length / 2);
    }
  }

  void logits(Rank me, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    inner_->logits(me, logits, x, head, rows);
  }
  void logits_backward(Rank me, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    inner_->logits_backward(me, dx, dhead, dlogits, x, head, rows);
  }
  void loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale) const override {
    inner_->loss(me, loss, logits, targets, factor, gradient_scale);
  }
  void validation_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor) const override {
    inner_->validation_loss(me, loss, logits, targets, factor);
  }

 private:
  using P = BlockPart;

  /// q and kv, one after the other in the memory of qkv; and their rows of the layer that makes them.
  struct Parts {
    std::size_t own, shared, channels;  // widths of q, of k and v together, and of the layer's input
    Slice q, kv;
    Parts(const BlockShape& shape, const Slice& qkv)
        : own(shape.own_width()),
          shared(shape.qkv_width() - own),
          channels(shape.d_model),
          q(qkv.cut(0, shape.rows() * own)),
          kv(qkv.cut(shape.rows() * own, shape.rows() * shared)) {}
    LinearTensors of_q(const LinearTensors& qkv) const { return rows_of(qkv, 0, own); }
    LinearTensors of_kv(const LinearTensors& qkv) const { return rows_of(qkv, own, shared); }
    LinearTensors rows_of(const LinearTensors& qkv, std::size_t first, std::size_t count) const {
      return {qkv.weight.cut(first * channels, count * channels),
              qkv.bias.empty() ? qkv.bias : qkv.bias.cut(first, count)};
    }
  };

  /// Rotary positions: q and k of each chunk turn by their place in the whole sequence.
  void turn(const BlockShape& shape, const Parts& parts, Turn way) const {
    if (shape.architecture.positions != PositionKind::rotary) return;
    const AttentionShape own = shape.attention();
    const auto chunks = chunks_of(group_.rank(), group_.size(), SequenceCut::zigzag);
    for (int i = 0; i < 2; ++i) {
      RotaryShape of{.batch = own.batch, .positions = own.positions / 2, .head_size = own.head_size};
      of.first = static_cast<std::size_t>(chunks[i]) * of.positions;
      of.turning = own.heads;
      rotate_positions(group_, half(parts.q, i), of, shape.architecture.rope_base, way);
      of.turning = of.staying = own.key_value_heads();
      rotate_positions(group_, half(parts.kv, i), of, shape.architecture.rope_base, way);
    }
  }

  RingAttention ring(const BlockShape& shape) const {
    AttentionShape whole = shape.attention();
    whole.positions *= static_cast<std::size_t>(group_.size());
    return {group_, whole, SequenceCut::zigzag};
  }

  /// Rows of the table of positions, or of its gradient, for this rank's chunk `i`; rows have `length` positions a
  /// sequence, in two chunks.
  Slice rows_of_chunk(const Slice& positions, const Slice& y, const Slice& tokens, int i, std::size_t length) const {
    if (positions.empty() || tokens.empty()) return positions;
    const std::size_t channels = y.size() / tokens.size(), size = length / 2;
    const auto number = static_cast<std::size_t>(chunks_of(group_.rank(), group_.size(), SequenceCut::zigzag)[i]);
    return positions.cut(number * size * channels, size * channels);
  }

  Rank group_;
  TensorParallel tp_;
  std::shared_ptr<const Layers> inner_;
  const SequenceLayers* shared_rows_;  ///< inner_, if the ranks of tp share rows
};

}  // namespace lockstep::week23
