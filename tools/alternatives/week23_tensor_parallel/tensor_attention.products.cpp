// 23.3 from the serial layer's products, and f and g alone of 23.1. All gradients of weights come last.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  Rank main = tp.group;
  const std::size_t rows = shape.batch * shape.positions;
  linear(main, saved.qkv, saved.input, values.qkv.weight, values.qkv.bias, rows);
  attention(main, saved.attention, saved.statistics, saved.qkv, shape);
  linear(main, y, saved.attention, values.projection.weight, main.rank() == 0 ? values.projection.bias : Slice(), rows);
  g_forward(tp, y, "attention forward");
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  Rank main = tp.group;
  const std::size_t rows = shape.batch * shape.positions;
  linear_backward_input(main, dattention, dy, values.projection.weight, rows);
  attention_backward(main, dqkv, dattention, saved.attention, saved.qkv, saved.statistics, shape);
  linear_backward_input(main, dx, dqkv, values.qkv.weight, rows);
  const Ticket summed = f_backward(tp, dx, "attention backward");
  linear_backward_weight(main, gradients.qkv.weight, gradients.qkv.bias, dqkv, saved.input, rows);
  linear_backward_weight(main, gradients.projection.weight, gradients.projection.bias, dy, saved.attention, rows);
  main.wait(summed);
}

}  // namespace lockstep::week23
