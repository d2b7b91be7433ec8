// Symmetric groups, for the simulator: groups whose other ranks do what this one does.
//
// Ranks of a tensor-parallel group, and replicas, do the same work on different data. In a phantom run, one of them
// represents all: it sends what they send, when they send it, and therefore receives at that moment what it sends. A
// run then needs only as many ranks as there are different ones, even for a thousand GPUs.
#pragma once

#include "common/rank.hpp"
#include "common/runtime/fibers/groups.hpp"

namespace lockstep {

/// Makes a group of `size` ranks of which this one is rank 0; the others are its symmetric peers, joined by link level
/// `level` of the run's machine. A batch receives what it sends, through this rank's own ports: the first receive gets
/// the first send, and so on. Unpaired transfers (a root's broadcast) cost nothing. Sizes of sends and receives may
/// differ. Exact for ranks that do the same and share no port; if they share one, divide its bandwidth in the machine.
/// A message holds its ports for `share` of its bytes: less than 1 if fewer ranks share a port than its bandwidth was
/// divided by. With `library`, the group's collectives take the seconds that it says, of the bytes of their region and
/// those sent in it: their messages take no time and hold no port, and their additions are part of it. Main only, in
/// phantom runs.
Rank symmetric_group(Rank me, int size, int level, double share = 1, CollectiveSeconds library = {});

}  // namespace lockstep
