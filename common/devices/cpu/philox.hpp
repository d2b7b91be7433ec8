// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), many counters at once.
#pragma once

#include <algorithm>

#include "common/devices/cpu/threads.hpp"
#include "common/devices/random_key.hpp"

namespace lockstep::cpu {

inline constexpr std::size_t kPhiloxLanes = 64, kPhiloxBlock = 4 * kPhiloxLanes;

/// Ten rounds on kPhiloxLanes counters; word w of lane j goes to bits[w · kPhiloxLanes + j].
void philox(std::uint32_t* bits, std::uint64_t block, std::uint64_t key);

/// Maps bits to [0, 1), to a multiple of 2⁻²⁴.
inline float unit(std::uint32_t bits) { return static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24f; }

/// Draws for n elements from random.first on, by whole blocks: f(at, count, bits, begin) for elements [at, at + count),
/// whose 32 bits each are bits[begin], bits[begin + 1], … of a block's kPhiloxBlock.
template <class F>
void for_draws(Threads& threads, const Random& random, std::size_t n, const F& f) {
  const std::uint64_t key = key_of(random), first = random.first, first_block = first / kPhiloxBlock;
  const auto blocks = static_cast<std::size_t>((first + n + kPhiloxBlock - 1) / kPhiloxBlock - first_block);
  threads.chunks(blocks, 16, [&](std::size_t from, std::size_t to) {
    for (std::uint64_t block = first_block + from; block < first_block + to; ++block) {
      std::uint32_t bits[kPhiloxBlock];
      philox(bits, block, key);
      const std::uint64_t begin = std::max(first, block * kPhiloxBlock),
                          end = std::min(first + n, (block + 1) * kPhiloxBlock);
      f(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin), bits,
        static_cast<std::size_t>(begin - block * kPhiloxBlock));
    }
  });
}

}  // namespace lockstep::cpu
