// Exercise 22.10: groups of decay in flat shards. Read labs/week22_zero/decay_groups.hpp first.
#include "labs/week22_zero/decay_groups.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

std::vector<Interval> intervals_of(const std::vector<GroupedTensor>& tensors, ChunkRange shard) {
  std::vector<Interval> intervals;
  todo("22.10a",
       "every element of the shard that belongs to a tensor, in an interval of the tensor's group. When does an "
       "interval continue the one before it?");
  return intervals;
}

void step_groups(Rank me, const FlatShard& shard, const std::vector<Interval>& intervals,
                 const std::vector<DecayGroup>& groups, const AdamW& options, Slice gradient_factor) {
  todo("22.10b", "adamw on every interval, with what its group decays by and learns at");
}

void clip_groups(Rank dp, Slice factor, Slice sum, Slice gradients, const std::vector<Interval>& intervals,
                 Slice replicated, float max_norm) {
  todo("22.10c",
       "`sum` is the squares of all shards of all ranks and of what is replicated, each element once, and `factor` "
       "follows from it. What may be added before the all-reduce, and what after it?");
}

}  // namespace lockstep::week22
