// The Philox key of a Random, the same on every device.
#pragma once

#include "common/arithmetic.hpp"
#include "common/support/stats/mix.hpp"

namespace lockstep {

inline std::uint64_t key_of(const Random& random) { return mix(mix(mix(random.seed) ^ random.tensor) ^ random.step); }

}  // namespace lockstep
