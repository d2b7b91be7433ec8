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
/// False where 16-bit types went through plain loops, because the tensor cores cannot take their shape or address.
bool attention(const Queue& queue, Array y, Array log_sums, Array qkv, AttentionSize size);
/// dqkv is overwritten. Sums are in a fixed order: reruns give the same bits.
bool attention_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array qkv, Array log_sums,
                        AttentionSize size);

// qkv.cu. Where heads share k and v, B × T × (h + 2 kv_heads) × d, attention runs on copies for each head.

struct RotarySize {
  std::size_t batch, positions, turning, head_size, first;  // heads that turn, from position `first` on
};
/// The first heads of each row of x turn forward, or back; `log2_base` of the angles' base.
void rotate_positions(const Queue& queue, Array x, RotarySize size, double log2_base, bool back);
/// to: B × T × 3 × h × d, from shared k and v.
void spread_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads);
/// The inverse for gradients: those of a group's copies are added up, in float and in their order.
void add_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads);

/// The same with probabilities in memory, B × h × T × T, by plain loops.
void attention_probabilities(const Queue& queue, Array probabilities, Array qkv, AttentionSize size);
void attention_output(const Queue& queue, Array y, Array probabilities, Array qkv, AttentionSize size);
void attention_probabilities_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array probabilities, Array qkv,
                                      AttentionSize size);

}  // namespace lockstep::kernels
