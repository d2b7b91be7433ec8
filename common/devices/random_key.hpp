// The key of Philox that a Random stands for, the same on every device.
#pragma once

#include "common/arithmetic.hpp"

namespace lockstep {

/// splitmix64's output function.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline std::uint64_t key_of(const Random& random) { return mix(mix(mix(random.seed) ^ random.tensor) ^ random.step); }

}  // namespace lockstep
