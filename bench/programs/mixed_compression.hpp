// Top-k of the largest, int8 for the rest: beside exercise 21.9's methods, made of the same parts. Few large elements
// set the scale of their whole block in eight bits; sent exactly, they leave a finer one to the others.
#pragma once

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/compression.hpp"

namespace lockstep::bench {

/// Sums `data` over the group: this rank's k largest elements as they are (sparse_sum), all others in int8 in two
/// steps. Memory: an array as long as `data` beside what these two take. Nothing is owed: rounding is right on average.
void mixed_all_reduce(Rank me, Slice data, std::size_t k, std::size_t block, Random key);

/// The bytes of both, per rank.
double mixed_bytes_sent(const week21::Compression& how, int ranks, double elements);
/// From how many ranks on that is as much as a ring sends.
double mixed_ranks_to_break_even(const week21::Compression& how);

/// Element `element` of a gradient with few large elements, of rank `rank`: a part that all ranks share and one of its
/// own, each with Pareto's tails, P(|x| > t) = (1 + t)^−3.
float heavy_tailed(int rank, std::size_t element);

}  // namespace lockstep::bench
