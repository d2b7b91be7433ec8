// Exercise 22.10 in another way: tensors of one group that touch are joined before they are cut into shards, options
// are written out, and the squares of what is replicated are added up in a scalar of their own.
#include "labs/week22_zero/decay_groups.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

/// The flat array's intervals, with places in the array.
std::vector<Interval> of_the_array(const std::vector<GroupedTensor>& tensors) {
  std::vector<Interval> joined;
  for (std::size_t begin = 0; begin < tensors.size();) {
    std::size_t next = begin + 1;
    while (next < tensors.size() && tensors[next].group == tensors[begin].group &&
           tensors[next].offset == tensors[next - 1].offset + tensors[next - 1].size)
      ++next;
    const std::size_t end = tensors[next - 1].offset + tensors[next - 1].size;
    joined.push_back({tensors[begin].offset, end - tensors[begin].offset, tensors[begin].group});
    begin = next;
  }
  return joined;
}

}  // namespace

std::vector<Interval> intervals_of(const std::vector<GroupedTensor>& tensors, ChunkRange shard) {
  std::vector<Interval> mine;
  const std::size_t shard_end = shard.offset + shard.size;
  for (Interval x : of_the_array(tensors)) {
    const std::size_t end = x.offset + x.size;
    if (end <= shard.offset || x.offset >= shard_end) continue;
    x.offset = x.offset < shard.offset ? 0 : x.offset - shard.offset;
    x.size = std::min(end, shard_end) - shard.offset - x.offset;
    if (x.size > 0) mine.push_back(x);
  }
  return mine;
}

void step_groups(Rank me, const FlatShard& shard, const std::vector<Interval>& intervals,
                 const std::vector<DecayGroup>& groups, const AdamW& options, Slice gradient_factor) {
  for (const auto& [offset, size, group] : intervals) {
    const DecayGroup& with = groups.at(static_cast<std::size_t>(group));
    const AdamW own{.learning_rate = with.rate * options.learning_rate,
                    .beta1 = options.beta1,
                    .beta2 = options.beta2,
                    .epsilon = options.epsilon,
                    .weight_decay = with.weight_decay,
                    .step = options.step};
    const Slice values = shard.values.cut(offset, size);
    adamw(me, values, values, shard.m.cut(offset, size), shard.v.cut(offset, size), shard.gradients.cut(offset, size),
          own, gradient_factor);
  }
}

void clip_groups(Rank dp, Slice factor, Slice sum, Slice gradients, const std::vector<Interval>& intervals,
                 Slice replicated, float max_norm) {
  const Slice whole = dp.allocate(1, DType::f32, Category::buffer);
  fill(dp, whole, 0);
  add_squares(dp, whole, replicated);
  fill(dp, sum, 0);
  for (const Interval& x : intervals) add_squares(dp, sum, gradients.cut(x.offset, x.size));
  week21::ring_reduce_scatter(dp, sum);
  week21::ring_all_gather(dp, sum);
  add(dp, sum, whole);
  clip_factor(dp, factor, sum, max_norm);
}

}  // namespace lockstep::week22
