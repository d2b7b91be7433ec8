// Exercise 23.3: attention with its heads split. Read labs/week23_tensor_parallel/tensor_attention.hpp first.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <string>

namespace lockstep::week23 {

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (heads % p != 0)
    usage_error(std::to_string(heads) + " heads do not divide over " + std::to_string(ranks) +
                " ranks: a head is never split");
  // lab 23.3a begin: heads r·h/p and the following of q, of k and of v: three ranges of rows
  const std::size_t own = heads / p * head_size, all = heads * head_size;
  return {RowRange{r * own, own}, RowRange{all + r * own, own}, RowRange{2 * all + r * own, own}};
  // lab end
}

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  const std::size_t rows = shape.batch * shape.positions;
  // lab 23.3b begin: y of all heads, on every rank, though a rank computes only its own; `saved` is what the backward
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
  // lab 23.3b begin: the same way back
  row_backward(tp, dattention, gradients.projection, dy, saved.attention, values.projection, rows);
  attention_backward(tp.group, dqkv, dattention, saved.attention, saved.qkv, saved.statistics, shape);
  column_backward(tp, dx, gradients.qkv, dqkv, saved.input, values.qkv, rows, "attention backward");
  // lab end
}

}  // namespace lockstep::week23
