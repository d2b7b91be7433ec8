// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), one counter at a time.
#pragma once

#include <cstdint>

#include "common/devices/cuda/kernels/launch.cuh"

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

}  // namespace lockstep::kernels
