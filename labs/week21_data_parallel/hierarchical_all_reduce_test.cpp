// Tests of exercise 21.4: groups, exact sums, and bytes over the slow links: for each rank a g-th of a flat ring's, for
// each node hardly fewer; the gain is g rails at once and fewer slow steps.
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/support/text/counted.hpp"
#include "common/testing/answered.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21::hierarchical_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto hierarchical_seconds = testing::answer<week21::hierarchical_seconds>;
constexpr auto slow_link_bytes_of_hierarchy = testing::answer<week21::slow_link_bytes_of_hierarchy>;

struct Shape {
  int nodes, per_node;  // k and g
  int ranks() const { return nodes * per_node; }
};
const std::vector<Shape> kShapes = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {2, 3}, {2, 4}, {4, 2}, {7, 1}, {1, 8}};

Collective hierarchical(int per_node) {
  return [per_node](Rank me, Slice data) { hierarchical_all_reduce(split_by_node(me, per_node), data); };
}

/// Runs every shape's cases.
void run_shapes(const std::function<std::string(Shape, const Case&, const Outcome&)>& judge) {
  for (const Shape shape : kShapes) {
    run_cases(reduce_with(hierarchical(shape.per_node)),
              [&](const Case& c, const Outcome& outcome) {
                const std::string complaint = judge(shape, c, outcome);
                return complaint.empty() ? "" : fmt::format("nodes of {}: {}", shape.per_node, complaint);
              },
              {.ranks = {shape.ranks()}});
    if (::testing::Test::HasFailure()) return;
  }
}

// 21.4a ---------------------------------------------------------------------------------------------------------------

/// World ranks of a group's members, in its order.
Values members(Rank me, Rank group) {
  Slice numbers = me.allocate(static_cast<std::size_t>(group.size()), DType::f32, Category::buffer);
  fill(me, chunk(numbers, group.rank(), group.size()), static_cast<float>(me.rank()));
  ring_all_gather(group, numbers);
  return host(me, numbers);
}

std::string wrong_members(const char* what, const Values& seen, int rank, int first, int stride, int count) {
  Values expected;
  for (int i = 0; i < count; ++i) expected.push_back(first + i * stride);
  if (seen == expected) return "";
  return fmt::format("rank {}'s {} is ranks {}, expected {}", rank, what, fmt::join(seen, ", "),
                     fmt::join(expected, ", "));
}

TEST(Lab21_4a, NodesAndRails) {
  for (const Shape shape : kShapes) {
    const int k = shape.nodes, g = shape.per_node;
    const auto program = [g](Rank me, const Case&) {
      const Hierarchy groups = split_by_node(me, g);
      Values seen{static_cast<double>(groups.node.size())};
      for (Rank group : {groups.node, groups.rail})
        for (double member : members(me, group)) seen.push_back(member);
      return seen;
    };
    const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
      for (int rank = 0; rank < c.ranks; ++rank) {
        const Values& seen = outcome.values[rank];
        const auto rail = seen.begin() + 1 + static_cast<std::ptrdiff_t>(seen[0]);
        const std::string wrong = first_of({wrong_members("node", {seen.begin() + 1, rail}, rank, rank / g * g, 1, g),
                                            wrong_members("rail", {rail, seen.end()}, rank, rank % g, g, k)});
        if (!wrong.empty()) return fmt::format("nodes of {}: {}", g, wrong);
      }
      return "";
    };
    const CasePlan plan{.ranks = {shape.ranks()}, .sizes = sizes_of({1}), .unit = ""};
    run_cases(program, judge, plan);
    if (!HasFailure()) run_cases(in_reverse_order(program), in_reverse_order(judge), plan);
    if (HasFailure()) return;
  }
}

TEST(Lab21_4a, NodesAreEquallyLarge) {
  const auto program = [](Rank me, const Case& c) {
    split_by_node(me, 1);
    try {
      split_by_node(me, static_cast<int>(c.size));
    } catch (const Error& error) {
      return Values{error.verdict() == Verdict::usage ? 1.0 : 0.0};
    }
    return Values{0};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    return outcome.values[0][0] == 1 ? ""
                                     : fmt::format("{} ranks in nodes of {} must be refused as USAGE", c.ranks, c.size);
  };
  run_cases(program, judge, {.ranks = {5}, .sizes = sizes_of({0, 2, 8}), .unit = "rank per node"});
}

// 21.4b ---------------------------------------------------------------------------------------------------------------

TEST(Lab21_4b, SumsAreExact) {
  run_shapes([](Shape shape, const Case& c, const Outcome& outcome) {
    const int g = shape.per_node;
    return not_the_sum(outcome, c.size, [&c, g](int, std::size_t i) {
      return fmt::format("the rank at place {} in a node sums it", chunk_of(c.size, i, g));
    });
  });
}

TEST(Lab21_4b, AllRanksEndWithTheSameBits) { expect_the_same_bits_everywhere(hierarchical(2), {4, 6, 8}); }

TEST(Lab21_4b, SumsOfIntegersToo) {
  run_cases(reduce_integers_with(hierarchical(2)),
            [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); },
            {.ranks = {4}, .sizes = sizes_of({13})});
}

/// Bytes that `rank` sent to other nodes, and the first rank beyond its rail that it sent to (−1: none).
struct Across {
  std::uint64_t bytes = 0;
  int off_the_rail = -1;
};
Across across(const Outcome& outcome, int rank, int g) {
  Across result;
  for (const PeerTraffic& with : outcome.ledgers[rank].peers) {
    if (with.peer / g == rank / g || with.traffic.messages_sent == 0) continue;
    result.bytes += with.traffic.bytes_sent;
    if (with.peer % g != rank % g && result.off_the_rail < 0) result.off_the_rail = with.peer;
  }
  return result;
}

TEST(Lab21_4b, EachRankSendsAGthOfTheArrayAcross) {
  run_shapes([](Shape shape, const Case& c, const Outcome& outcome) -> std::string {
    const int k = shape.nodes, g = shape.per_node;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto [bytes, off_the_rail] = across(outcome, rank, g);
      if (off_the_rail >= 0)
        return fmt::format("rank {} sent to rank {} of another node, which is not on its rail", rank, off_the_rail);
      const std::size_t own = chunk_range(c.size, rank % g, g).size;
      const auto expected_of = [&](int way) {  // 21.2's ring goes to the next rank, or to the previous one
        const std::size_t kept = chunk_range(own, rank / g, k).size + chunk_range(own, rank / g + way, k).size;
        return (2 * own - kept) * sizeof(float);
      };
      const std::uint64_t expected = expected_of(1);
      if (k > 1 && bytes != expected && bytes != expected_of(-1))
        return fmt::format(
            "rank {} sent {} bytes of an array of {} across, expected {}: 2(k − 1)/k of its own chunk, "
            "n/g, and nothing else",
            rank, bytes, c.size * sizeof(float), expected);
    }
    return "";
  });
}

TEST(Lab21_4b, StepsAndScratch) {
  run_shapes([](Shape shape, const Case& c, const Outcome& outcome) -> std::string {
    const auto expected = static_cast<std::uint64_t>(2 * (shape.per_node - 1) + 2 * (shape.nodes - 1));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.ledgers[rank].batches > expected)
        return fmt::format("rank {} made {}, expected {}: 2(g − 1) inside, 2(k − 1) across", rank,
                           counted(outcome.ledgers[rank].batches, "exchange"), expected);
    const std::size_t longest = chunk_range(c.size, 0, shape.per_node == 1 ? shape.nodes : shape.per_node).size;
    return too_much_memory(
        c, outcome, [&](int) { return longest * sizeof(float); }, "and a scratch as long as the longest chunk");
  });
}

// 21.4c ---------------------------------------------------------------------------------------------------------------

/// Fast links inside a node; between nodes one port a rank, or one for the whole node.
Machine cluster(int per_node, bool shared) {
  Machine machine = Machine::uniform(1e-6, 1 / 200e9, 1 / 600e9);
  machine.launch = 1e-6;
  machine.levels = {{"inside", per_node, 1e-6, 200e9, false}, {"across", 0, 4e-6, 10e9, shared}};
  return machine;
}

constexpr const char* kWhoseRun = "(This ran your 21.4a and b: if they fail, begin there)";

TEST(Lab21_4c, TheFormulaEqualsTheSimulator) {
  for (const Shape shape : {Shape{2, 4}, Shape{4, 2}, Shape{3, 3}, Shape{8, 8}})
    for (bool shared : {false, true}) {
      const int k = shape.nodes, g = shape.per_node;
      const Machine machine = cluster(g, shared);
      const auto size = static_cast<std::size_t>(shape.ranks()) * (shared ? 1'000'000 : 1000);
      const CostModel rail = cost_of_all_at_once(machine, shape.ranks());
      const double expected = hierarchical_seconds(cost_model(machine, g), rail, k, g, 4.0 * static_cast<double>(size));
      const auto seconds = virtual_seconds(hierarchical(g), machine, shape.ranks(), {size});
      if (seconds.empty()) return;
      // Rails that take turns at a port hide each other's latency; your ring may take 5 % longer than its formula
      // (21.2).
      const double most = shared ? 0.02 : 1e-9, ratio = expected / seconds[0];
      ASSERT_TRUE(ratio > 0.95 - most && ratio < 1 + most)
          << k << " nodes of " << g << (shared ? " with one port each" : " with a port for each rank") << ": predicted "
          << expected * 1e6 << " µs, the simulator took " << seconds[0] * 1e6
          << " µs: 2(g − 1) steps of n/g inside, 2(k − 1) of n/(g·k) across, an addition in half of them. "
          << kWhoseRun;
    }
}

TEST(Lab21_4c, TheFormulaCountsMessagesBytesAndAdditions) {
  for (const Shape shape : {Shape{1, 4}, Shape{4, 1}, Shape{2, 4}, Shape{3, 3}}) {
    const double k = shape.nodes, g = shape.per_node, n = 1e6 * k * g;
    const auto seconds = [&](CostModel inside, CostModel across) {
      return hierarchical_seconds(inside, across, shape.nodes, shape.per_node, n);
    };
    const std::string of =
        fmt::format("{}, n = {} bytes, ", counted(shape.nodes, "node of " + std::to_string(shape.per_node)), n);
    const std::string wrong =
        wrong_counts([&](CostModel cost) { return seconds(cost, {}); },
                     {2 * (g - 1), 2 * (g - 1) / g * n, (g - 1) / g * n, g - 1}, of + "inside") +
        wrong_counts([&](CostModel cost) { return seconds({}, cost); },
                     {2 * (k - 1), 2 * (k - 1) / k * n / g, (k - 1) / k * n / g, k - 1}, of + "across");
    if (!wrong.empty()) FAIL() << wrong;
  }
}

/// Both numbers of both algorithms, from the ledgers of 2 and 4 nodes.
TEST(Lab21_4c, BytesOnTheSlowLinks) {
  for (const Shape shape : {Shape{2, 2}, Shape{2, 4}, Shape{4, 2}}) {
    const int k = shape.nodes, g = shape.per_node, rounded_down = 2 * (k - 1) / k;
    const auto judge = [&](SlowLinkBytes expected, const char* name) {
      return [=](const Case& c, const Outcome& outcome) -> std::string {
        double most = 0, node = 0;
        for (int rank = 0; rank < c.ranks; ++rank) {
          const auto bytes = static_cast<double>(across(outcome, rank, g).bytes);
          most = std::max(most, bytes);
          if (rank < g) node += bytes;
        }
        const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * b; };
        if (near(most, expected.per_rank) && near(node, expected.per_node)) return "";
        return fmt::format(
            "{} on {} nodes of {}, {} bytes: the ledgers have {} per rank and {} per node, predicted {} and {}{}. {}",
            name, k, g, c.size * sizeof(float), most, node, expected.per_rank, expected.per_node,
            expected.per_rank * g == rounded_down * 4.0 * static_cast<double>(c.size)
                ? ": 2 * (k - 1) / k of two ints is rounded down in C++"
                : "",
            kWhoseRun);
      };
    };
    const auto size = static_cast<std::size_t>(shape.ranks() * 30);
    const double n = 4.0 * static_cast<double>(size);
    const SlowLinkBytes ring = slow_link_bytes_of_ring(k, g, n), mine = slow_link_bytes_of_hierarchy(k, g, n);
    const CasePlan plan{.ranks = {shape.ranks()}, .sizes = sizes_of({size})};
    run_cases(reduce_with(ring_all_reduce), judge(ring, "the flat ring"), plan);
    run_cases(reduce_with(hierarchical(g)), judge(mine, "the hierarchy"), plan);
    if (HasFailure()) return;
    EXPECT_LT(mine.per_node / ring.per_node, 1) << "per node a little less";
    EXPECT_GT(mine.per_node / ring.per_node, 0.5) << "but hardly: (k − 1)/k against (p − 1)/p";
  }
}

/// The gain is g rails at once. Where a node has one port for all its ranks, large arrays gain next to nothing.
TEST(Lab21_4c, TheGainIsTheRails) {
  constexpr int k = 4, g = 8;
  const std::vector<std::size_t> large = {1 << 24}, small = {k * g};
  const auto gain = [&](bool shared, const std::vector<std::size_t>& size) {
    const auto flat = virtual_seconds(ring_all_reduce, cluster(g, shared), k * g, size);
    const auto mine = virtual_seconds(hierarchical(g), cluster(g, shared), k * g, size);
    return flat.empty() || mine.empty() ? 0 : flat[0] / mine[0];
  };
  const double rails = gain(false, large), one_port = gain(true, large), latency = gain(false, small);
  if (rails == 0 || one_port == 0 || latency == 0) return;
  EXPECT_GT(rails, 0.6 * g) << "eight ports a node work at once";
  EXPECT_LT(one_port, 1.5) << "one port a node carries (k − 1)/k against (p − 1)/p of 2n";
  EXPECT_GT(latency, 2) << "six slow steps instead of sixty-two";
}

}  // namespace
}  // namespace lockstep::week21::hierarchical_test
