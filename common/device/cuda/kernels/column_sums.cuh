// The second halves of sums that many blocks share: what each block left is added in order, in double.
#pragma once

#include "common/device/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// sum[0] += factor · Σ partials[i].
void add_partials(const Queue& queue, Array sum, const float* partials, Index count, float factor);

/// target[c] += Σ partials[chunk · stride + c] over the chunks, rounded once, for every element of target.
void add_columns(const Queue& queue, Array target, const float* partials, Index chunks, Index stride);

}  // namespace lockstep::kernels
