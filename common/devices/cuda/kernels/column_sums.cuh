// The second halves of sums that many blocks share: what each block left is added in order, in double.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// sum[0] += factor · Σ partials[i].
void add_partials(const Queue& queue, Array sum, const float* partials, Index count, float factor);

/// Every element of `left`, and of `right` after it, += its column of partials, added over the chunks: rounded once. A
/// chunk of partials has a row as long as both; `right` may be empty.
void add_columns(const Queue& queue, Array left, Array right, const float* partials, Index chunks);

}  // namespace lockstep::kernels
