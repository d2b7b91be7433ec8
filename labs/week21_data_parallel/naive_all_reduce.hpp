// Exercise 21.1: the naive all-reduce, through rank 0. What PyTorch's DataParallel does with gradients, and why rank 0
// becomes the bottleneck.
#pragma once

#include "common/rank.hpp"

namespace lockstep::week21 {

/// Sums `data` element by element over all ranks; afterwards every rank holds the sum. Same size and dtype on every
/// rank: f32, a 16-bit type or i32; any size, also 0; any p, also 1.
///
/// Rank 0 gathers, adds and sends back. Bytes: the others send and receive n; rank 0 sends (p − 1)·n and receives
/// (p − 1)·n, so 2(p − 1)·n go through it and the time grows with p. Memory: rank 0 holds a scratch buffer of n bytes
/// besides its array; the others hold nothing more.
void naive_all_reduce(Rank me, Slice data);

}  // namespace lockstep::week21
