// Exercise 23.2: Megatron's MLP. Read labs/week23_tensor_parallel/tensor_mlp.hpp first.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

void parallel_mlp_forward(const TensorParallel& tp, const MlpTensors& values, MlpSaved& saved, Slice y,
                          std::size_t rows) {
  // lab 23.2 begin: y of the whole MLP, on every rank, from this rank's hidden units and one sum; `saved` is what the
  // backward needs. Which of the layers is column-parallel, which row-parallel?
  column_forward(tp, saved.up, saved.input, values.up, rows);
  gelu(tp.group, saved.gelu, saved.up);
  row_forward(tp, y, saved.gelu, values.down, rows, "mlp forward");
  // lab end
}

void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows) {
  // lab 23.2 begin: dx on every rank, and the gradients of this rank's shards, with one sum. `wide` is memory for the
  // gradient of the hidden units; gelu_backward may work in place
  row_backward(tp, wide, gradients.down, dy, saved.gelu, values.down, rows);
  gelu_backward(tp.group, wide, wide, saved.up);
  column_backward(tp, dx, gradients.up, wide, saved.input, values.up, rows, "mlp backward");
  // lab end
}

}  // namespace lockstep::week23
