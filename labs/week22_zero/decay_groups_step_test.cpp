// Tests of exercise 22.10, parts b and c: the step and the norm, with intervals that the tests have found themselves.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/runtime/ledger/ledger.hpp"
#include "labs/week22_zero/decay_groups_testing.hpp"

namespace lockstep::week22::decay_groups_test {
namespace {

// Part b --------------------------------------------------------------------------------------------------------------

constexpr int kSteps = 3;

/// Halves the gradients of every step but the first, which gets no factor.
Slice half(Rank me, int step) {
  if (step == 0) return {};
  const Slice factor = me.allocate(1, DType::f32, Category::buffer);
  fill(me, factor, 0.5f);
  return factor;
}

Values steps_of_shard(Rank me, const Case& c) {
  const Layout layout = layout_of(c.size);
  const ChunkRange range = chunk_range(layout.elements, me.rank(), c.ranks);
  const FlatShard shard = begin_shard(me, layout, range);
  for (int step = 0; step < kSteps; ++step) {
    upload_gradients(me, layout, range, shard.gradients, step);
    step_groups(me, shard, right_intervals(layout, range), kGroups, options_of(step), half(me, step));
  }
  Values seen;
  append(me, shard, seen);
  return seen;
}

/// kGroups with another decay, or another rate, in all of them.
Groups groups_with(std::optional<float> decay, std::optional<float> rate) {
  Groups groups = kGroups;
  for (DecayGroup& group : groups) group = {decay.value_or(group.weight_decay), rate.value_or(group.rate)};
  return groups;
}

/// Says which other groups would give this value.
std::string cause_of(const Layout& layout, std::size_t at, double seen, int group) {
  const DecayGroup& own = kGroups[static_cast<std::size_t>(group)];
  const auto with = [&](const Groups& groups) {
    return not_sharded(layout, kSteps, groups, [](Rank me, const FlatShard&, int step) { return half(me, step); })[at];
  };
  if (own.rate == 0 && at >= layout.elements && seen == 0)
    return fmt::format(": group {} has a rate of 0, at which values stay, and m and v still change", group);
  if (seen == with(groups_with(options_of(0).weight_decay, {})))
    return ": it decays by options.weight_decay, and not by its group's";
  if (seen == with(groups_with({}, 1))) return ": its group learns at another rate";
  for (std::size_t g = 0; g < kGroups.size(); ++g)
    if (static_cast<int>(g) != group && seen == with(Groups(kGroups.size(), kGroups[g])))
      return fmt::format(": that is a step of group {}, and it is in group {}", g, group);
  if (seen == not_sharded(layout, kSteps, kGroups, [](Rank, const FlatShard&, int) { return Slice(); })[at])
    return ": that is without gradient_factor";
  if (at < layout.elements && seen == static_cast<double>(value_of(at))) return ": it was left out";
  return fmt::format(". It is in group {}, of weight_decay {} and rate {}", group, own.weight_decay, own.rate);
}

TEST(Lab22_10b, EveryElementStepsAsInItsTensor) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Layout layout = layout_of(c.size);
    const std::vector<int> groups = groups_by_element(layout);
    const Values right =
        not_sharded(layout, kSteps, kGroups, [](Rank me, const FlatShard&, int step) { return half(me, step); });
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ChunkRange shard = chunk_range(layout.elements, rank, c.ranks);
      const Difference d = first_difference(layout, rank, shard, outcome.values[static_cast<std::size_t>(rank)], right);
      if (!d.found) continue;
      const int group = groups[d.at % layout.elements];
      return fmt::format("after {} steps {} is {:.9g}, expected {:.9g}{}", kSteps, d.what, d.seen, d.expected,
                         group == kPadding ? ": padding remains as it is" : cause_of(layout, d.at, d.seen, group));
    }
    return "";
  };
  run_layouts(steps_of_shard, judge, kLayouts);
}

// Part c --------------------------------------------------------------------------------------------------------------

constexpr double kLarge = 1000;
constexpr float kBefore = 5000;

std::vector<float> replicated_of(std::size_t layout) {
  return layout % 3 == 1 ? std::vector<float>{} : layout % 3 == 2 ? std::vector<float>{6} : std::vector<float>{3, -4};
}

/// The first element that is not as it was before, or `before.size()`. NaN equals NaN.
std::size_t first_changed(const std::vector<float>& now, const std::vector<float>& before) {
  std::size_t i = 0;
  while (i < before.size() && (now[i] == before[i] || (std::isnan(now[i]) && std::isnan(before[i])))) ++i;
  return i;
}

/// For a small and a large limit: the sum and the factor. Then the bytes that this rank has sent, and the first
/// gradient that was changed, or their number.
Values norms(Rank dp, const Case& c) {
  const Layout layout = layout_of(c.size);
  const ChunkRange range = chunk_range(layout.elements, dp.rank(), c.ranks);
  const auto scalar = [&dp] { return dp.allocate(1, DType::f32, Category::buffer); };
  const Slice gradients = dp.allocate(range.size, DType::f32, Category::gradient), factor = scalar(), sum = scalar();
  upload_gradients(dp, layout, range, gradients, 0);
  const std::vector<float> uploaded = to_host(dp, gradients);
  const std::vector<float> more = replicated_of(c.size);
  const Slice replicated = more.empty() ? Slice() : dp.allocate(more.size(), DType::f32, Category::gradient);
  if (!more.empty()) upload(dp, replicated, more);
  Values seen;
  const std::uint64_t before = ledger_of(dp).traffic.bytes_sent;
  for (const double limit : {1.0, kLarge}) {
    fill(dp, sum, kBefore);
    clip_groups(dp, factor, sum, gradients, right_intervals(layout, range), replicated, static_cast<float>(limit));
    append(dp, sum, seen);
    append(dp, factor, seen);
  }
  seen.push_back(static_cast<double>(ledger_of(dp).traffic.bytes_sent - before));
  seen.push_back(static_cast<double>(first_changed(to_host(dp, gradients), uploaded)));
  return seen;
}

/// Squares of one rank's shard.
double squares_of(const Layout& layout, int rank, int ranks) {
  const ChunkRange range = chunk_range(layout.elements, rank, ranks);
  double sum = 0;
  for (float g : values_in(layout, range, 0, [](std::size_t e) { return gradient_of(e, 0); }))
    sum += static_cast<double>(g) * static_cast<double>(g);
  return sum;
}

std::string wrong_norm(const Case& c, const Values& seen, int rank) {
  const Layout layout = layout_of(c.size);
  double shards = 0, more = 0;
  for (int r = 0; r < c.ranks; ++r) shards += squares_of(layout, r, c.ranks);
  for (float g : replicated_of(c.size)) more += static_cast<double>(g) * static_cast<double>(g);
  const double own = squares_of(layout, rank, c.ranks), expected = shards + more;
  if (seen[5] < static_cast<double>(chunk_range(layout.elements, rank, c.ranks).size))
    return fmt::format(
        "rank {}: element {:.0f} of the gradients has changed. clip_groups only computes the factor, and part b "
        "multiplies by it",
        rank, seen[5]);
  for (std::size_t i = 0; i < 2; ++i) {
    const double sum = seen[2 * i], factor = seen[2 * i + 1], limit = i == 0 ? 1 : kLarge;
    if (sum != expected)
      return fmt::format(
          "rank {}: the squared norm is {:.9g}, expected {:.9g} = {:.9g} of all shards + {:.9g} replicated{}", rank,
          sum, expected, shards, more,
          std::isnan(sum)                   ? ": padding may hold anything, so only intervals count"
          : sum == shards                   ? ": what is replicated is missing"
          : sum == own + more || sum == own ? fmt::format(": {:.9g} is of this rank's shard alone", own)
          : sum == expected + c.ranks * static_cast<double>(kBefore) ? ": what sum held before is in it"
          : sum == shards + c.ranks * more                           ? ": what is replicated counts on every rank"
          : sum == c.ranks * shards + more                           ? ": the shards count on every rank"
                                                                     : "");
    const double right = std::min(1.0, limit / (std::sqrt(expected) + 1e-6));
    if (!(std::abs(factor - right) <= 1e-6 * right))
      return fmt::format(
          "rank {}: the squared norm {:.9g} is right, and the factor for a limit of {} is {:.7g}, "
          "expected {:.7g}",
          rank, sum, limit, factor, right);
  }
  return "";
}

TEST(Lab22_10c, EveryElementCountsOnce) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::string wrong = wrong_norm(c, outcome.values[static_cast<std::size_t>(rank)], rank);
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  run_layouts(norms, judge, kLayouts);
}

TEST(Lab22_10c, OneNumberTravels) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    double sent = 0;
    for (const Values& values : outcome.values) sent += values[4];
    const double most = 2 * 2 * (c.ranks - 1) * 4;  // two calls
    if (sent <= most) return "";
    return fmt::format("{:.0f} bytes were sent in two calls, expected {:.0f}: one f32, 2(p − 1) times in each", sent,
                       most);
  };
  run_layouts(norms, judge, 1);
}

}  // namespace
}  // namespace lockstep::week22::decay_groups_test
