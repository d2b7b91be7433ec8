// Exercise 23.5: sequence parallelism. Read labs/week23_tensor_parallel/sequence_parallel.hpp first.
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sharded_layers.hpp"

namespace lockstep::week23 {

void gather_rows(Rank group, Slice whole, Slice own, const char* place) {
  Scope scope = group.region(place, whole.bytes());
  // lab 23.5a begin: own rows into their place, and 21.2's all-gather
  copy(group, chunk(whole, group.rank(), group.size()), own);
  week21::ring_all_gather(group, whole);
  // lab end
}

void scatter_rows(Rank group, Slice own, Slice whole, const char* place) {
  Scope scope = group.region(place, whole.bytes());
  // lab 23.5a begin: 21.2's reduce-scatter, and own rows out of their place
  week21::ring_reduce_scatter(group, whole);
  copy(group, own, chunk(whole, group.rank(), group.size()));
  // lab end
}

namespace {

/// Memory for whole rows, of what each rank has `own` of.
Slice whole_rows(const TensorParallel& tp, const Slice& own, Category category = Category::buffer) {
  Rank me = tp.group;
  return me.allocate(own.size() * static_cast<std::size_t>(me.size()), own.dtype(), category);
}

}  // namespace

void column_forward_rows(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                         const char* place) {
  Slice whole = whole_rows(tp, x);
  // lab 23.5b begin: all rows, then the serial layer on them
  gather_rows(tp.group, whole, x, place);
  linear(tp.group, y, whole, values.weight, values.bias, rows);
  // lab end
}

void column_backward_rows(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                          const LinearTensors& values, std::size_t rows, const char* gather, const char* scatter) {
  Rank me = tp.group;
  Slice whole = whole_rows(tp, x), dwhole = whole_rows(tp, x);
  // lab 23.5b begin: gather x (with tp.overlap by run on tp.comm) beside this rank's part of dx, which is then
  // scattered; and the gradients of weight and bias, once x is there
  Ticket gathered;
  if (tp.overlap)
    gathered = me.run(tp.comm, [whole, x, gather](Rank queue) { gather_rows(queue, whole, x, gather); });
  else
    gather_rows(me, whole, x, gather);
  linear_backward_input(me, dwhole, dy, values.weight, rows);
  me.wait(gathered);
  linear_backward_weight(me, gradients.weight, gradients.bias, dy, whole, rows);
  scatter_rows(me, dx, dwhole, scatter);
  // lab end
}

void row_forward_rows(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place) {
  Slice whole = whole_rows(tp, y);
  // lab 23.5b begin: this rank's part of all rows, with the bias once; then the scatter
  linear(tp.group, whole, x, values.weight, tp.group.rank() == 0 ? values.bias : Slice(), rows);
  scatter_rows(tp.group, y, whole, place);
  // lab end
}

void row_backward_rows(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                       const LinearTensors& values, std::size_t rows, const char* place) {
  Slice whole = whole_rows(tp, dy);
  // lab 23.5b begin: all rows of dy, then the serial layer's gradients
  gather_rows(tp.group, whole, dy, place);
  linear_backward_input(tp.group, dx, whole, values.weight, rows);
  linear_backward_weight(tp.group, gradients.weight, gradients.bias, whole, x, rows);
  // lab end
}

void sum_norm_gradients(const TensorParallel& tp, const std::vector<Slice>& norms) {
  Rank me = tp.group;
  if (norms.empty()) return;
  std::size_t count = 0;
  for (const Slice& norm : norms) count += norm.size();
  Slice all = me.allocate(count, norms.front().dtype(), Category::buffer);
  // lab 23.5c begin: copy the norms' gradients into `all`, one after the other; sum it; copy them back
  std::size_t at = 0;
  for (const Slice& norm : norms) copy(me, all.cut(at, norm.size()), norm), at += norm.size();
  g_forward(tp, all, "norm gradients");
  at = 0;
  for (const Slice& norm : norms) copy(me, norm, all.cut(at, norm.size())), at += norm.size();
  // lab end
}

namespace {

class SequenceLayers final : public ShardedLayers {
 public:
  using ShardedLayers::ShardedLayers;

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
    const std::size_t rows = shape.rows(), own = rows * shape.own_width();
    const Slice dqkv = scratch.wide.cut(0, 3 * own), dattention = scratch.wide.cut(3 * own, own);
    row_backward_rows(tp_, dattention, pair(gradients, P::projection_weight, P::projection_bias), dy, saved.attention,
                      pair(values, P::projection_weight, P::projection_bias), rows, "attention backward gather");
    block_attention_backward(me, shape, dqkv, dattention, saved);
    column_backward_rows(tp_, dx, pair(gradients, P::qkv_weight, P::qkv_bias), dqkv, saved.norm1,
                         pair(values, P::qkv_weight, P::qkv_bias), rows, "attention input gather",
                         "attention backward scatter");
    attention_ready(ready);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    column_forward_rows(tp_, saved.up, saved.norm2, pair(values, P::up_weight, P::up_bias), shape.rows(),
                        "mlp forward gather");
    gelu(me, saved.gelu, saved.up);
    row_forward_rows(tp_, y, saved.gelu, pair(values, P::down_weight, P::down_bias), shape.rows(),
                     "mlp forward scatter");
  }

  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    const std::size_t rows = shape.rows();
    const Slice wide = scratch.wide.cut(0, 4 * rows * shape.own_width());
    row_backward_rows(tp_, wide, pair(gradients, P::down_weight, P::down_bias), dy, saved.gelu,
                      pair(values, P::down_weight, P::down_bias), rows, "mlp backward gather");
    gelu_backward(me, wide, wide, saved.up);
    column_backward_rows(tp_, dx, pair(gradients, P::up_weight, P::up_bias), wide, saved.norm2,
                         pair(values, P::up_weight, P::up_bias), rows, "mlp input gather", "mlp backward scatter");
    mlp_ready(ready);
  }

  void embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const override {
    Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer), whole = whole_rows(tp_, y);
    shard_tokens(me, own, tokens, shard_);
    embedding(me, whole, own, table, tp_.group.rank() == 0 ? positions : Slice(), sequence);
    scatter_rows(tp_.group, y, whole, "embedding forward scatter");
  }
  void embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                      std::size_t sequence) const override {
    Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer), whole = whole_rows(tp_, dy);
    gather_rows(tp_.group, whole, dy, "embedding backward gather");
    shard_tokens(me, own, tokens, shard_);
    embedding_backward(me, dtable, dpositions, whole, own, sequence);
  }

  void logits(Rank, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    column_forward_rows(tp_, logits, x, {head, {}}, rows, "head forward gather");
  }
  void logits_backward(Rank, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    column_backward_rows(tp_, dx, {dhead, {}}, dlogits, x, {head, {}}, rows, "head input gather",
                         "head backward scatter");
  }
};

}  // namespace

std::shared_ptr<const Layers> make_sequence_layers(const TensorParallel& tp, std::size_t vocabulary) {
  return std::make_shared<SequenceLayers>(tp, vocabulary);
}

}  // namespace lockstep::week23
