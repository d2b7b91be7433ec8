// Exclusive prefix sums: one block, four elements per thread and iteration.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

constexpr int kScanThreads = 1024;

/// counts[i] becomes the sum of the elements before it. One block of kScanThreads.
__global__ void scan_kernel(std::int32_t* counts, Index n);

}  // namespace lockstep::kernels
