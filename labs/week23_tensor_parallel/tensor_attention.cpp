// Exercise 23.3: attention with its heads split. Read labs/week23_tensor_parallel/tensor_attention.hpp first.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <string>

namespace lockstep::week23 {

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (heads % p != 0)
    usage_error(std::to_string(heads) + " heads do not divide over " + std::to_string(ranks) +
                " ranks: a head is never split");
  todo("23.3a", "heads r·h/p and the following of q, of k and of v: three ranges of rows");
}

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  const std::size_t rows = shape.batch * shape.positions;
  todo("23.3b",
       "y of all heads, on every rank, though a rank computes only its own; `saved` is what the backward needs. "
       "Which of the two layers is column-parallel?");
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  const std::size_t rows = shape.batch * shape.positions;
  todo("23.3b", "the same way back");
}

}  // namespace lockstep::week23
