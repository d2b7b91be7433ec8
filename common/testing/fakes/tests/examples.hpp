// Kernels for the tests of the fake GPU: correct ones, and one with each mistake that it must find.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace lockstep::examples {

/// sums[block] = the sum of the block's 256 values; `values` holds `count`, the rest counts as 0.
void block_sums(const float* values, int count, float* sums, int blocks, cudaStream_t stream);

/// c = a·b with a 16×16 and b 16×8, row by row.
void tiny_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, cudaStream_t stream);

/// y[i] = x[count − 1 − i] through dynamic shared memory, for one block of `count` ≤ 1024.
void reverse(const float* x, float* y, int count, cudaStream_t stream);

/// counts[i % 4] += 1 for each i < count.
void count_modulo_4(int* counts, int count, cudaStream_t stream);

/// y[i] = x[i] + 1; writes beyond the end if `past` > 0.
void add_one(const float* x, float* y, int count, int past, cudaStream_t stream);

// Mistakes.
void barrier_in_half(float* y, cudaStream_t stream);
void shuffle_without_lanes(float* y, cudaStream_t stream);
void two_barriers(float* y, cudaStream_t stream);
void unwritten_shared(float* y, cudaStream_t stream);
void missing_barrier(float* y, cudaStream_t stream);
void past_shared(float* y, cudaStream_t stream);
void misaligned_load(float* y, cudaStream_t stream);
void misaligned_copy(float* y, cudaStream_t stream);
/// y[0] = the index of the block that runs last of 50.
void last_block(float* y, cudaStream_t stream);
/// y[i] = e^x[i] by the GPU's fast function, and 1 / x[i] by its fast division, for one block.
void short_functions(const float* x, float* exponentials, float* reciprocals, int count, cudaStream_t stream);

}  // namespace lockstep::examples
