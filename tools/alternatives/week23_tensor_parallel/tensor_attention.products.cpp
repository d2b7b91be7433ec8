// 23.3 from the serial layer's products, and f and g alone of 23.1. All gradients of weights come last.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <string>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  const auto divided = std::div(static_cast<long>(heads), static_cast<long>(ranks));
  if (divided.rem != 0) {
    const std::string all = std::to_string(heads) + " heads", places = std::to_string(ranks) + " ranks";
    usage_error(all + " do not fit on " + places);
  }
  const RowRange q{static_cast<std::size_t>(divided.quot * rank) * head_size,
                   static_cast<std::size_t>(divided.quot) * head_size};
  const std::size_t width = heads * head_size;
  return {q, {width + q.first, q.count}, {width + width + q.first, q.count}};
}

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
