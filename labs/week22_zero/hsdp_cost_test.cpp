// Tests of exercise 22.8, parts b and c: bytes by level of links, and seconds.
#include "common/testing/answered.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/hsdp_testing.hpp"

namespace lockstep::week22::hsdp_testing {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto hybrid_bytes = testing::answer<week22::hybrid_bytes>;
constexpr auto hybrid_seconds = testing::answer<week22::hybrid_seconds>;

TEST(Lab22_8b, BytesAreThoseOfTheLedgers) {
  for (const int passes : {1, 3})
    run_shapes([&](Rank me, const Case& c, int g) { return window_bytes(me, c, g, passes, Across::last_pass); },
               [&](const Case& c, const Outcome& outcome, int g) -> std::string {
                 const double bytes = 4.0 * static_cast<double>(all_elements(scripted_units(scripted_table(c.size))));
                 const int k = c.ranks / g;
                 const LevelBytes said = hybrid_bytes({.nodes = k, .ranks_per_node = g, .microbatches = passes}, bytes);
                 for (std::size_t level : {0u, 1u}) {
                   const double seen = total(outcome, level) / k, formula = level == 0 ? said.inside : said.across;
                   if (!(std::abs(seen - formula) <= 1e-9 * seen))
                     return fmt::format(
                         "{} bytes of parameters, {}: a node's ranks sent {} bytes {}, and "
                         "hybrid_bytes says {} (This ran your part a: if it fails, begin there)",
                         bytes, counted(passes, "microbatch"), seen, level == 0 ? "inside the node" : "to other nodes",
                         formula);
                 }
                 return "";
               },
               kOnMain);
}

/// Fast links inside a node; between nodes one port per rank, or one for the whole node.
Machine cluster_of(int per_node, bool shared) {
  Machine machine = Machine::uniform(1e-6, 1 / 200e9, 1 / 600e9);
  machine.launch = 1e-6;
  machine.levels = {{"inside", per_node, 1e-6, 200e9, false}, {"across", 0, 4e-6, 10e9, shared}};
  return machine;
}

/// A window's communication alone: one unit, nothing to compute.
std::function<void(Rank, Slice)> communication_of(const Hybrid& shape) {
  return [shape](Rank me, const Slice& data) {
    const week21::Hierarchy groups = week21::split_by_node(me, shape.ranks_per_node);
    for (int i = 0; i < shape.microbatches; ++i) {
      week21::ring_all_gather(groups.node, data);
      week21::ring_all_gather(groups.node, data);
      week21::ring_reduce_scatter(groups.node, data);
    }
    week21::ring_all_reduce(groups.rail, chunk(data, groups.node.rank(), groups.node.size()));
  };
}

TEST(Lab22_8c, TheFormulaEqualsTheSimulator) {
  for (const Hybrid shape : {Hybrid{2, 4, 1}, Hybrid{4, 2, 3}, Hybrid{3, 3, 2}, Hybrid{1, 4, 2}, Hybrid{4, 1, 2}})
    for (const bool shared : {false, true}) {
      const int p = shape.ranks(), g = shape.ranks_per_node;
      const Machine machine = cluster_of(g, shared && g > 1);
      const auto size = static_cast<std::size_t>(p) * (shared ? 1'000'000 : 1000);
      const double expected = hybrid_seconds(shape, week21::cost_model(machine, g),
                                             week21::cost_of_all_at_once(machine, p), 4.0 * static_cast<double>(size));
      const auto seconds = week21::virtual_seconds(communication_of(shape), machine, p, {size});
      if (seconds.empty()) return;
      // Rails at one port hide each other's latency; your ring may take 5 % longer than its formula (21.2).
      const double most = shared ? 0.02 : 1e-9, ratio = expected / seconds[0];
      ASSERT_TRUE(ratio > 0.95 - most && ratio < 1 + most)
          << shape.nodes << " nodes of " << g << ", " << shape.microbatches << " microbatches"
          << (shared ? ", one port per node" : ", a port for each rank") << ": hybrid_seconds says " << expected * 1e6
          << " µs, the simulator took " << seconds[0] * 1e6
          << " µs: two gathers and a reduction of the node's array per microbatch, one all-reduce of a share on a rail";
    }
}

TEST(Lab22_8c, TheFormulaCountsMessagesBytesAndAdditions) {
  for (const Hybrid shape : {Hybrid{1, 4, 2}, Hybrid{4, 1, 2}, Hybrid{2, 4, 1}, Hybrid{3, 3, 5}}) {
    const double k = shape.nodes, g = shape.ranks_per_node, m = shape.microbatches, n = 1e6 * k * g;
    const std::string of = fmt::format("{} of {}, {}, n = {} bytes, ", counted(shape.nodes, "node"), g,
                                       counted(shape.microbatches, "microbatch"), n);
    const std::string wrong =
        week21::wrong_counts([&](week21::CostModel cost) { return hybrid_seconds(shape, cost, {}, n); },
                             {3 * m * (g - 1), 3 * m * (g - 1) / g * n, m * (g - 1) / g * n, m * (g - 1)},
                             of + "inside") +
        week21::wrong_counts([&](week21::CostModel cost) { return hybrid_seconds(shape, {}, cost, n); },
                             {2 * (k - 1), 2 * (k - 1) / k * n / g, (k - 1) / k * n / g, k - 1}, of + "across");
    if (!wrong.empty()) FAIL() << wrong;
  }
}

}  // namespace
}  // namespace lockstep::week22::hsdp_testing
