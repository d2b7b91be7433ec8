// Exercise 23.2: Megatron's MLP. y = gelu(x·Upᵀ + b)·Downᵀ + b', the first layer column-parallel, the second
// row-parallel: the first layer's output on a rank is the input that the second needs there, so nothing is sent between
// them. One all-reduce forward, one backward (arXiv 1909.08053, section 3, figure 3a). And which rows of attention's
// fused weight of q, k and v belong to a rank.
#pragma once

#include <array>

#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

// Part a: the MLP.

/// This rank's tensors of an MLP of hidden width H: up H/p × C with bias H/p; down C × H/p with the whole bias C.
struct MlpTensors {
  LinearTensors up;
  LinearTensors down;
};

/// Saved by the forward pass for the backward.
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
/// in the region "mlp backward"; with tp.overlap it overlaps with the gradient of up's weight.
void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows);

// Part b: a fused weight, of which a rank's rows are not neighbours. 23.3 uses it.

/// Rows [first, first + count) of a weight, and the same elements of its bias.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The fused weight of a serial attention layer is 3C × C: first the rows of q, of head 0, 1, …, then those of k, then
/// those of v. The rows that rank `rank` of `ranks` holds, in its own order: its heads' q, k and v, each neighbouring
/// heads. Heads that do not divide by `ranks` are a USAGE error that names both numbers.
std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks);

}  // namespace lockstep::week23
