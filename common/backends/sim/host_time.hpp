// Simulates time that a rank's host spends on work outside all verbs.
#pragma once

#include "common/rank.hpp"

namespace lockstep {

/// Advances the clock of `me`'s queue by `seconds` of virtual time, during which it does nothing: a data loader that
/// reads, or a host that is busy. `me` must be a rank of the simulator.
void pass_host_time(Rank me, double seconds);

}  // namespace lockstep
