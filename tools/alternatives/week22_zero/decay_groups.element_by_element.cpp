// Exercise 22.10 in another way: elements one by one, group after group with the intervals backwards, and what is
// replicated travels in rank 0's sum.
#include "labs/week22_zero/decay_groups.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

std::vector<Interval> intervals_of(const std::vector<GroupedTensor>& tensors, ChunkRange shard) {
  std::vector<Interval> intervals;
  bool open = false;
  auto tensor = tensors.begin();
  for (std::size_t i = 0; i < shard.size; ++i) {
    while (tensor != tensors.end() && tensor->offset + tensor->size <= shard.offset + i) ++tensor;
    const bool padding = tensor == tensors.end() || shard.offset + i < tensor->offset;
    if (!padding && open && intervals.back().group == tensor->group)
      ++intervals.back().size;
    else if (!padding)
      intervals.push_back({i, 1, tensor->group});
    open = !padding;
  }
  return intervals;
}

void step_groups(Rank me, const FlatShard& shard, const std::vector<Interval>& intervals,
                 const std::vector<DecayGroup>& groups, const AdamW& options, Slice gradient_factor) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    AdamW of_group = options;
    of_group.weight_decay = groups[g].weight_decay;
    of_group.learning_rate = options.learning_rate * groups[g].rate;
    for (std::size_t n = intervals.size(); n-- > 0;) {
      const auto [offset, size, group] = intervals[n];
      if (group != static_cast<int>(g)) continue;
      const Slice values = shard.values.cut(offset, size);
      adamw(me, values, values, shard.m.cut(offset, size), shard.v.cut(offset, size), shard.gradients.cut(offset, size),
            of_group, gradient_factor);
    }
  }
}

void clip_groups(Rank dp, Slice factor, Slice sum, Slice gradients, const std::vector<Interval>& intervals,
                 Slice replicated, float max_norm) {
  fill(dp, sum, 0);
  if (dp.rank() == 0) add_squares(dp, sum, replicated);
  for (const Interval& x : intervals) add_squares(dp, sum, gradients.cut(x.offset, x.size));
  week21::ring_all_reduce(dp, sum);
  clip_factor(dp, factor, sum, max_norm);
}

}  // namespace lockstep::week22
