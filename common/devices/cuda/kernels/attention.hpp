// Launchers of causal attention. As in operations.hpp, shapes have been checked.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

struct AttentionSize {
  std::size_t batch, positions, heads, head_size;  // B, T, h, d
};

/// y: B × T × h × d; log_sums: B × h × T; qkv: B × T × 3 × h × d. Uses tensor cores if the type has 16 bits, d is a
/// multiple of 8 up to 128, pointers are aligned to 16 bytes and, beyond d = 64, the GPU has the shared memory;
/// otherwise plain loops.
/// Returns false if a 16-bit type used plain loops because tensor cores cannot take its shape or address.
bool attention(const Queue& queue, Array y, Array log_sums, Array qkv, AttentionSize size);
/// Overwrites dqkv. Sums are in a fixed order: reruns are bit-identical.
bool attention_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array qkv, Array log_sums,
                        AttentionSize size);

// qkv.cu. If heads share k and v, B × T × (h + 2 kv_heads) × d, attention runs on a copy for each head.

struct RotarySize {
  std::size_t batch, positions, turning, head_size, first;  // `turning` heads are rotated, from position `first`
};
/// Rotates the first heads of each row of x, forward or back; `log2_base` is the logarithm of the angles' base.
void rotate_positions(const Queue& queue, Array x, RotarySize size, double log2_base, bool back);
/// Makes `to` (B × T × 3 × h × d) from shared k and v.
void spread_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads);
/// The inverse for gradients: adds up those of a group's copies, in float and in order.
void add_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads);

/// The same with materialised probabilities, B × h × T × T, by plain loops.
void attention_probabilities(const Queue& queue, Array probabilities, Array qkv, AttentionSize size);
void attention_output(const Queue& queue, Array y, Array probabilities, Array qkv, AttentionSize size);
void attention_probabilities_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array probabilities, Array qkv,
                                      AttentionSize size);

}  // namespace lockstep::kernels
