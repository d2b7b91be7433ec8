// Exercise 23.1: one linear layer on p ranks. Its weight is sharded, and so is its input or its output; the two ways
// fit together, so that a column-parallel layer can be followed by a row-parallel one with no communication between
// them.
//
// Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism" (arXiv
// 1909.08053), section 3. A layer is y = x·Wᵀ + bias; x: N × in, y: N × out, W: out × in, as in PyTorch. Megatron
// writes y = x·A with A = Wᵀ, and names the two ways after A: the columns of A are the rows of W.
//
//   column-parallel: rows of W sharded, its output features     row-parallel: columns of W sharded, its input features
//   rank r has W_r: out/p × in, bias_r: out/p                    rank r has W_r: out × in/p, the whole bias
//   x whole on every rank, y_r: N × out/p                        x_r: N × in/p, y whole on every rank
#pragma once

#include <string>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::week23 {

/// The group that shares each layer.
struct TensorParallel {
  Rank group;            ///< on the main queue
  Rank comm;             ///< the same group on a queue of its own; used with `overlap`
  bool overlap = false;  ///< f's backward runs on `comm` while main computes the weight's gradient
};
/// Given. Collective over `group`, at set-up.
TensorParallel make_tensor_parallel(Rank group, bool overlap = true);

// Part a: the conjugate operators. Each is the identity in one direction and an all-reduce in the other:
//
//   f, before a column-parallel layer:  forward  nothing         backward  sum of the ranks' dx
//   g, after a row-parallel layer:      forward  sum of the y    backward  nothing
//
// `place` (a literal) names the sum in reports: Scope scope = queue.region(place, bytes). Nothing else is sent: all
// ranks together move 2(p − 1) times the bytes of what they sum.

/// y (N × out) becomes its sum over the ranks, on main.
void g_forward(const TensorParallel& tp, Slice y, const char* place);

/// dx (N × in) becomes its sum over the ranks: on main, and the ticket is empty; or, with tp.overlap (part d), on
/// tp.comm, and dx may only be used after a wait for the ticket.
Ticket f_backward(const TensorParallel& tp, Slice dx, const char* place);

/// This rank's tensors of a layer: values, or gradients. A bias may be empty.
struct LinearTensors {
  Slice weight;
  Slice bias;
};

// Part b. No communication in the forward pass; f's all-reduce in the backward pass.

/// y = x·W_rᵀ + bias_r. y: N × out/p; x: N × in.
void column_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows);
/// dx = Σ over ranks of dy_r·W_r (N × in, the same on every rank); gradients of weight and bias accumulate. The sum of
/// dx begins before the weight's gradient, so that the two can overlap.
void column_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                     const LinearTensors& values, std::size_t rows, const char* place);

// Part c. g's all-reduce in the forward pass; no communication in the backward pass.

/// y = Σ over ranks of x_r·W_rᵀ, plus the bias once. y: N × out, the same on every rank; x: N × in/p.
void row_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                 const char* place);
/// dx_r = dy·W_r (N × in/p); gradients of weight and bias accumulate. The bias's is the same on every rank.
void row_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                  const LinearTensors& values, std::size_t rows);

// Part e. Which part of a serial layer's tensors each rank holds.

/// One rank's part of a weight of out × in and its bias of out elements: rows and columns of the weight, elements of
/// the bias.
struct LayerPart {
  ChunkRange rows;
  ChunkRange columns;
  ChunkRange bias;
};

/// Given: the `rank`-th of `ranks` equal parts. Features that do not divide by `ranks` are a USAGE error that names
/// both numbers.
inline ChunkRange equal_part(std::size_t features, int rank, int ranks, Location where = Location::current()) {
  if (rank < 0 || rank >= ranks)
    usage_error("rank " + std::to_string(rank) + " is none of " + std::to_string(ranks) +
                    " ranks: the rank comes first, then how many there are",
                where);
  if (features % static_cast<std::size_t>(ranks) != 0)
    usage_error(std::to_string(features) +
                    (features == 1 ? " feature does not divide over " : " features do not divide over ") +
                    std::to_string(ranks) + " ranks",
                where);
  return chunk_range(features, rank, ranks);
}

/// For a column-parallel layer, and for a row-parallel one: shards are equal parts, in rank order; the rest is whole.
/// The sharded features must divide by `ranks` (else equal_part's error), the others need not. With --mine the trainer
/// shards up, down and the projection of every block with these functions.
LayerPart column_part(std::size_t out, std::size_t in, int rank, int ranks);
LayerPart row_part(std::size_t out, std::size_t in, int rank, int ranks);

}  // namespace lockstep::week23
