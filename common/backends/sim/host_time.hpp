// Of the simulator: time in which a rank's host does something that no verb stands for.
#pragma once

#include "common/rank.hpp"

namespace lockstep {

/// `me`'s queue goes on `seconds` of virtual time later, and does nothing meanwhile: a data loader that reads, a host
/// that is busy with something else. `me` is a rank of the simulator.
void pass_host_time(Rank me, double seconds);

}  // namespace lockstep
