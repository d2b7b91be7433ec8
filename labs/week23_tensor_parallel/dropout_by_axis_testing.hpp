// Shared by the tests of exercise 23.8: layouts, pieces found row by row, and draws in the order of the global
// activation.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/support/text/counted.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"

namespace lockstep::week23::dropout_by_axis_test {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

inline constexpr float kP = 0.5f;  // so that the factor is 2, and whole numbers remain whole

/// Every layout of so many ranks: with tp = 1, …, p where that divides p, and with one microbatch and with two.
inline std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts;
  for (int tp = 1; tp <= ranks; ++tp)
    for (int microbatches = 1; microbatches <= 2 && ranks % tp == 0; ++microbatches)
      layouts.push_back({ranks / tp, tp, microbatches});
  return layouts;
}
inline Layout layout_of(const Case& c) { return layouts_of(c.ranks).at(c.size); }
inline CasePlan plan_of_layouts() {
  const auto sizes = [](int ranks) {
    std::vector<std::size_t> sizes(layouts_of(ranks).size());
    std::iota(sizes.begin(), sizes.end(), std::size_t{0});
    return sizes;
  };
  return {.ranks = {1, 2, 3, 4, 6, 8}, .sizes = sizes, .which = "layout"};
}

inline Position position_of(const Layout& layout, int rank, int microbatch) {
  return {rank / layout.tp, rank % layout.tp, microbatch};
}
inline std::string name_of(const Layout& layout) {
  return fmt::format("dp {}, tp {}, {}", layout.dp, layout.tp, counted(layout.microbatches, "microbatch"));
}
inline std::string name_of(const Position& here) {
  return fmt::format("(dp {}, tp {}) in microbatch {}", here.dp, here.tp, here.microbatch);
}

/// The range of 0 … count − 1 that is in chunk `index` of `chunks`, asked one by one.
inline ChunkRange chunk_by_asking(std::size_t count, int index, int chunks) {
  ChunkRange range;
  for (std::size_t i = 0; i < count; ++i)
    if (chunk_of(count, i, chunks) == index && range.size++ == 0) range.offset = i;
  return range;
}
inline Piece right_piece(const Activation& all, const Layout& layout, const Position& here, Split split) {
  const ChunkRange replica = chunk_by_asking(all.sequences, here.dp, layout.dp);
  const ChunkRange micro = chunk_by_asking(replica.size, here.microbatch, layout.microbatches);
  const std::size_t rows = micro.size * all.positions, first = (replica.offset + micro.offset) * all.positions;
  if (split == Split::columns) return {{first, rows}, chunk_by_asking(all.width, here.tp, layout.tp)};
  if (split == Split::replicated) return {{first, rows}, {0, all.width}};
  const ChunkRange own = chunk_by_asking(rows, here.tp, layout.tp);
  return {{first + own.offset, own.size}, {0, all.width}};
}

/// In place of every draw of `key` below `count`, 0 or 1/(1 − p): by the library's operation, on one rank.
inline std::vector<float> factors_of(const Random& key, float p, std::size_t count) {
  const auto program = [&](Rank me) {
    Slice ones = me.allocate(count, DType::f32, Category::activation);
    fill(me, ones, 1);
    dropout(me, ones, ones, key, p);
    const std::vector<float> values = to_host(me, ones);
    return Values(values.begin(), values.end());
  };
  const Values values = run({.ranks = 1}, Program(program)).check().values[0];
  return {values.begin(), values.end()};
}

}  // namespace lockstep::week23::dropout_by_axis_test
