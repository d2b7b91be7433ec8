#include "common/gpt/model/block.hpp"

#include <utility>

#include "common/gpt/model/layers.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep {

std::vector<BlockPart::Index> block_parts(const Architecture& architecture) {
  std::vector<BlockPart::Index> parts;
  for (std::size_t i = 0; i < BlockPart::router_weight; ++i) {
    const bool norm = i == BlockPart::norm1_bias || i == BlockPart::norm2_bias, bias = i % 2 == 1;
    if (architecture.experts > 0 && i == BlockPart::up_weight) parts.push_back(BlockPart::router_weight);
    if (architecture.experts > 0 && i > BlockPart::up_weight && bias) continue;
    if (norm ? architecture.norm == NormKind::layer_norm : architecture.biases || !bias)
      parts.push_back(static_cast<BlockPart::Index>(i));
  }
  return parts;
}

BlockActivations allocate_block_activations(Rank me, const BlockShape& shape, DType dtype, Slice probabilities,
                                            Location where) {
  const std::size_t rows = shape.rows(), narrow = shape.norm_rows() * shape.d_model;
  const std::size_t own = rows * shape.own_width();
  auto values = [&](std::size_t count) { return me.allocate(count, dtype, Category::activation, where); };
  auto statistics = [&](std::size_t count) { return me.allocate(count, DType::f32, Category::activation, where); };
  BlockActivations saved;
  saved.input = values(narrow);
  saved.norm1 = values(narrow);
  saved.norm1_statistics = statistics(shape.statistics());
  saved.qkv = values(rows * shape.qkv_width());
  saved.attention = values(own);
  if (shape.kind == AttentionKind::flash)
    saved.attention_statistics = statistics(rows * shape.attention().heads);
  else
    saved.probabilities =
        probabilities.empty() ? values(rows * shape.attention().heads * shape.length) : std::move(probabilities);
  saved.residual = values(narrow);
  saved.norm2 = values(narrow);
  saved.norm2_statistics = statistics(shape.statistics());
  if (shape.architecture.experts > 0) return saved;
  saved.up = values(rows * shape.up_width());
  saved.gelu = values(rows * shape.mlp_width());
  return saved;
}

void linear(Rank me, Slice y, Slice x, Slice weight, Slice bias, std::size_t rows, Location where) {
  const std::size_t out = y.size() / rows, in = x.size() / rows;
  matmul(me, matrix(y, rows, out), matrix(x, rows, in), matrix(weight, out, in).t(), Into::overwrite, bias, where);
}

void linear_backward_input(Rank me, Slice dx, Slice dy, Slice weight, std::size_t rows, Location where) {
  const std::size_t out = dy.size() / rows, in = dx.size() / rows;
  matmul(me, matrix(dx, rows, in), matrix(dy, rows, out), matrix(weight, out, in), Into::overwrite, {}, where);
}

void linear_gelu(Rank me, Slice y, Slice x, Slice in, Slice weight, Slice bias, std::size_t rows, Location where) {
  const std::size_t width = x.size() / rows, depth = in.size() / rows;
  matmul_gelu(me, y, matrix(x, rows, width), matrix(in, rows, depth), matrix(weight, width, depth).t(), bias, where);
}

void linear_gelu_backward_input(Rank me, Slice dx, Slice dy, Slice weight, Slice x, std::size_t rows, Location where) {
  const std::size_t out = dy.size() / rows, in = dx.size() / rows;
  matmul_gelu_backward(me, matrix(dx, rows, in), matrix(dy, rows, out), matrix(weight, out, in), x, where);
}

void linear_backward_weight(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows, Location where) {
  const std::size_t out = dy.size() / rows, in = x.size() / rows;
  if (!dbias.empty() && dbias.size() != out)
    usage_error("linear_backward_weight: dbias has " + counted(dbias.size(), "element") + ", and a row of dy has " +
                    std::to_string(out) + ": dy comes before x",
                where);
  matmul(me, matrix(dweight, out, in), matrix(dy, rows, out).t(), matrix(x, rows, in), Into::accumulate, {}, where);
  if (!dbias.empty()) add_rows(me, dbias, matrix(dy, rows, out), where);
}

void block_norm(Rank me, const BlockShape& shape, Slice y, Slice statistics, Slice x, Slice weight, Slice bias,
                Location where) {
  if (shape.architecture.norm == NormKind::rms_norm) return rms_norm(me, y, statistics, x, weight, where);
  layer_norm(me, y, statistics, x, weight, bias, where);
}

void block_norm_backward(Rank me, const BlockShape& shape, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x,
                         Slice weight, Slice statistics, Into into, Location where) {
  if (shape.architecture.norm == NormKind::rms_norm)
    return rms_norm_backward(me, dx, dweight, dy, x, weight, statistics, into, where);
  layer_norm_backward(me, dx, dweight, dbias, dy, x, weight, statistics, into, where);
}

namespace {

void turn(Rank me, const BlockShape& shape, Slice qkv, Turn way, Location where) {
  if (shape.architecture.positions == PositionKind::rotary)
    rotate_positions(me, std::move(qkv), shape.attention(), shape.architecture.rope_base, way, where);
}

}  // namespace

void block_attention(Rank me, const BlockShape& shape, BlockActivations& saved, Location where) {
  turn(me, shape, saved.qkv, Turn::forward, where);
  if (shape.kind == AttentionKind::flash)
    return attention(me, saved.attention, saved.attention_statistics, saved.qkv, shape.attention(), where);
  attention_probabilities(me, saved.probabilities, saved.qkv, shape.attention(), where);
  attention_output(me, saved.attention, saved.probabilities, saved.qkv, shape.attention(), where);
}

void block_attention_backward(Rank me, const BlockShape& shape, Slice dqkv, Slice dattention,
                              const BlockActivations& saved, Location where) {
  if (shape.kind == AttentionKind::flash)
    attention_backward(me, dqkv, dattention, saved.attention, saved.qkv, saved.attention_statistics, shape.attention(),
                       where);
  else
    attention_probabilities_backward(me, dqkv, dattention, saved.attention, saved.probabilities, saved.qkv,
                                     shape.attention(), where);
  turn(me, shape, dqkv, Turn::backward, where);
}

void block_activation(Rank me, const BlockShape& shape, BlockActivations& saved, Location where) {
  if (shape.architecture.mlp == MlpKind::gelu) return gelu(me, saved.gelu, saved.up, where);
  swiglu(me, saved.gelu, saved.up, shape.mlp_width(), where);
}

Slice block_activation_backward(Rank me, const BlockShape& shape, const Slice& wide, const BlockActivations& saved,
                                Location where) {
  const std::size_t width = shape.rows() * shape.mlp_width();
  const Slice dgelu = wide.cut(0, width);
  if (shape.architecture.mlp == MlpKind::gelu) {
    gelu_backward(me, dgelu, dgelu, saved.up, where);
    return dgelu;
  }
  const Slice dup = wide.cut(width, 2 * width);
  swiglu_backward(me, dup, dgelu, saved.up, shape.mlp_width(), where);
  return dup;
}

void block_forward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                   BlockActivations& saved, Slice y, const BlockDropout& drop) {
  using P = BlockPart;
  block_norm(me, shape, saved.norm1, saved.norm1_statistics, saved.input, values[P::norm1_weight],
             values[P::norm1_bias]);
  layers.attention_forward(me, shape, values, saved, saved.residual);
  if (drop) drop(Dropped::attention, saved.residual, saved.residual);
  add(me, saved.residual, saved.input);
  block_norm(me, shape, saved.norm2, saved.norm2_statistics, saved.residual, values[P::norm2_weight],
             values[P::norm2_bias]);
  layers.mlp_forward(me, shape, values, saved, y);
  if (y.empty()) return;
  if (drop) drop(Dropped::mlp, y, y);
  add(me, y, saved.residual);
}

void block_backward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                    const BlockTensors& gradients, const BlockActivations& saved, BackwardScratch& scratch, Slice dy,
                    const BlockPartReady& ready, const BlockDropout& drop) {
  using P = BlockPart;
  const Slice& gradient = dy;  // gradient of the residual stream: at y, then at the middle, then at the input
  const Slice output = drop ? me.allocate(dy.size(), dy.dtype(), Category::activation) : dy;  // of a layer's
  const Slice dx = scratch.narrow.cut(0, dy.size());
  const auto norm_ready = [&](P::Index weight, P::Index bias) {
    ready(bias);
    ready(weight);
  };
  if (drop) drop(Dropped::mlp, output, gradient);
  layers.mlp_backward(me, shape, values, gradients, saved, scratch, dx, output, ready);
  block_norm_backward(me, shape, gradient, gradients[P::norm2_weight], gradients[P::norm2_bias], dx, saved.residual,
                      values[P::norm2_weight], saved.norm2_statistics, Into::accumulate);
  norm_ready(P::norm2_weight, P::norm2_bias);
  if (drop) drop(Dropped::attention, output, gradient);
  layers.attention_backward(me, shape, values, gradients, saved, scratch, dx, output, ready);
  block_norm_backward(me, shape, gradient, gradients[P::norm1_weight], gradients[P::norm1_bias], dx, saved.input,
                      values[P::norm1_weight], saved.norm1_statistics, Into::accumulate);
  norm_ready(P::norm1_weight, P::norm1_bias);
}

}  // namespace lockstep
