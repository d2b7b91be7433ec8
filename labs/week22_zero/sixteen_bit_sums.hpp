// Exercise 22.11: sums in 16 bits. What a ring that adds in bf16 loses, and an fp32 sum from the same bytes.
//
// Follows Higham, "The Accuracy of Floating Point Summation", SIAM J. Sci. Comput. 14(4), 1993, and Megatron Core's
// reduce_scatter_with_fp32_accumulation for part b. FSDP's reduce_dtype=torch.float32 is 22.5b.
#pragma once

#include <vector>

#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::week22 {

/// Part a. The bf16 number nearest to `value`; of two equally near, the even one, whose last bit is 0. bf16 has 8
/// significant bits: 256 is followed by 258. `value` is 0, or 2⁻¹²⁶ ≤ |value| < 2¹²⁷.
float round_to_bf16(float value);

/// Part a. What 21.2's ring returns for an element of chunk `chunk`, from 0 to p − 1, if rank r has values[r], a bf16
/// number. p is values.size(), at least 1. The ring sends to the next rank, so chunk c begins on rank c + 1 (modulo p)
/// and is complete on rank c. Every addition is rounded to bf16.
float ring_sum(const std::vector<float>& values, int chunk);

/// Part b. Sums `data` (bf16; any size, the same on every rank; any p) over all ranks: each element in fp32, from rank
/// 0's to rank p − 1's, then rounded to bf16 once. Sent per rank: as in 21.2's ring, 2(p − 1)/p·n elements of 2 bytes.
/// Memory: buffers of at most p chunks in bf16 and two in fp32.
void all_reduce_in_fp32(Rank me, Slice data);

/// The relative error of an array of sums s, whose exact values are e: √Σ(s − e)² / √Σe².
struct SumErrors {
  double ring = 0;  ///< of 21.2's ring in bf16: element i is in chunk chunk_of(n, i, p)
  double once = 0;  ///< of part b's sums
};

/// Part c. values[r] is rank r's array of n ≥ 1 bf16 numbers; not all sums are 0. Sums in double count as exact.
SumErrors errors_of(const std::vector<std::vector<float>>& values);

}  // namespace lockstep::week22
