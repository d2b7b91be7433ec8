// Exercise 23.3: attention with its heads split. Read labs/week23_tensor_parallel/tensor_attention.hpp first.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

namespace lockstep::week23 {

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  const std::size_t rows = shape.batch * shape.positions;
  // lab 23.3 begin: y of all heads, on every rank, though a rank computes only its own; `saved` is what the backward
  // needs. Which of the two layers is column-parallel?
  column_forward(tp, saved.qkv, saved.input, values.qkv, rows);
  attention(tp.group, saved.attention, saved.statistics, saved.qkv, shape);
  row_forward(tp, y, saved.attention, values.projection, rows, "attention forward");
  // lab end
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  const std::size_t rows = shape.batch * shape.positions;
  // lab 23.3 begin: the same way back
  row_backward(tp, dattention, gradients.projection, dy, saved.attention, values.projection, rows);
  attention_backward(tp.group, dqkv, dattention, saved.attention, saved.qkv, saved.statistics, shape);
  column_backward(tp, dx, gradients.qkv, dqkv, saved.input, values.qkv, rows, "attention backward");
  // lab end
}

}  // namespace lockstep::week23
