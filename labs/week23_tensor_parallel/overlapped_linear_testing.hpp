// Shared by the tests of 23.9: the layers of an MLP, and both orders one after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "common/runtime/run.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week23 {

inline std::size_t number(int count) { return static_cast<std::size_t>(count); }

/// Both halves of both layers of an MLP of `channels`, on one rank.
inline std::vector<RankProduct> products_of(std::size_t channels, int ranks) {
  const std::size_t wide = 4 * channels / number(ranks);
  return {{Half::gather, 1, channels, wide}, {Half::scatter, 1, wide, channels}};
}

/// One call of each order in bf16, on every rank: the seconds of 23.5's, and of the ring.
inline Values both_orders(Rank me, const RankProduct& product) {
  const auto slice = [&](std::size_t count) { return me.allocate(count, DType::bf16, Category::buffer); };
  const std::size_t own = product.rows / number(me.size());
  const bool gather = product.half == Half::gather;
  const LinearTensors values{slice(product.in * product.out), {}};
  const Slice x = slice((gather ? own : product.rows) * product.in),
              y = slice((gather ? product.rows : own) * product.out);
  const TensorParallel tp = make_tensor_parallel(me);
  const auto timed = [&](auto layer) {
    const double began = me.now();
    layer(tp, y, x, values, product.rows, "layer");
    return me.now() - began;
  };
  if (gather) return {timed(column_forward_rows), timed(column_forward_ring)};
  return {timed(row_forward_rows), timed(row_forward_ring)};
}

}  // namespace lockstep::week23
