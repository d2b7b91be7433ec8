// Tests of exercise 22.10: part a, intervals, and all parts together. Parts b and c are in decay_groups_step_test.cpp.
#include <algorithm>
#include <cstdint>

#include "common/gpt/model/gpt.hpp"
#include "common/testing/listener.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/decay_groups_testing.hpp"

namespace lockstep::week22::decay_groups_test {
namespace {

// Part a --------------------------------------------------------------------------------------------------------------

Values as_values(const std::vector<Interval>& intervals) {
  Values values;
  for (const Interval& interval : intervals)
    for (double part : {static_cast<double>(interval.offset), static_cast<double>(interval.size),
                        static_cast<double>(interval.group)})
      values.push_back(part);
  return values;
}
std::vector<Interval> as_intervals(const Values& values) {
  std::vector<Interval> intervals;
  for (std::size_t i = 0; i + 2 < values.size(); i += 3)
    intervals.push_back({static_cast<std::size_t>(values[i]), static_cast<std::size_t>(values[i + 1]),
                         static_cast<int>(values[i + 2])});
  return intervals;
}

std::string group_name(int group) {
  return group == kPadding ? std::string("no interval") : fmt::format("an interval of group {}", group);
}

/// Describes an error in the intervals themselves, whatever is in the array.
std::string wrong_order(const std::vector<Interval>& intervals, int rank, ChunkRange shard) {
  std::size_t end = 0;
  for (std::size_t n = 0; n < intervals.size(); ++n) {
    const Interval& x = intervals[n];
    const std::string which = fmt::format("rank {}: interval {}, elements {} to {},", rank, n, x.offset,
                                          static_cast<std::int64_t>(x.offset + x.size) - 1);
    if (x.size == 0) return fmt::format("rank {}: interval {} is empty", rank, n);
    if (x.offset > shard.size || x.size > shard.size - x.offset)
      return fmt::format(
          "{} reaches beyond the shard's {}. It is elements {} to {} of the array, and intervals count from the "
          "shard's first element",
          which, shard.size, shard.offset, static_cast<std::int64_t>(shard.offset + shard.size) - 1);
    if (x.offset < end) return fmt::format("{} begins before the one before it has ended", which);
    end = x.offset + x.size;
  }
  return "";
}

std::string wrong_intervals(const Layout& layout, const std::vector<Interval>& intervals, int rank, ChunkRange shard) {
  std::string wrong = wrong_order(intervals, rank, shard);
  if (!wrong.empty()) return wrong;
  std::vector<int> seen(shard.size, kPadding);
  for (const Interval& x : intervals)
    for (std::size_t i = 0; i < x.size; ++i) seen[x.offset + i] = x.group;
  const std::vector<int> groups = groups_by_element(layout);
  for (std::size_t i = 0; i < shard.size; ++i)
    if (seen[i] != groups[shard.offset + i])
      return fmt::format("{} is in {}, expected {}", place(layout, rank, shard, i), group_name(seen[i]),
                         group_name(groups[shard.offset + i]));
  for (std::size_t n = 1; n < intervals.size(); ++n)
    if (intervals[n].group == intervals[n - 1].group &&
        intervals[n].offset == intervals[n - 1].offset + intervals[n - 1].size)
      return fmt::format("rank {}: intervals {} and {} are neighbours of the same group, and one AdamW could do both",
                         rank, n - 1, n);
  return "";
}

TEST(Lab22_10a, EveryElementIsInItsGroupOnce) {
  const auto program = [](Rank me, const Case& c) {
    const Layout layout = layout_of(c.size);
    return as_values(intervals_of(layout.tensors, chunk_range(layout.elements, me.rank(), c.ranks)));
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Layout layout = layout_of(c.size);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::string wrong = wrong_intervals(layout, as_intervals(outcome.values[static_cast<std::size_t>(rank)]),
                                                rank, chunk_range(layout.elements, rank, c.ranks));
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  run_layouts(program, judge, kLayouts);
}

/// A GPT's tensors: vectors do not decay.
Layout gpt_layout() {
  Layout layout;
  for (const Parameter& parameter : gpt_parameter_table(gpt_preset("gpt2-124m"))) {
    layout.tensors.push_back({parameter.offset, parameter.size, parameter.rows > 1 ? 0 : 1});
    layout.elements = parameter.offset + parameter.size;
  }
  return layout;
}

TEST(Lab22_10a, AGptHasFewIntervals) {
  const Layout layout = gpt_layout();
  std::size_t runs = 0, free = 0;  // what has one group; elements that do not decay
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    runs += t == 0 || layout.tensors[t].group != layout.tensors[t - 1].group;
    free += layout.tensors[t].group == 1 ? layout.tensors[t].size : 0;
  }
  std::string counts;
  const auto program = [&](Rank me, const Case& c) {
    return as_values(intervals_of(layout.tensors, chunk_range(layout.elements, me.rank(), c.ranks)));
  };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    std::size_t together = 0, most = 0, elements = 0;
    for (const Values& values : outcome.values) {
      together += values.size() / 3, most = std::max(most, values.size() / 3);
      for (const Interval& interval : as_intervals(values)) elements += interval.size;
    }
    if (elements != layout.elements)
      return fmt::format("{} elements are in intervals, of {}", elements, layout.elements);
    if (together > runs + static_cast<std::size_t>(c.ranks) - 1)
      return fmt::format("{} intervals, expected at most {}: as many as without shards, and one for each border",
                         together, runs + static_cast<std::size_t>(c.ranks) - 1);
    counts += fmt::format("; {} on {} ranks, {} on the rank with most", together, c.ranks, most);
    return "";
  };
  run_cases(program, judge, {.ranks = {2, 8}, .sizes = sizes_of({layout.elements}), .together = true});
  if (HasFailure() || counts.empty()) return;
  testing::note(fmt::format("GPT-2 124M, {} tensors, {} of {} elements do not decay: {} intervals{}",
                            layout.tensors.size(), free, layout.elements, runs, counts));
}

// All parts together --------------------------------------------------------------------------------------------------

constexpr int kClippedSteps = 4, kResharded = 2;  // from this step on, there is a shard less
constexpr float kMaxNorm = 2;
const std::vector<float> kReplicated{3, -4};

ChunkRange shard_in(const Layout& layout, int rank, int ranks, int step) {
  const int shards = step < kResharded || ranks == 1 ? ranks : ranks - 1;
  return rank < shards ? chunk_range(layout.elements, rank, shards) : ChunkRange{layout.elements, 0};
}

/// This rank's shard after all steps; each step's squared norm, and whether its intervals are right. Halfway the last
/// rank leaves its shard to the others.
Values clipped_steps(Rank dp, const Case& c) {
  const Layout layout = layout_of(c.size);
  const FlatShard whole = begin_shard(dp, layout, {0, layout.elements});
  const auto scalar = [&dp] { return dp.allocate(1, DType::f32, Category::buffer); };
  const Slice factor = scalar(), sum = scalar(), replicated = dp.allocate(2, DType::f32, Category::gradient);
  upload(dp, replicated, kReplicated);
  FlatShard mine;
  Values norms;
  for (int step = 0; step < kClippedSteps; ++step) {
    if (step == kResharded)
      for (const Slice& slice : {whole.values, whole.m, whole.v}) week21::ring_all_gather(dp, slice);
    const ChunkRange range = shard_in(layout, dp.rank(), c.ranks, step);
    const auto part = [&](const Slice& slice) { return slice.cut(range.offset, range.size); };
    mine = {part(whole.values), part(whole.gradients), part(whole.m), part(whole.v)};
    upload_gradients(dp, layout, range, mine.gradients, step);
    const std::vector<Interval> intervals = intervals_of(layout.tensors, range);
    clip_groups(dp, factor, sum, mine.gradients, intervals, replicated, kMaxNorm);
    step_groups(dp, mine, intervals, kGroups, options_of(step), factor);
    norms.push_back(to_host(dp, sum)[0]);
    norms.push_back(as_values(intervals) == as_values(right_intervals(layout, range)) ? 1 : 0);
  }
  Values seen;
  append(dp, mine, seen);
  seen.insert(seen.end(), norms.begin(), norms.end());
  return seen;
}

/// "22.10a first: …" where intervals are wrong, else "22.10c first: …" where a squared norm is; else "".
std::string wrong_earlier_part(const Layout& layout, const Outcome& outcome) {
  constexpr std::size_t kSteps = kClippedSteps;
  std::string wrong_norm;
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank)
    for (std::size_t step = 0; step < kSteps; ++step) {
      const Values& seen = outcome.values[rank];
      const std::size_t at = seen.size() - 2 * (kSteps - step);
      const std::string where = fmt::format("first: rank {}, step {}: the", rank, step + 1);
      if (seen.at(at + 1) == 0) return fmt::format("22.10a {} intervals are not those of its shard", where);
      double right = 0;
      for (const float x : kReplicated) right += static_cast<double>(x * x);
      for (float g : values_in(layout, {0, layout.elements}, 0,
                               [step](std::size_t e) { return gradient_of(e, static_cast<int>(step)); }))
        right += static_cast<double>(g * g);
      if (seen.at(at) != right && wrong_norm.empty())
        wrong_norm = fmt::format("22.10c {} squared norm is {:.9g}, expected {:.9g}", where, seen[at], right);
    }
  return wrong_norm;
}

/// clip_groups on one rank, by the library's operations.
Slice clip_whole(Rank me, const Layout& layout, const FlatShard& flat) {
  const Slice factor = me.allocate(1, DType::f32, Category::buffer), sum = me.allocate(1, DType::f32, Category::buffer),
              replicated = me.allocate(2, DType::f32, Category::gradient);
  upload(me, replicated, kReplicated);
  fill(me, sum, 0);
  add_squares(me, sum, replicated);
  for (const GroupedTensor& tensor : layout.tensors)
    add_squares(me, sum, flat.gradients.cut(tensor.offset, tensor.size));
  clip_factor(me, factor, sum, kMaxNorm);
  return factor;
}

TEST(Lab22_10, StepsAreTheSameOnAnyNumberOfRanks) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Layout layout = layout_of(c.size);
    if (const std::string earlier = wrong_earlier_part(layout, outcome); !earlier.empty()) return earlier;
    const Values right = not_sharded(layout, kClippedSteps, kGroups,
                                     [&](Rank me, const FlatShard& flat, int) { return clip_whole(me, layout, flat); });
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ChunkRange shard = shard_in(layout, rank, c.ranks, kClippedSteps - 1);
      const Difference d = first_difference(layout, rank, shard, outcome.values[static_cast<std::size_t>(rank)], right);
      if (d.found)
        return fmt::format("after {} steps, {} of them with a shard less, {} is {:.9g}, on one rank {:.9g}",
                           kClippedSteps, kClippedSteps - kResharded, d.what, d.seen, d.expected);
    }
    return "";
  };
  run_layouts(clipped_steps, judge, kLayouts);
}

}  // namespace
}  // namespace lockstep::week22::decay_groups_test
