// Exercise 23.3: attention with its heads split over the ranks. Heads are independent, so each rank can compute h/p of
// them alone: QKV is column-parallel, its rows those of 23.2b, so that a head stays whole; the projection is
// row-parallel. One all-reduce forward, one backward (arXiv 1909.08053, section 3, figure 3b).
#pragma once

#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

/// This rank's tensors: qkv 3C/p × C with bias 3C/p, the rows of its heads' q, then k, then v; projection C × C/p with
/// the whole bias C.
struct AttentionTensors {
  LinearTensors qkv;
  LinearTensors projection;
};

/// Saved by the forward pass for the backward.
struct AttentionSaved {
  Slice input;       ///< N × C, whole: given
  Slice qkv;         ///< N × 3C/p
  Slice attention;   ///< N × C/p
  Slice statistics;  ///< B × h/p × T f32
};

/// y = projection(attention(qkv(saved.input))), N × C, whole; fills the rest of `saved`. `shape` is this rank's: its
/// heads are h/p. One all-reduce, in the region "attention forward", of N·C elements.
void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y);

/// dx (N × C, whole) from dy (N × C, whole), which is not changed, nor is `saved`; gradients of parameters accumulate.
/// Scratch: `dattention` N × C/p, `dqkv` N × 3C/p; nothing else is allocated, in either direction, except by an
/// all-reduce. One all-reduce, in the region "attention backward"; with tp.overlap it overlaps with the gradient of
/// qkv's weight.
void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy);

}  // namespace lockstep::week23
