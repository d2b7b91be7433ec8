// Tests of exercise 25.1: ranks and coordinates, the groups of every rank, and the price of a wrong placement.
#include "labs/week25_3d/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week25::mesh_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto rank_of = testing::answer<week25::rank_of>;
constexpr auto coordinate_of = testing::answer<week25::coordinate_of>;
constexpr auto slowest_level = testing::answer<week25::slowest_level>;

constexpr std::array<Axis, 3> kAxes = {Axis::dp, Axis::tp, Axis::pp};
constexpr AxisOrder kTensorOutside = {Axis::dp, Axis::pp, Axis::tp};
const std::vector<AxisOrder> kOrders = {kMegatronOrder,
                                        kTensorOutside,
                                        {Axis::pp, Axis::tp, Axis::dp},
                                        {Axis::tp, Axis::pp, Axis::dp},
                                        {Axis::dp, Axis::tp, Axis::pp},
                                        {Axis::pp, Axis::dp, Axis::tp}};

/// All of up to 12 ranks. With --seed one more is drawn, of 12 to 150.
std::vector<MeshShape> shapes() {
  std::vector<MeshShape> all;
  for (int ranks = 1; ranks <= 12; ++ranks)
    for (int dp = 1; dp <= ranks; ++dp)
      for (int tp = 1; tp * dp <= ranks; ++tp)
        if (ranks % (dp * tp) == 0) all.push_back({dp, tp, ranks / dp / tp});
  if (testing::draws()) {
    const auto axis = [](std::uint64_t which) { return 2 + static_cast<int>(testing::drawn({25, which}, 4)); };
    all.push_back({axis(1), 1 + axis(2), axis(3)});
  }
  return all;
}

std::string name_of(Axis axis) { return axis == Axis::dp ? "dp" : axis == Axis::tp ? "tp" : "pp"; }
std::string words(const MeshShape& shape, const AxisOrder& order) {
  return fmt::format("(dp, tp, pp) = ({}, {}, {}), {} innermost: ", shape.dp, shape.tp, shape.pp, name_of(order[0]));
}
std::string words(const Coordinate& at) { return fmt::format("(dp {}, tp {}, pp {})", at.dp, at.tp, at.pp); }

/// The ranks in order, counted: what rank_of must give. Walks through the mesh as an odometer does.
std::vector<Coordinate> walk(const MeshShape& shape, const AxisOrder& order) {
  std::vector<Coordinate> all;
  Coordinate at;
  for (at[order[2]] = 0; at[order[2]] < shape[order[2]]; ++at[order[2]])
    for (at[order[1]] = 0; at[order[1]] < shape[order[1]]; ++at[order[1]])
      for (at[order[0]] = 0; at[order[0]] < shape[order[0]]; ++at[order[0]]) all.push_back(at);
  return all;
}

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_1a, RanksCountAlongTheInnermostAxisFirst) {
  for (const MeshShape& shape : shapes())
    for (const AxisOrder& order : kOrders) {
      const std::vector<Coordinate> all = walk(shape, order);
      for (int rank = 0; rank < shape.ranks(); ++rank) {
        const Coordinate& at = all[static_cast<std::size_t>(rank)];
        ASSERT_EQ(rank_of(shape, order, at), rank) << words(shape, order) << words(at) << " is rank " << rank
                                                   << ": ranks count along the innermost axis first";
      }
    }
}

TEST(Lab25_1a, CoordinatesAreTheInverse) {
  for (const MeshShape& shape : shapes())
    for (const AxisOrder& order : kOrders) {
      const std::vector<Coordinate> all = walk(shape, order);
      for (int rank = 0; rank < shape.ranks(); ++rank) {
        const Coordinate at = coordinate_of(shape, order, rank);
        ASSERT_EQ(at, all[static_cast<std::size_t>(rank)])
            << words(shape, order) << "rank " << rank << " is not at " << words(at) << " but at "
            << words(all[static_cast<std::size_t>(rank)]);
      }
    }
}

// Part b --------------------------------------------------------------------------------------------------------------

/// A group without ranks was never made, or by split with a negative colour: nothing can be sent in it.
void need_ranks(const Rank& group, Axis axis) {
  if (group.size() > 0) return;
  const std::string name = name_of(axis) + " group";
  throw Error(Verdict::fail, group.group() < 0 ? "make_mesh splits its " + name +
                                                     " with a negative colour, which joins no group: it has no ranks"
                                               : "make_mesh has not set its " + name + ": it has no ranks");
}

/// The world ranks of a group, in its order, as seen by one of its members.
void append_members(Rank group, Axis axis, int world_rank, Values& seen) {
  need_ranks(group, axis);
  seen.push_back(group.size());
  Slice all = group.allocate(static_cast<std::size_t>(group.size()), DType::f32, Category::buffer);
  fill(group, chunk(all, group.rank(), group.size()), static_cast<float>(world_rank));
  week21::ring_all_gather(group, all);
  testing::append(group, all, seen);
}

/// The ranks that differ from `rank` only on `axis`, in rank order, which is also the axis's.
std::vector<double> peers(const std::vector<Coordinate>& all, std::size_t rank, Axis axis) {
  std::vector<double> ranks;
  for (std::size_t other = 0; other < all.size(); ++other) {
    Coordinate same = all[other];
    same[axis] = all[rank][axis];
    if (same == all[rank]) ranks.push_back(static_cast<double>(other));
  }
  return ranks;
}

std::string wrong_groups(const Outcome& outcome, const MeshShape& shape, const AxisOrder& order) {
  const std::vector<Coordinate> all = walk(shape, order);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {  // first, because groups are made of it
    const Values& seen = outcome.values[rank];
    const Coordinate here{static_cast<int>(seen.at(0)), static_cast<int>(seen.at(1)), static_cast<int>(seen.at(2))};
    if (here != all[rank])
      return fmt::format("{}on rank {} mesh.here is {}, expected {}{}", words(shape, order), rank, words(here),
                         words(all[rank]), here == Coordinate{} ? ": has make_mesh set it?" : "");
    if (seen.at(3) != static_cast<double>(rank))
      return fmt::format("{}mesh.world is not the group that make_mesh was given", words(shape, order));
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Values& seen = outcome.values[rank];
    std::size_t i = 4;
    for (Axis axis : kAxes) {
      const std::vector<double> expected = peers(all, rank, axis);
      const auto size = static_cast<std::size_t>(seen.at(i++));
      const std::vector<double> members(seen.begin() + static_cast<std::ptrdiff_t>(i),
                                        seen.begin() + static_cast<std::ptrdiff_t>(i + size));
      i += size;
      if (members == expected) continue;
      std::string wrong = fmt::format(
          "{}the {} group of rank {} has ranks {}, expected {}: those that differ only on {}", words(shape, order),
          name_of(axis), rank, fmt::join(members, " "), fmt::join(expected, " "), name_of(axis));
      for (Axis other : kAxes)
        if (members == peers(all, rank, other) && members.size() > 1)
          wrong += fmt::format(
              ". It is the {} group. Is one axis taken for another, or do the ranks make their splits in different "
              "orders?",
              name_of(other));
      return wrong;
    }
  }
  return "";
}

TEST(Lab25_1b, GroupsDifferOnTheirAxisAlone) {
  for (const MeshShape& shape : shapes())
    for (const AxisOrder& order : kOrders) {
      if (shape.ranks() > 8) continue;
      const auto program = [&](Rank me) {
        Mesh mesh = make_mesh(me, shape, order);
        Values seen;
        for (const int value : {mesh.here.dp, mesh.here.tp, mesh.here.pp, mesh.world.rank()}) seen.push_back(value);
        append_members(mesh.dp, Axis::dp, me.rank(), seen);
        append_members(mesh.tp, Axis::tp, me.rank(), seen);
        append_members(mesh.pp, Axis::pp, me.rank(), seen);
        return seen;
      };
      RunOptions options{.ranks = shape.ranks()};
      if (std::string_view(backend_name()) != "sim" && options.ranks > 4) continue;
      if (!testing::has_ranks(options.ranks)) continue;
      const Outcome outcome = testing::run_answered(options, program);
      testing::record_verdict(outcome.verdict, outcome.message);
      ASSERT_TRUE(outcome.passed()) << words(shape, order) << outcome.message;
      if (const std::string wrong = wrong_groups(outcome, shape, order); !wrong.empty()) FAIL() << wrong;
    }
}

TEST(Lab25_1b, AShapeOfAnotherSizeIsRefused) {
  if (!testing::has_ranks(2)) GTEST_SKIP() << "needs 2 ranks";
  const auto made = [](const MeshShape& shape) {
    return testing::run_answered({.ranks = 2}, [&](Rank me) { return make_mesh(me, shape), Values{}; });
  };
  const Outcome outcome = made({.dp = 1, .tp = 1, .pp = 2});
  testing::record_verdict(outcome.verdict, outcome.message);
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const Outcome refused = made({.dp = 2, .tp = 2, .pp = 1});
  EXPECT_TRUE(refused.verdict == Verdict::usage && refused.message.find("4 ranks, not 2") != std::string::npos)
      << "a mesh of 2 × 2 × 1 on 2 ranks is a USAGE error that names \"4 ranks, not 2\"; it ended with "
      << (refused.message.empty() ? "success" : refused.message);
}

// Part c --------------------------------------------------------------------------------------------------------------

/// Nodes of four ranks, and a network twenty times slower between them.
Machine nodes_of_four() {
  Machine machine = Machine::uniform(1e-6, 1e-11, 1e-13);
  machine.levels = {{.name = "inside", .ranks = 4, .latency = 1e-6, .bytes_per_second = 1e11},
                    {.name = "across", .ranks = 0, .latency = 5e-6, .bytes_per_second = 5e9}};
  return machine;
}

/// "25.1a first: … " where the ranks of a mesh are counted in another order, "" else. Part c asks for them.
std::string a_first(const MeshShape& shape, const AxisOrder& order) {
  const std::vector<Coordinate> all = walk(shape, order);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (const int yours = rank_of(shape, order, all[rank]); yours != static_cast<int>(rank))
      return fmt::format("25.1a first: {} is rank {}, and yours is {}. ", words(all[rank]), rank, yours);
  return "";
}

TEST(Lab25_1c, TheSlowestLinkOfEveryRing) {
  const Machine machine = nodes_of_four();
  struct Row {
    MeshShape shape;
    AxisOrder order;
    int dp, tp, pp;
  };
  for (const Row& row : {Row{{2, 4, 2}, kMegatronOrder, 1, 0, 1}, Row{{2, 4, 2}, kTensorOutside, 0, 1, 0},
                         Row{{2, 2, 2}, kMegatronOrder, 0, 0, 1}, Row{{1, 8, 1}, kMegatronOrder, -1, 1, -1},
                         Row{{1, 3, 2}, kMegatronOrder, -1, 1, 1}, Row{{1, 1, 1}, kMegatronOrder, -1, -1, -1},
                         Row{{4, 1, 1}, kTensorOutside, 0, -1, -1}, Row{{1, 3, 1}, kMegatronOrder, -1, 0, -1}}) {
    EXPECT_EQ(slowest_level(machine, row.shape, row.order, Axis::dp), row.dp)
        << a_first(row.shape, row.order) << words(row.shape, row.order) << "dp: of all groups, the slowest link";
    EXPECT_EQ(slowest_level(machine, row.shape, row.order, Axis::tp), row.tp)
        << a_first(row.shape, row.order) << words(row.shape, row.order) << "tp: of all groups, the slowest link";
    EXPECT_EQ(slowest_level(machine, row.shape, row.order, Axis::pp), row.pp)
        << a_first(row.shape, row.order) << words(row.shape, row.order) << "pp: of all groups, the slowest link";
  }
}

/// The level between two ranks, of which `sizes` belong together: 2 in a socket, 6 in a node, …
int level_of(const std::vector<int>& sizes, int a, int b) {
  int level = 0;
  while (level < static_cast<int>(sizes.size()) &&
         a / sizes[static_cast<std::size_t>(level)] != b / sizes[static_cast<std::size_t>(level)])
    ++level;
  return level;
}

TEST(Lab25_1c, OnEveryMeshOfAMachineOfThreeLevels) {
  Machine machine = Machine::uniform(1e-6, 1e-11, 1e-13);
  const int socket = 2 + static_cast<int>(testing::drawn({25, 4}, 3)),
            node = socket * (3 + static_cast<int>(testing::drawn({25, 5}, 3)));
  machine.levels = {{.name = "socket", .ranks = socket, .latency = 1e-6, .bytes_per_second = 1e11},
                    {.name = "node", .ranks = node, .latency = 2e-6, .bytes_per_second = 5e10},
                    {.name = "network", .ranks = 0, .latency = 5e-6, .bytes_per_second = 5e9}};
  for (const MeshShape& shape : shapes())
    for (const AxisOrder& order : kOrders) {
      const std::vector<Coordinate> all = walk(shape, order);
      for (Axis axis : kAxes) {
        int slowest = -1;
        for (std::size_t a = 0; a < all.size(); ++a)
          for (std::size_t b = 0; b < all.size(); ++b) {
            Coordinate next = all[a];
            next[axis] = all[a][axis] + 1 == shape[axis] ? 0 : all[a][axis] + 1;
            if (a != b && all[b] == next)
              slowest = std::max(slowest, level_of({socket, node}, static_cast<int>(a), static_cast<int>(b)));
          }
        ASSERT_EQ(slowest_level(machine, shape, order, axis), slowest)
            << words(shape, order) << name_of(axis) << ": the outermost level of any link of its rings, also of that "
            << "from the last to the first. Levels: sockets of " << socket << ", nodes of " << node << ", the network";
      }
    }
}

/// A tensor-parallel sum of activations, on every group at once, in virtual time.
TEST(Lab25_1c, TensorParallelismBelongsInsideTheNode) {
  if (std::string_view(backend_name()) != "sim") GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const auto b_alone = [](Verdict verdict) { return verdict == Verdict::fail || verdict == Verdict::deadlock; };
  const auto seconds = [&](const AxisOrder& order) {
    RunOptions options{.ranks = 16, .machine = nodes_of_four(), .phantom = true};
    const auto program = [&](Rank me) {
      const Mesh mesh = make_mesh(me, {.dp = 2, .tp = 4, .pp = 2}, order);
      need_ranks(mesh.tp, Axis::tp);
      week21::ring_all_reduce(mesh.tp, me.allocate(1 << 20, DType::f32, Category::activation));
      return Values{};
    };
    const Outcome outcome = testing::run_answered(options, program);
    const std::string message = (b_alone(outcome.verdict) ? "25.1b first: " : "") + outcome.message;
    testing::record_verdict(outcome.verdict, message);
    EXPECT_TRUE(outcome.passed()) << message;
    return outcome.seconds;
  };
  const double inside = seconds(kMegatronOrder), outside = seconds(kTensorOutside);
  if (HasFailure()) return;
  testing::note(fmt::format("4 MiB summed over tp = 4: {:.1f} µs inside the node, {:.1f} µs across: {:.1f} times",
                            inside * 1e6, outside * 1e6, outside / inside));
  if (!(outside > 10 * inside))
    ADD_FAILURE() << fmt::format(
        "4 MiB summed over four ranks: {:.1f} µs with tp innermost, {:.1f} µs with tp outermost, expected more than 10 "
        "times as long: there every link crosses the network (make_mesh is your part b: if it fails, begin there)",
        inside * 1e6, outside * 1e6);
  EXPECT_EQ(slowest_level(nodes_of_four(), {.dp = 2, .tp = 4, .pp = 2}, kMegatronOrder, Axis::tp), 0)
      << "tp = 4 inside nodes of four: no link crosses the network";
}

}  // namespace
}  // namespace lockstep::week25::mesh_test
