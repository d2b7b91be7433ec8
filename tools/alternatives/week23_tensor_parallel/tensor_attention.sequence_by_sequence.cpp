// 23.3 with one call of the attention for each sequence.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

namespace lockstep::week23 {
namespace {

/// Sequence `b` of an array of a batch.
Slice sequence(const Slice& array, std::size_t b, const AttentionShape& shape) {
  const std::size_t size = array.size() / shape.batch;
  return array.cut(b * size, size);
}

}  // namespace

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  AttentionShape one = shape;
  one.batch = 1;
  for (std::size_t b = 0; b < shape.batch; ++b) {
    const Slice qkv = sequence(saved.qkv, b, shape);
    column_forward(tp, qkv, sequence(saved.input, b, shape), values.qkv, shape.positions);
    attention(tp.group, sequence(saved.attention, b, shape), sequence(saved.statistics, b, shape), qkv, one);
  }
  row_forward(tp, y, saved.attention, values.projection, shape.batch * shape.positions, "attention forward");
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  AttentionShape one = shape;
  one.batch = 1;
  for (std::size_t b = shape.batch; b-- > 0;) {
    const Slice dheads = sequence(dattention, b, shape), heads = sequence(saved.attention, b, shape);
    row_backward(tp, dheads, gradients.projection, sequence(dy, b, shape), heads, values.projection, shape.positions);
    attention_backward(tp.group, sequence(dqkv, b, shape), dheads, heads, sequence(saved.qkv, b, shape),
                       sequence(saved.statistics, b, shape), one);
  }
  column_backward(tp, dx, gradients.qkv, dqkv, saved.input, values.qkv, shape.batch * shape.positions,
                  "attention backward");
}

}  // namespace lockstep::week23
