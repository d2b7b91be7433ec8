// Of the simulator: groups whose other ranks do what this one does.
//
// Ranks of a tensor-parallel group, and replicas, do the same work on other numbers. Where numbers are phantom one of
// them shows what all take: it sends what they send, at the moment at which they send it, and so receives then what it
// sends. A thousand GPUs are then as many ranks as there are different ones.
#pragma once

#include "common/rank.hpp"

namespace lockstep {

/// A group of `size` ranks of which this one is rank 0 and the others are its symmetric peers, joined by link level
/// `level` of the run's machine. What a batch sends it receives as well, the first send with the first receive and so
/// on, through its own ports; what is left over (a root's broadcast) has no price. Sizes of the two may differ. Exact
/// for ranks that do the same and share no port; a port that they share must have its bandwidth divided in the machine.
/// A message holds its ports for `share` of its bytes: less than 1 where fewer of them share one than it is divided by.
/// On main; a phantom run.
Rank symmetric_group(Rank me, int size, int level, double share = 1);

}  // namespace lockstep
