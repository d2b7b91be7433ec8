#include "labs/trainer/block_layers.hpp"

#include <utility>

#include "labs/week23_tensor_parallel/model_shards.hpp"
#include "labs/week23_tensor_parallel/sequence_layers.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week25 {

namespace {

using week23::LinearTensors;
using P = BlockPart;

LinearTensors pair(const BlockTensors& tensors, P::Index weight, P::Index bias) {
  return {tensors[weight], tensors[bias]};
}

class BlockLayers final : public Layers {
 public:
  BlockLayers(std::shared_ptr<const Layers> others, const week23::TensorParallel& tp, bool cut_rows,
              bool overlap_scatter)
      : others_(std::move(others)), tp_(tp), cut_rows_(cut_rows), overlap_scatter_(overlap_scatter) {}

  void attention_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const override {
    column(saved.qkv, saved.norm1, pair(values, P::qkv_weight, P::qkv_bias), shape, "attention forward gather");
    block_attention(me, shape, saved);
    row(y, saved.attention, pair(values, P::projection_weight, P::projection_bias), shape,
        cut_rows_ ? "attention forward scatter" : "attention forward");
  }

  void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const override {
    const std::size_t wide = shape.rows() * shape.qkv_width(), own = shape.rows() * shape.own_width();
    const Slice dqkv = scratch.wide.cut(0, wide), dattention = scratch.wide.cut(wide, own);
    row_backward(dattention, pair(gradients, P::projection_weight, P::projection_bias), dy, saved.attention,
                 pair(values, P::projection_weight, P::projection_bias), shape, "attention backward gather");
    block_attention_backward(me, shape, dqkv, dattention, saved);
    column_backward(dx, pair(gradients, P::qkv_weight, P::qkv_bias), dqkv, saved.norm1,
                    pair(values, P::qkv_weight, P::qkv_bias), shape, "attention input gather",
                    cut_rows_ ? "attention backward scatter" : "attention backward");
    for (P::Index part : {P::projection_bias, P::projection_weight, P::qkv_bias, P::qkv_weight}) ready(part);
  }

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    column(saved.up, saved.norm2, pair(values, P::up_weight, P::up_bias), shape, "mlp forward gather");
    block_activation(me, shape, saved);
    if (y.empty()) return;
    row(y, saved.gelu, pair(values, P::down_weight, P::down_bias), shape,
        cut_rows_ ? "mlp forward scatter" : "mlp forward");
  }

  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    row_backward(scratch.wide.cut(0, shape.rows() * shape.mlp_width()), pair(gradients, P::down_weight, P::down_bias),
                 dy, saved.gelu, pair(values, P::down_weight, P::down_bias), shape, "mlp backward gather");
    const Slice dup = block_activation_backward(me, shape, scratch.wide, saved);
    column_backward(dx, pair(gradients, P::up_weight, P::up_bias), dup, saved.norm2,
                    pair(values, P::up_weight, P::up_bias), shape, "mlp input gather",
                    cut_rows_ ? "mlp backward scatter" : "mlp backward");
    for (P::Index part : {P::down_bias, P::down_weight, P::up_bias, P::up_weight}) ready(part);
  }

  void embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const override {
    others_->embed(me, y, tokens, table, positions, sequence);
  }
  void embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                      std::size_t sequence) const override {
    others_->embed_backward(me, dtable, dpositions, dy, tokens, sequence);
  }
  void logits(Rank me, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    others_->logits(me, logits, x, head, rows);
  }
  void logits_backward(Rank me, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    if (overlap_scatter_)
      return week23::column_backward_behind(tp_, dx, {dhead, {}}, dlogits, x, {head, {}}, rows, "head input gather",
                                            "head backward scatter");
    others_->logits_backward(me, dx, dhead, dlogits, x, head, rows);
  }
  void loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale) const override {
    others_->loss(me, loss, logits, targets, factor, gradient_scale);
  }
  void validation_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor) const override {
    others_->validation_loss(me, loss, logits, targets, factor);
  }

 private:
  void column(Slice y, Slice x, const LinearTensors& values, const BlockShape& shape, const char* gather) const {
    if (cut_rows_) return week23::column_forward_rows(tp_, y, x, values, shape.rows(), gather);
    week23::column_forward(tp_, y, x, values, shape.rows());
  }
  void row(Slice y, Slice x, const LinearTensors& values, const BlockShape& shape, const char* place) const {
    if (cut_rows_) return week23::row_forward_rows(tp_, y, x, values, shape.rows(), place);
    week23::row_forward(tp_, y, x, values, shape.rows(), place);
  }
  void row_backward(Slice dx, const LinearTensors& gradients, Slice dy, Slice x, const LinearTensors& values,
                    const BlockShape& shape, const char* gather) const {
    if (cut_rows_) return week23::row_backward_rows(tp_, dx, gradients, dy, x, values, shape.rows(), gather);
    week23::row_backward(tp_, dx, gradients, dy, x, values, shape.rows());
  }
  void column_backward(Slice dx, const LinearTensors& gradients, Slice dy, Slice x, const LinearTensors& values,
                       const BlockShape& shape, const char* gather, const char* place) const {
    if (overlap_scatter_)
      return week23::column_backward_behind(tp_, dx, gradients, dy, x, values, shape.rows(), gather, place);
    if (cut_rows_) return week23::column_backward_rows(tp_, dx, gradients, dy, x, values, shape.rows(), gather, place);
    week23::column_backward(tp_, dx, gradients, dy, x, values, shape.rows(), place);
  }

  std::shared_ptr<const Layers> others_;
  week23::TensorParallel tp_;
  bool cut_rows_, overlap_scatter_;
};

/// Adds this rank's rows of the layer qkv: its heads of q, and its (fewer) heads of k and of v.
void add_qkv(week23::TensorRuns& runs, const GptConfig& config, std::size_t width) {
  const int r = config.tensor.rank, p = config.tensor.ranks;
  const std::size_t kv_heads = config.architecture.key_value_heads(config.heads), head = config.head_size();
  const auto queries = week23::qkv_rows(config.heads, head, r, p), keys = week23::qkv_rows(kv_heads, head, r, p);
  runs.add_matrix({queries[0].first, queries[0].count}, {0, width}, width);
  for (const std::size_t part : {1, 2})
    runs.add_matrix({keys[part].first + (config.heads - kv_heads) * head, keys[part].count}, {0, width}, width);
}

}  // namespace

std::shared_ptr<const Layers> make_layers(const week23::TensorParallel& tp, const GptConfig& config,
                                          bool overlap_scatter) {
  const bool cut_rows = config.tensor.sequence_parallel;
  std::shared_ptr<const Layers> layers = cut_rows ? week23::make_sequence_layers(tp, config.vocabulary)
                                                  : week23::make_tensor_layers(tp, config.vocabulary);
  const bool behind = overlap_scatter && cut_rows && tp.overlap;
  if (config.architecture == Architecture() && !behind) return layers;
  return std::make_shared<BlockLayers>(std::move(layers), tp, cut_rows, behind);
}

std::vector<TensorRun> cut_tensor(const GptConfig& config, const Parameter& own) {
  const auto is = [&own](const char* layer) { return own.name.find(layer) != own.name.npos; };
  const bool in_block = is(".qkv.") || is(".up.") || is(".down.");
  if (config.architecture == Architecture() || !in_block) return week23::cut_tensor(config, own);
  const int r = config.tensor.rank, p = config.tensor.ranks;
  const std::size_t c = config.d_model, mlp = config.mlp_width(), width = own.name.ends_with(".bias") ? 1 : c;
  week23::TensorRuns runs;
  if (is(".qkv.")) {
    add_qkv(runs, config, width);
  } else if (is(".up.")) {
    const ChunkRange rows = week23::column_part(mlp, c, r, p).rows;
    for (std::size_t first = 0; first < config.up_width(); first += mlp)
      runs.add_matrix({first + rows.offset, rows.size}, {0, width}, width);
  } else {
    const week23::LayerPart part = week23::row_part(c, mlp, r, p);
    runs.add_matrix(part.rows, part.columns, mlp);
  }
  return runs.of(own);
}

}  // namespace lockstep::week25
