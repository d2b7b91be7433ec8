// Exercise 23.2: Megatron's MLP, and the rows of a fused QKV. Read labs/week23_tensor_parallel/tensor_mlp.hpp first.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

#include <string>

namespace lockstep::week23 {

void parallel_mlp_forward(const TensorParallel& tp, const MlpTensors& values, MlpSaved& saved, Slice y,
                          std::size_t rows) {
  todo("23.2a",
       "y of the whole MLP, on every rank, from this rank's hidden units and one sum; `saved` is what the backward "
       "needs. Which of the layers is column-parallel, which row-parallel?");
}

void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows) {
  todo("23.2a",
       "dx on every rank, and the gradients of this rank's shards, with one sum. `wide` is memory for the gradient "
       "of the hidden units; gelu_backward may work in place");
}

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (heads % p != 0)
    usage_error(std::to_string(heads) + " heads do not divide over " + std::to_string(ranks) +
                " ranks: a head is never split");
  todo("23.2b", "heads r·h/p and the following of q, of k and of v: three ranges of rows");
}

}  // namespace lockstep::week23
