// Launchers of attention in blocks. As in operations.hpp, shapes have been checked.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

struct AttentionBlockSize {
  std::size_t batch, queries, keys, heads, kv_heads, head_size, first_query, first_key;
};

/// y, q, dy, dq: B × queries × h × d; kv, dkv: B × keys × 2 × kv_heads × d; log_sums: B × h × queries. The forward pass
/// has no gradients.
struct BlockArrays {
  Array y, log_sums, q, kv, dy, dq, dkv;
};

/// Merges this block into y and log_sums.
void attention_block(const Queue& queue, const BlockArrays& arrays, const AttentionBlockSize& size);
/// Adds to dq and dkv, in a fixed order: reruns are bit-identical.
void attention_block_backward(const Queue& queue, const BlockArrays& arrays, const AttentionBlockSize& size);

}  // namespace lockstep::kernels
