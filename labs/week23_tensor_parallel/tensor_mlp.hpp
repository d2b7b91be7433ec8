// Exercise 23.2: Megatron's MLP. y = gelu(x·Upᵀ + b)·Downᵀ + b', the first layer column-parallel, the second
// row-parallel: the first layer's output on a rank is the input that the second needs there, so nothing is sent between
// them. One all-reduce forward, one backward (arXiv 1909.08053, section 3, figure 3a).
#pragma once

#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

/// This rank's tensors of an MLP of hidden width H: up H/p × C with bias H/p; down C × H/p with the whole bias C.
struct MlpTensors {
  LinearTensors up;
  LinearTensors down;
};

/// What the forward pass saves for the backward.
struct MlpSaved {
  Slice input;  ///< N × C, whole: given
  Slice up;     ///< N × H/p: before the GELU
  Slice gelu;   ///< N × H/p
};

/// y = MLP(saved.input), N × C, whole; fills saved.up and saved.gelu. One all-reduce, in the region "mlp forward", of
/// N·C elements.
void parallel_mlp_forward(const TensorParallel& tp, const MlpTensors& values, MlpSaved& saved, Slice y,
                          std::size_t rows);

/// dx (N × C, whole) from dy (N × C, whole), which is not changed, nor is `saved`; gradients of parameters accumulate.
/// `wide` is scratch, N × H/p: nothing else is allocated, in either direction, except by an all-reduce. One all-reduce,
/// in the region "mlp backward"; with tp.overlap it runs beside the gradient of up's weight.
void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows);

}  // namespace lockstep::week23
