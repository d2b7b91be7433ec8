// Top-k for the largest elements, int8 for the rest, made of the same parts as exercise 21.9's methods. With eight bits
// a few large elements determine the scale of their whole block; sending them exactly leaves a finer scale to the
// others.
#pragma once

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/compression.hpp"

namespace lockstep::bench {

/// Sums `data` over the group: this rank's k largest elements exactly (sparse_sum), all others with int8 in two steps.
/// Memory: an array as long as `data`, plus that of both methods. There is no error feedback, because rounding is
/// unbiased.
void mixed_all_reduce(Rank me, Slice data, std::size_t k, std::size_t block, Random key);

/// Bytes of both parts, per rank.
double mixed_bytes_sent(const week21::Compression& how, int ranks, double elements);
/// Number of ranks from which the mixed method sends as much as a ring.
double mixed_ranks_to_break_even(const week21::Compression& how);

/// Element `element` of rank `rank`'s gradient, which has few large elements: a part that all ranks share and one of
/// its own, each with Pareto tails, P(|x| > t) = (1 + t)^−3.
float heavy_tailed(int rank, std::size_t element);

}  // namespace lockstep::bench
