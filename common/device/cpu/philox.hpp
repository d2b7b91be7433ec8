// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), many counters at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cpu {

inline constexpr std::size_t kPhiloxLanes = 64, kPhiloxBlock = 4 * kPhiloxLanes;

/// Ten rounds on kPhiloxLanes counters; word w of lane j comes to bits[w · kPhiloxLanes + j].
void philox(std::uint32_t* bits, std::uint64_t block, std::uint64_t key);

}  // namespace lockstep::cpu
