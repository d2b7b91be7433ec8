// Second stage of sums shared by many blocks: adds the blocks' partial sums in order, in double.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// sum[0] += factor · Σ partials[i].
void add_partials(const Queue& queue, Array sum, const float* partials, Index count, float factor);

/// Adds to every element of `left`, followed by `right`, its column of partials, summed over the chunks and rounded
/// once. A chunk's row of partials is as long as both together; `right` may be empty.
void add_columns(const Queue& queue, Array left, Array right, const float* partials, Index chunks);

}  // namespace lockstep::kernels
