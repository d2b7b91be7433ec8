// Shared by the tests of exercise 22.10: flat arrays with tensors in groups, and the step that is not sharded.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/described_cases_testing.hpp"
#include "labs/week22_zero/decay_groups.hpp"

namespace lockstep::week22::decay_groups_test {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

using Groups = std::vector<DecayGroup>;
using Tensors = std::vector<GroupedTensor>;

/// Matrices; gains and biases; embeddings that learn at half the rate; frozen parameters.
inline const Groups kGroups{{0.1f, 1}, {0, 1}, {0.05f, 0.5f}, {0.1f, 0}};
constexpr int kPadding = -1;

struct Layout {
  Tensors tensors;
  std::size_t elements = 0;
};

constexpr std::size_t kLayouts = 8;
inline Layout layout_of(std::size_t which) {
  switch (which) {
    case 0: return {{{0, 6, 0}, {6, 2, 1}, {8, 3, 1}, {11, 5, 0}}, 16};               // the handout's
    case 1: return {{{0, 1, 1}, {1, 40, 0}, {41, 1, 1}}, 42};                         // one tensor in every shard
    case 2: return {{{0, 1, 2}, {1, 2, 1}}, 3};                                       // fewer elements than ranks
    case 3: return {{{0, 4, 1}, {4, 3, 1}, {7, 9, 1}}, 16};                           // all of one group
    case 4: return {{{0, 4, 1}, {8, 4, 1}, {12, 3, 0}, {16, 4, 0}, {20, 1, 2}}, 24};  // padded to multiples of 4
    case 5: return {{{5, 2, 0}, {7, 2, 1}}, 20};                                      // mostly padding
    case 6: {
      Layout small;  // one element each, in turn
      for (int i = 0; i < 12; ++i) small.tensors.push_back({static_cast<std::size_t>(i), 1, i % 4});
      small.elements = 12;
      return small;
    }
    default: {
      Layout drawn;
      for (std::uint64_t i = 0; i < 9; ++i) {
        drawn.elements += (i + testing::drawn({22, 10, i, 1}, 4)) % 4 == 3 ? 2 : 0;
        const std::size_t size = 1 + (i * 5 + testing::drawn({22, 10, i, 2}, 11)) % 11;
        drawn.tensors.push_back(
            {drawn.elements, size, static_cast<int>((i * i + testing::drawn({22, 10, i, 3}, 4)) % 4)});
        drawn.elements += size;
      }
      return drawn;
    }
  }
}

/// For each element of the array: what `of` says of its tensor, or kPadding.
inline std::vector<int> by_element(const Layout& layout, const std::function<int(std::size_t tensor)>& of) {
  std::vector<int> all(layout.elements, kPadding);
  for (std::size_t t = 0; t < layout.tensors.size(); ++t)
    for (std::size_t i = 0; i < layout.tensors[t].size; ++i) all[layout.tensors[t].offset + i] = of(t);
  return all;
}
inline std::vector<int> groups_by_element(const Layout& layout) {
  return by_element(layout, [&](std::size_t t) { return layout.tensors[t].group; });
}

/// The intervals of part a, found element by element.
inline std::vector<Interval> right_intervals(const Layout& layout, ChunkRange shard) {
  const std::vector<int> groups = groups_by_element(layout);
  std::vector<Interval> intervals;
  for (std::size_t i = 0; i < shard.size; ++i) {
    const int group = groups[shard.offset + i];
    if (group == kPadding) continue;
    if (i > 0 && groups[shard.offset + i - 1] == group)
      ++intervals.back().size;
    else
      intervals.push_back({i, 1, group});
  }
  return intervals;
}

/// "The tensors have elements 0 to 5 (group 0), 6 (group 1)."
inline std::string words(const Layout& layout) {
  std::string text = "The tensors have elements";
  for (const GroupedTensor& tensor : layout.tensors) {
    const std::string to = tensor.size > 1 ? fmt::format(" to {}", tensor.offset + tensor.size - 1) : "";
    text += fmt::format("{} {}{} (group {})", text.ends_with(')') ? "," : "", tensor.offset, to, tensor.group);
  }
  return text + ".";
}

/// Runs the cases with the first so many layouts.
inline void run_layouts(const testing::CaseProgram& program, const testing::CaseJudge& judge, std::size_t layouts) {
  std::vector<std::size_t> numbers(layouts);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  testing::run_described(program, judge, {.sizes = sizes_of(numbers), .which = "layout"},
                         [](const Case& c) { return words(layout_of(c.size)); });
}

// Whole numbers, so that sums of squares are exact in any order.
constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
inline float value_of(std::size_t element) { return 1 + static_cast<float>(element) / 8; }
inline float gradient_of(std::size_t element, int step) {
  return static_cast<float>((element * 7 + static_cast<std::size_t>(step) * 5) % 11) - 5;
}
/// The elements of `range`; padding is `padding`.
inline std::vector<float> values_in(const Layout& layout, ChunkRange range, float padding,
                                    const std::function<float(std::size_t element)>& value) {
  const std::vector<int> groups = groups_by_element(layout);
  std::vector<float> values;
  for (std::size_t e = range.offset; e < range.offset + range.size; ++e)
    values.push_back(groups[e] == kPadding ? padding : value(e));
  return values;
}
inline void upload_gradients(Rank me, const Layout& layout, ChunkRange range, const Slice& gradients, int step) {
  upload(me, gradients, values_in(layout, range, kNothing, [step](std::size_t e) { return gradient_of(e, step); }));
}

/// Padding's values before and after; its m and v are as its value.
constexpr float kPaddingValue = 7;
inline FlatShard begin_shard(Rank me, const Layout& layout, ChunkRange range) {
  const auto slice = [&](Category category) { return me.allocate(range.size, DType::f32, category); };
  FlatShard shard{slice(Category::parameter), slice(Category::gradient), slice(Category::optimizer),
                  slice(Category::optimizer)};
  upload(me, shard.values, values_in(layout, range, kPaddingValue, value_of));
  for (const Slice& moment : {shard.m, shard.v})
    upload(me, moment, values_in(layout, range, kPaddingValue, [](std::size_t) { return 0.0f; }));
  return shard;
}

/// A decay and a rate that no group has.
inline AdamW options_of(int step) {
  return {.learning_rate = 0.01f * static_cast<float>(step + 1), .weight_decay = 0.7f, .step = step + 1};
}

inline void append(Rank me, const Slice& data, Values& seen) { testing::append(me, data, seen); }
/// Values, m and v, one after the other.
inline void append(Rank me, const FlatShard& shard, Values& seen) {
  for (const Slice& slice : {shard.values, shard.m, shard.v}) append(me, slice, seen);
}

/// Values, m and v of the whole array after `steps` steps on one rank, one adamw for each tensor.
inline Values not_sharded(const Layout& layout, int steps, const Groups& groups,
                          const std::function<Slice(Rank, const FlatShard&, int step)>& factor) {
  return run({.ranks = 1}, Program([&](Rank me) {
               const ChunkRange all{0, layout.elements};
               const FlatShard flat = begin_shard(me, layout, all);
               for (int step = 0; step < steps; ++step) {
                 upload_gradients(me, layout, all, flat.gradients, step);
                 const Slice scaled = factor(me, flat, step);
                 for (const GroupedTensor& tensor : layout.tensors) {
                   const auto whole = [&](const Slice& slice) { return slice.cut(tensor.offset, tensor.size); };
                   const auto g = static_cast<std::size_t>(tensor.group);
                   AdamW options = options_of(step);
                   options.weight_decay = groups[g].weight_decay;
                   options.learning_rate *= groups[g].rate;
                   adamw(me, whole(flat.values), whole(flat.values), whole(flat.m), whole(flat.v),
                         whole(flat.gradients), options, scaled);
                 }
               }
               Values seen;
               append(me, flat, seen);
               return seen;
             }))
      .check()
      .values[0];
}

/// "element 2 of rank 1's shard (6 of the array, in tensor 1)".
inline std::string place(const Layout& layout, int rank, ChunkRange shard, std::size_t i) {
  const int tensor = by_element(layout, [](std::size_t t) { return static_cast<int>(t); })[shard.offset + i];
  return fmt::format("element {} of rank {}'s shard ({} of the array, {})", i, rank, shard.offset + i,
                     tensor == kPadding ? "padding" : fmt::format("in tensor {}", tensor));
}

/// The first element of a rank's values, m and v, one after the other, that is not as in the whole array's.
struct Difference {
  bool found = false;
  std::size_t at = 0;  ///< in the whole array's values, m and v
  double seen = 0, expected = 0;
  std::string what;  ///< "m of element 2 of …"
};
inline Difference first_difference(const Layout& layout, int rank, ChunkRange shard, const Values& seen,
                                   const Values& whole) {
  const char* const names[] = {"the value", "m", "v"};
  for (std::size_t i = 0; i < 3 * shard.size; ++i) {
    const std::size_t which = i / shard.size, at = which * layout.elements + shard.offset + i % shard.size;
    if (seen.at(i) != whole[at])
      return {true, at, seen[i], whole[at],
              fmt::format("{} of {}", names[which], place(layout, rank, shard, i % shard.size))};
  }
  return {};
}

}  // namespace lockstep::week22::decay_groups_test
