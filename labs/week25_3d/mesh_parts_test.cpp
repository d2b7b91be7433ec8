// Tests of exercise 25.1, part d: cp and ep, which divide the axis dp.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/values.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/mesh.hpp"

namespace lockstep::week25::mesh_parts_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto rank_of = testing::answer<week25::rank_of>;
constexpr auto coordinate_of = testing::answer<week25::coordinate_of>;
constexpr auto slowest_level = testing::answer<week25::slowest_level>;
constexpr auto slowest_level_inside = testing::answer<week25::slowest_level_inside>;

/// "25.1a first: " where a rank of the mesh is elsewhere than counted along the innermost axis first, "" else.
std::string a_first(const MeshShape& shape, const AxisOrder& order = kMegatronOrder) {
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    Coordinate at;
    int rest = rank;
    for (const Axis axis : order) at[axis] = rest % shape[axis], rest /= shape[axis];
    if (rank_of(shape, order, at) != rank || coordinate_of(shape, order, rank) != at) return "25.1a first: ";
  }
  return "";
}

/// The world ranks of a group, in its order, then a mark.
void append_ranks(Rank group, const char* name, int world_rank, Values& seen) {
  if (group.size() < 1) throw Error(Verdict::fail, fmt::format("divide_axis has not set `{}`: it has no ranks", name));
  Slice all = group.allocate(static_cast<std::size_t>(group.size()), DType::f32, Category::buffer);
  fill(group, chunk(all, group.rank(), group.size()), static_cast<float>(world_rank));
  week21::ring_all_gather(group, all);
  testing::append(group, all, seen);
  seen.push_back(-1);
}

/// A world of `ranks` in reverse order, so that ranks of the world and of the axis differ, in parts of `size`.
Outcome divided(int ranks, int size) {
  return testing::run_answered({.ranks = ranks}, [=](Rank me) {
    const Rank axis = me.split(0, -me.rank());
    const AxisParts parts = divide_axis(axis, size);
    Values seen;
    append_ranks(parts.inside, "inside", axis.rank(), seen);
    append_ranks(parts.across, "across", axis.rank(), seen);
    return seen;
  });
}

/// "inside with 0 1 and across with 1 3", of two groups that end with a mark each.
std::string in_words(const Values& seen) {
  const auto mark = std::find(seen.begin(), seen.end(), -1);
  return fmt::format("inside with {} and across with {}", fmt::join(seen.begin(), mark, " "),
                     fmt::join(mark + 1, seen.end() - 1, " "));
}

TEST(Lab25_1d, EachRankIsInOneGroupInsideAndInOneAcross) {
  for (const int ranks : {1, 2, 3, 4, 6, 8})
    for (int size = 1; size <= ranks; ++size) {
      if (ranks % size != 0 || !testing::has_ranks(ranks)) continue;
      const Outcome outcome = divided(ranks, size);
      testing::record_verdict(outcome.verdict, outcome.message);
      ASSERT_TRUE(outcome.passed()) << ranks << " ranks in parts of " << size << ": " << outcome.message;
      for (int rank = 0; rank < ranks; ++rank) {
        const int axis_rank = ranks - 1 - rank;
        std::vector<double> inside, across, expected;
        for (int other = 0; other < ranks; ++other) {
          if (other / size == axis_rank / size) inside.push_back(other);
          if (other % size == axis_rank % size) across.push_back(other);
        }
        for (const auto& group : {inside, across}) {
          expected.insert(expected.end(), group.begin(), group.end());
          expected.push_back(-1);
        }
        const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
        ASSERT_TRUE(seen == expected) << fmt::format(
            "an axis of {} ranks in parts of {}: rank {} of the axis is {}, expected inside with {} (neighbours, in "
            "order) and across with {} (the same place in each part, in order)",
            ranks, size, axis_rank, in_words(seen), fmt::join(inside, " "), fmt::join(across, " "));
      }
    }
}

TEST(Lab25_1d, ASizeThatDoesNotDivideIsRefused) {
  if (!testing::has_ranks(4)) GTEST_SKIP() << "needs 4 ranks";
  for (const int size : {3, 8, 0}) {
    const Outcome refused = divided(4, size);
    EXPECT_TRUE(refused.verdict == Verdict::usage && refused.message.find('4') != std::string::npos &&
                refused.message.find(std::to_string(size)) != std::string::npos)
        << "an axis of 4 ranks in parts of " << size << " is a USAGE error that names both; it ended with "
        << (refused.message.empty() ? "success" : refused.message);
  }
  const Outcome fine = divided(4, 2);
  testing::record_verdict(fine.verdict, fine.message);
  EXPECT_TRUE(fine.passed()) << fine.message;
}

// Sums inside and then across are sums over the axis: what cp's and the replicas' averages come to.
TEST(Lab25_1d, BothTogetherReachTheWholeAxis) {
  const int ranks = std::string_view(backend_name()) == "sim" ? 8 : 4;
  if (!testing::has_ranks(ranks)) GTEST_SKIP() << "needs " << ranks << " ranks";
  const MeshShape shape{.dp = ranks / 2, .tp = 2, .pp = 1};
  const std::string first = a_first(shape);
  const Outcome outcome = testing::run_answered({.ranks = ranks}, [=](Rank me) {
    const Mesh mesh = make_mesh(me, shape);
    if (mesh.dp.size() != shape.dp)
      throw Error(Verdict::fail, fmt::format("{}the dp group is of size {}, expected {}",
                                             first.empty() ? "25.1b first: " : "", mesh.dp.size(), shape.dp));
    const AxisParts parts = divide_axis(mesh.dp, 2);
    Slice sum = me.allocate(1, DType::f32, Category::buffer);
    fill(me, sum, static_cast<float>(1 << me.rank()));
    week21::ring_all_reduce(parts.inside, sum);
    Values seen{read(me, sum, 0)};
    week21::ring_all_reduce(parts.across, sum);
    seen.push_back(read(me, sum, 0));
    return seen;
  });
  const std::string message = first + outcome.message;
  testing::record_verdict(outcome.verdict, message);
  ASSERT_TRUE(outcome.passed()) << message;
  for (int rank = 0; rank < ranks; ++rank) {
    double pair = 0, whole = 0;
    for (int other = rank % 2; other < ranks; other += 2) {
      whole += 1 << other;
      if (other / 4 == rank / 4) pair += 1 << other;
    }
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    EXPECT_EQ(seen.at(0), pair) << first << "rank " << rank << " of dp = " << ranks / 2
                                << ", tp = 2: the sum of 2^rank over the pair inside dp (make_mesh is your part b: if "
                                   "it fails, begin there)";
    EXPECT_EQ(seen.at(1), whole) << first << "rank " << rank
                                 << ": the sum of 2^rank inside, then across, is that over dp";
  }
}

TEST(Lab25_1d, RingsCloseInsideTheirPart) {
  Machine machine = Machine::uniform(1e-6, 1e-11, 1e-13);
  machine.levels = {{.name = "inside", .ranks = 4, .latency = 1e-6, .bytes_per_second = 1e11},
                    {.name = "across", .ranks = 0, .latency = 5e-6, .bytes_per_second = 5e9}};
  struct Row {
    MeshShape shape;
    AxisOrder order;
    int size, level;
  };
  constexpr AxisOrder kReplicasInside = {Axis::dp, Axis::tp, Axis::pp};
  for (const Row& row : {Row{{8, 1, 1}, kMegatronOrder, 1, -1}, Row{{8, 1, 1}, kMegatronOrder, 2, 0},
                         Row{{8, 1, 1}, kMegatronOrder, 4, 0}, Row{{8, 1, 1}, kMegatronOrder, 8, 1},
                         Row{{8, 2, 1}, kMegatronOrder, 2, 0}, Row{{8, 2, 1}, kMegatronOrder, 4, 1},
                         Row{{6, 1, 1}, kMegatronOrder, 3, 1}, Row{{4, 4, 1}, kMegatronOrder, 2, 1},
                         Row{{4, 4, 1}, kReplicasInside, 4, 0}, Row{{2, 2, 2}, kMegatronOrder, 2, 0}})
    EXPECT_EQ(slowest_level_inside(machine, row.shape, row.order, Axis::dp, row.size), row.level) << fmt::format(
        "{}(dp, tp, pp) = ({}, {}, {}), nodes of 4, {} neighbours on dp: the slowest link of all their "
        "rings, each closed from its last rank to its first",
        a_first(row.shape, row.order), row.shape.dp, row.shape.tp, row.shape.pp, row.size);
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp})
    for (const MeshShape& shape : {MeshShape{2, 4, 2}, MeshShape{3, 2, 2}, MeshShape{1, 8, 1}})
      EXPECT_EQ(slowest_level_inside(machine, shape, kMegatronOrder, axis, shape[axis]),
                slowest_level(machine, shape, kMegatronOrder, axis))
          << a_first(shape)
          << "one part as long as the axis: slowest_level_inside (found) should be slowest_level, your part c "
             "(expected)";
}

}  // namespace
}  // namespace lockstep::week25::mesh_parts_test
