// Exercise 22.10: groups of decay in flat shards. Read labs/week22_zero/decay_groups.hpp first.
#include "labs/week22_zero/decay_groups.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

std::vector<Interval> intervals_of(const std::vector<GroupedTensor>& tensors, ChunkRange shard) {
  std::vector<Interval> intervals;
  // lab 22.10a begin: every element of the shard that belongs to a tensor, in an interval of the tensor's group. When
  // does an interval continue the one before it?
  for (const GroupedTensor& tensor : tensors) {
    const std::size_t first = std::max(tensor.offset, shard.offset);
    const std::size_t last = std::min(tensor.offset + tensor.size, shard.offset + shard.size);
    if (first >= last) continue;
    const Interval next{first - shard.offset, last - first, tensor.group};
    const bool joins = !intervals.empty() && intervals.back().group == next.group &&
                       intervals.back().offset + intervals.back().size == next.offset;
    if (joins)
      intervals.back().size += next.size;
    else
      intervals.push_back(next);
  }
  // lab end
  return intervals;
}

void step_groups(Rank me, const FlatShard& shard, const std::vector<Interval>& intervals,
                 const std::vector<DecayGroup>& groups, const AdamW& options, Slice gradient_factor) {
  // lab 22.10b begin: adamw on every interval, with what its group decays by and learns at
  for (const Interval& interval : intervals) {
    const auto part = [&interval](const Slice& whole) { return whole.cut(interval.offset, interval.size); };
    const DecayGroup& group = groups[static_cast<std::size_t>(interval.group)];
    AdamW own = options;
    own.weight_decay = group.weight_decay;
    own.learning_rate *= group.rate;
    const Slice values = part(shard.values);
    adamw(me, values, values, part(shard.m), part(shard.v), part(shard.gradients), own, gradient_factor);
  }
  // lab end
}

void clip_groups(Rank dp, Slice factor, Slice sum, Slice gradients, const std::vector<Interval>& intervals,
                 Slice replicated, float max_norm) {
  // lab 22.10c begin: `sum` is the squares of all shards of all ranks and of what is replicated, each element once, and
  // `factor` follows from it. What may be added before the all-reduce, and what after it?
  fill(dp, sum, 0);
  for (const Interval& interval : intervals) add_squares(dp, sum, gradients.cut(interval.offset, interval.size));
  week21::ring_all_reduce(dp, sum);
  add_squares(dp, sum, replicated);
  clip_factor(dp, factor, sum, max_norm);
  // lab end
}

}  // namespace lockstep::week22
