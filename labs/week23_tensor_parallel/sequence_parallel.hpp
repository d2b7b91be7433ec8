// Exercise 23.5 (extra): sequence parallelism. Between the tensor-parallel parts every rank of 23.4 keeps the same N ×
// C rows and works on all of them. Here each keeps N/p rows for norms and residuals: an all-reduce is a reduce-scatter
// and an all-gather, and there is work to do between the two.
//
// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198), section 4.2:
// the same bytes forward, and activations of sbh·34/t instead of sbh(10 + 24/t). Only N/p rows of a layer's input are
// kept for the backward pass, which gathers them again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

// Part a. `whole` is N × C on every rank, `own` rows chunk(whole, rank, p) of it: N divides by p. Each in a region of
// the name `place`, of whole.bytes().

/// `whole` = all ranks' rows, in order; `own` is not changed: f forward, and g backward.
void gather_rows(Rank group, Slice whole, Slice own, const char* place);
/// `own` = this rank's rows of the sum of all ranks' `whole`, which is overwritten: g forward, and f backward.
void scatter_rows(Rank group, Slice own, Slice whole, const char* place);

/// Given: memory for whole rows, of what each rank has `own` of.
inline Slice whole_rows(const TensorParallel& tp, const Slice& own, Category category = Category::buffer,
                        Location where = Location::current()) {
  Rank me = tp.group;
  return me.allocate(own.size() * static_cast<std::size_t>(me.size()), own.dtype(), category, where);
}

// Part b. Linear layers between sharded rows. They allocate scratch for whole rows (gathered ones, and those to
// scatter) and free it on return. The two that only gather before they compute are given.

/// Given: y_r (N × out/p) = all rows of x · W_rᵀ + bias_r; x: N/p × in.
inline void column_forward_rows(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values,
                                std::size_t rows, const char* place) {
  Slice whole = whole_rows(tp, x);
  gather_rows(tp.group, whole, x, place);
  linear(tp.group, y, whole, values.weight, values.bias, rows);
}
/// Given: dx_r (N × in/p) from dy (N/p × out) of row_forward_rows; gradients accumulate.
inline void row_backward_rows(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                              const LinearTensors& values, std::size_t rows, const char* place) {
  Slice whole = whole_rows(tp, dy);
  gather_rows(tp.group, whole, dy, place);
  linear_backward_input(tp.group, dx, whole, values.weight, rows);
  linear_backward_weight(tp.group, gradients.weight, gradients.bias, whole, x, rows);
}

/// dx (N/p × in) from dy (N × out/p); gradients accumulate. x is gathered once more: with tp.overlap on tp.comm, while
/// main computes its part of dx. Places: `gather` and `scatter`.
void column_backward_rows(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                          const LinearTensors& values, std::size_t rows, const char* gather, const char* scatter);
/// y (N/p × out) = this rank's rows of Σ x_r·W_rᵀ, plus the bias; x: N × in/p.
void row_forward_rows(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place);

// Part c. Each rank has seen N/p rows in its norms, so it has a part of their gradients.

/// Sums the gradients of all norms over the ranks: one all-reduce of all of them, in the region "norm gradients".
void sum_norm_gradients(const TensorParallel& tp, const std::vector<Slice>& norms);

/// Given: the gradients of the norms of a whole model.
inline std::vector<Slice> norm_gradients(const Parameters& parameters) {
  std::vector<Slice> norms;
  for (std::size_t i = 0; i < parameters.list.size(); ++i)
    if (parameters.list[i].name.find("norm") != std::string::npos) norms.push_back(parameters.gradient(i));
  return norms;
}

/// Given: the layers of a model with tensor = {rank, size, sequence_parallel = true}.
std::shared_ptr<const Layers> make_sequence_layers(const TensorParallel& tp, std::size_t vocabulary);

}  // namespace lockstep::week23
