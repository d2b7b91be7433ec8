#include "common/model/block.hpp"

#include <utility>

namespace lockstep {

BlockActivations allocate_block_activations(Rank me, const BlockShape& shape, DType dtype, Slice probabilities) {
  const std::size_t rows = shape.rows(), narrow = rows * shape.d_model;
  auto values = [&](std::size_t count) { return me.allocate(count, dtype, Category::activation); };
  auto statistics = [&](std::size_t count) { return me.allocate(count, DType::f32, Category::activation); };
  BlockActivations saved;
  saved.input = values(narrow);
  saved.norm1 = values(narrow);
  saved.norm1_statistics = statistics(2 * rows);
  saved.qkv = values(3 * narrow);
  saved.attention = values(narrow);
  if (shape.kind == AttentionKind::flash)
    saved.attention_statistics = statistics(rows * shape.heads);
  else
    saved.probabilities = probabilities.empty() ? values(rows * shape.heads * shape.length) : std::move(probabilities);
  saved.residual = values(narrow);
  saved.norm2 = values(narrow);
  saved.norm2_statistics = statistics(2 * rows);
  saved.up = values(4 * narrow);
  saved.gelu = values(4 * narrow);
  return saved;
}

void linear(Rank me, Slice y, Slice x, Slice weight, Slice bias, std::size_t rows) {
  const std::size_t out = y.size() / rows, in = x.size() / rows;
  matmul(me, matrix(y, rows, out), matrix(x, rows, in), matrix(weight, out, in).t(), Into::overwrite, bias);
}

void linear_backward_input(Rank me, Slice dx, Slice dy, Slice weight, std::size_t rows) {
  const std::size_t out = dy.size() / rows, in = dx.size() / rows;
  matmul(me, matrix(dx, rows, in), matrix(dy, rows, out), matrix(weight, out, in));
}

void linear_backward_weight(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows) {
  const std::size_t out = dy.size() / rows, in = x.size() / rows;
  matmul(me, matrix(dweight, out, in), matrix(dy, rows, out).t(), matrix(x, rows, in), Into::accumulate);
  if (!dbias.empty()) add_rows(me, dbias, matrix(dy, rows, out));
}

void block_attention(Rank me, const BlockShape& shape, BlockActivations& saved) {
  if (shape.kind == AttentionKind::flash)
    return attention(me, saved.attention, saved.attention_statistics, saved.qkv, shape.attention());
  attention_probabilities(me, saved.probabilities, saved.qkv, shape.attention());
  attention_output(me, saved.attention, saved.probabilities, saved.qkv, shape.attention());
}

void block_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved, Slice y) {
  using P = BlockPart;
  const std::size_t rows = shape.rows();
  layer_norm(me, saved.norm1, saved.norm1_statistics, saved.input, values[P::norm1_weight], values[P::norm1_bias]);
  linear(me, saved.qkv, saved.norm1, values[P::qkv_weight], values[P::qkv_bias], rows);
  block_attention(me, shape, saved);
  linear(me, saved.residual, saved.attention, values[P::projection_weight], values[P::projection_bias], rows);
  add(me, saved.residual, saved.input);

  layer_norm(me, saved.norm2, saved.norm2_statistics, saved.residual, values[P::norm2_weight], values[P::norm2_bias]);
  linear(me, saved.up, saved.norm2, values[P::up_weight], values[P::up_bias], rows);
  gelu(me, saved.gelu, saved.up);
  linear(me, y, saved.gelu, values[P::down_weight], values[P::down_bias], rows);
  add(me, y, saved.residual);
}

void block_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch& scratch, Slice dy,
                    const std::function<void(BlockPart::Index)>& ready) {
  using P = BlockPart;
  const std::size_t rows = shape.rows(), narrow = rows * shape.d_model;
  const Slice& gradient = dy;  // of the residual stream: y's, then the middle's, then the input's
  const Slice dnarrow = scratch.narrow.cut(0, narrow);
  const Slice dwide = scratch.wide.cut(0, 4 * narrow);
  const Slice dqkv = scratch.wide.cut(0, 3 * narrow);
  auto layer_ready = [&](P::Index weight, P::Index bias) {
    ready(bias);
    ready(weight);
  };

  linear_backward_weight(me, gradients[P::down_weight], gradients[P::down_bias], gradient, saved.gelu, rows);
  layer_ready(P::down_weight, P::down_bias);
  linear_backward_input(me, dwide, gradient, values[P::down_weight], rows);
  gelu_backward(me, dwide, dwide, saved.up);
  linear_backward_weight(me, gradients[P::up_weight], gradients[P::up_bias], dwide, saved.norm2, rows);
  layer_ready(P::up_weight, P::up_bias);
  linear_backward_input(me, dnarrow, dwide, values[P::up_weight], rows);
  layer_norm_backward(me, gradient, gradients[P::norm2_weight], gradients[P::norm2_bias], dnarrow, saved.residual,
                      values[P::norm2_weight], saved.norm2_statistics, Into::accumulate);
  layer_ready(P::norm2_weight, P::norm2_bias);

  linear_backward_weight(me, gradients[P::projection_weight], gradients[P::projection_bias], gradient, saved.attention,
                         rows);
  layer_ready(P::projection_weight, P::projection_bias);
  linear_backward_input(me, dnarrow, gradient, values[P::projection_weight], rows);
  if (shape.kind == AttentionKind::flash)
    attention_backward(me, dqkv, dnarrow, saved.attention, saved.qkv, saved.attention_statistics, shape.attention());
  else
    attention_probabilities_backward(me, dqkv, dnarrow, saved.attention, saved.probabilities, saved.qkv,
                                     shape.attention());
  linear_backward_weight(me, gradients[P::qkv_weight], gradients[P::qkv_bias], dqkv, saved.norm1, rows);
  layer_ready(P::qkv_weight, P::qkv_bias);
  linear_backward_input(me, dnarrow, dqkv, values[P::qkv_weight], rows);
  layer_norm_backward(me, gradient, gradients[P::norm1_weight], gradients[P::norm1_bias], dnarrow, saved.input,
                      values[P::norm1_weight], saved.norm1_statistics, Into::accumulate);
  layer_ready(P::norm1_weight, P::norm1_bias);
}

}  // namespace lockstep
