// Pseudo-random bits from counters: the same on every computer, and without state.
#pragma once

#include <cstdint>

namespace lockstep {

/// splitmix64's output function (Steele, Lea, Flood: SplittableRandom, OOPSLA 2014): nearby inputs give unrelated
/// outputs.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
/// Mixes the next number of its sequence.
inline std::uint64_t mix(std::uint64_t x) { return mix_bits(x + 0x9e3779b97f4a7c15u); }

}  // namespace lockstep
