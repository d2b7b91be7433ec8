// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), many counters at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cpu {

inline constexpr std::size_t kPhiloxLanes = 64, kPhiloxBlock = 4 * kPhiloxLanes;

/// Ten rounds on kPhiloxLanes counters; word w of lane j goes to bits[w · kPhiloxLanes + j].
void philox(std::uint32_t* bits, std::uint64_t block, std::uint64_t key);

/// Maps bits to [0, 1), to a multiple of 2⁻²⁴.
inline float unit(std::uint32_t bits) { return static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24f; }

}  // namespace lockstep::cpu
