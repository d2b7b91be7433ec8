#include "common/gpt/model/layers.hpp"

namespace lockstep {

namespace {

void layer_ready(const BlockPartReady& ready, BlockPart::Index weight, BlockPart::Index bias) {
  ready(bias);
  ready(weight);
}

}  // namespace

void Layers::attention_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                               Slice y) const {
  using P = BlockPart;
  const std::size_t rows = shape.rows();
  linear(me, saved.qkv, saved.norm1, values[P::qkv_weight], values[P::qkv_bias], rows);
  block_attention(me, shape, saved);
  linear(me, y, saved.attention, values[P::projection_weight], values[P::projection_bias], rows);
}

void Layers::attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values,
                                const BlockTensors& gradients, const BlockActivations& saved, BackwardScratch& scratch,
                                Slice dx, Slice dy, const BlockPartReady& ready) const {
  using P = BlockPart;
  const std::size_t rows = shape.rows();
  const Slice dqkv = scratch.wide.cut(0, rows * shape.qkv_width());
  weight_gradient(me, gradients[P::projection_weight], gradients[P::projection_bias], dy, saved.attention, rows);
  layer_ready(ready, P::projection_weight, P::projection_bias);
  linear_backward_input(me, dx, dy, values[P::projection_weight], rows);
  block_attention_backward(me, shape, dqkv, dx, saved);
  weight_gradient(me, gradients[P::qkv_weight], gradients[P::qkv_bias], dqkv, saved.norm1, rows);
  layer_ready(ready, P::qkv_weight, P::qkv_bias);
  linear_backward_input(me, dx, dqkv, values[P::qkv_weight], rows);
}

void Layers::mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                         Slice y) const {
  using P = BlockPart;
  const std::size_t rows = shape.rows();
  if (shape.architecture.experts > 0)
    usage_error(
        "only ./lab train, with --model tiny-moe, runs a mixture of experts; ./lab plan and memory know others");
  if (shape.architecture.mlp == MlpKind::gelu) {
    linear_gelu(me, saved.gelu, saved.up, saved.norm2, values[P::up_weight], values[P::up_bias], rows);
  } else {
    linear(me, saved.up, saved.norm2, values[P::up_weight], values[P::up_bias], rows);
    block_activation(me, shape, saved);
  }
  if (y.empty()) return;
  linear(me, y, saved.gelu, values[P::down_weight], values[P::down_bias], rows);
}

void Layers::mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                          const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                          const BlockPartReady& ready) const {
  using P = BlockPart;
  const std::size_t rows = shape.rows();
  Slice wide = scratch.wide.cut(0, rows * shape.mlp_width());
  weight_gradient(me, gradients[P::down_weight], gradients[P::down_bias], dy, saved.gelu, rows);
  layer_ready(ready, P::down_weight, P::down_bias);
  if (shape.architecture.mlp == MlpKind::gelu) {
    linear_gelu_backward_input(me, wide, dy, values[P::down_weight], saved.up, rows);
  } else {
    linear_backward_input(me, wide, dy, values[P::down_weight], rows);
    wide = block_activation_backward(me, shape, scratch.wide, saved);
  }
  weight_gradient(me, gradients[P::up_weight], gradients[P::up_bias], wide, saved.norm2, rows);
  layer_ready(ready, P::up_weight, P::up_bias);
  linear_backward_input(me, dx, wide, values[P::up_weight], rows);
}

void Layers::embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const {
  embedding(me, y, tokens, table, positions, sequence);
}

void Layers::embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                            std::size_t sequence) const {
  embedding_backward(me, dtable, dpositions, dy, tokens, sequence);
}

void Layers::logits(Rank me, Slice logits, Slice x, Slice head, std::size_t rows) const {
  linear(me, logits, x, head, {}, rows);
}

void Layers::logits_backward(Rank me, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                             std::size_t rows) const {
  linear_backward_weight(me, dhead, {}, dlogits, x, rows);
  linear_backward_input(me, dx, dlogits, head, rows);
}

void Layers::weight_gradient(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows) const {
  linear_backward_weight(me, dweight, dbias, dy, x, rows);
}

void Layers::loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale) const {
  cross_entropy(me, loss, logits, targets, factor, gradient_scale);
}

void Layers::validation_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor) const {
  cross_entropy_loss(me, loss, logits, targets, factor);
}

}  // namespace lockstep
