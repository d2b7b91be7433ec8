// Exercise 23.3: attention with its heads split. Read labs/week23_tensor_parallel/tensor_attention.hpp first.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

namespace lockstep::week23 {

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  const std::size_t rows = shape.batch * shape.positions;
  todo("23.3",
       "y of all heads, on every rank, though a rank computes only its own; `saved` is what the backward needs. "
       "Which of the two layers is column-parallel?");
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  const std::size_t rows = shape.batch * shape.positions;
  todo("23.3", "the same way back");
}

}  // namespace lockstep::week23
