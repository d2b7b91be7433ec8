// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), one counter at a time.
#pragma once

#include <cstdint>

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

constexpr std::uint64_t kPhiloxLanes = 64, kPhiloxBlock = 4 * kPhiloxLanes;

struct PhiloxWords {
  std::uint32_t word[4];
};

__device__ inline PhiloxWords philox(std::uint64_t counter, std::uint64_t key) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xd2511f53u, c0), low0 = 0xd2511f53u * c0;
    const std::uint32_t high1 = __umulhi(0xcd9e8d57u, c2), low1 = 0xcd9e8d57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Maps bits to [0, 1), to a multiple of 2⁻²⁴.
__device__ inline float unit(std::uint32_t bits) { return static_cast<float>(static_cast<int>(bits >> 8)) * 0x1p-24f; }

/// Calls f(i, bits) for packs of the n elements that are drawn from element `first` on: bits[j] is element i + j's draw.
/// A pack may begin before the elements, or end after them. A thread takes eight consecutive counters, and so four packs
/// 64 elements apart; `groups` are all of these.
template <class F>
__device__ void for_drawn_packs(Index n, std::uint64_t key, std::uint64_t first, Index groups, const F& f) {
  constexpr int kGroups = static_cast<int>(kPhiloxLanes) / kPack;  // per block
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index g = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; g < groups; g += step) {
    const std::uint64_t block = first / kPhiloxBlock + static_cast<std::uint64_t>(g / kGroups);
    const std::uint64_t lane = static_cast<std::uint64_t>(g % kGroups) * kPack;
    PhiloxWords words[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) words[j] = philox(block * kPhiloxLanes + lane + j, key);
    const Index begin = static_cast<Index>(block * kPhiloxBlock + lane - first);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const Index i = begin + w * static_cast<Index>(kPhiloxLanes);
      if (i + kPack <= 0 || i >= n) continue;
      std::uint32_t bits[kPack];
#pragma unroll
      for (int j = 0; j < kPack; ++j) bits[j] = words[j].word[w];
      f(i, bits);
    }
  }
}

}  // namespace lockstep::kernels
