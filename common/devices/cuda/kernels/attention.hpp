// Launchers of causal attention, as those of operations.hpp: shapes have been checked.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

struct AttentionSize {
  std::size_t batch, positions, heads, head_size;  // B, T, h, d
};

/// y: B × T × h × d; log_sums: B × h × T; qkv: B × T × 3 × h × d. On tensor cores where the type has 16 bits, d is a
/// multiple of 8 up to 128 and pointers are aligned to 16 bytes, and beyond d = 64 where the GPU has the shared memory;
/// all else by plain loops.
void attention(const Queue& queue, Array y, Array log_sums, Array qkv, AttentionSize size);
/// dqkv is overwritten. Sums are in a fixed order: reruns give the same bits.
void attention_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array qkv, Array log_sums,
                        AttentionSize size);

/// The same with probabilities in memory, B × h × T × T, by plain loops.
void attention_probabilities(const Queue& queue, Array probabilities, Array qkv, AttentionSize size);
void attention_output(const Queue& queue, Array y, Array probabilities, Array qkv, AttentionSize size);
void attention_probabilities_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array probabilities, Array qkv,
                                      AttentionSize size);

}  // namespace lockstep::kernels
