#include "labs/trainer/plan/cluster.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep::plan {

namespace {

constexpr int kMostNodes = 1 << 16;

/// Ranks of one node: those of all levels except the outermost, if that joins nodes.
int node_ranks(const Machine& machine) {
  if (machine.capacity() != 0) return machine.capacity();
  return machine.levels.size() > 1 ? machine.levels[machine.levels.size() - 2].ranks : 1;
}

/// Returns the cluster of these nodes with the fastest links; "" if there is none.
std::string network_of(const std::string& node, const std::string& folder) {
  std::string best;
  double fastest = 0;
  for (const std::string& name : machine_names(folder)) {
    if (!name.starts_with(node + "-")) continue;
    const Machine machine = find_machine(name, folder);
    const double bandwidth = machine.levels.back().bytes_per_second;
    if (machine.capacity() != 0 || bandwidth <= fastest) continue;
    best = name;
    fastest = bandwidth;
  }
  return best;
}

/// N of "…xN", and the position of the x; 0 if there is none.
struct Count {
  int nodes = 0;
  std::size_t at = std::string::npos;
};
Count count_of(const std::string& name) {
  const std::size_t x = name.find_last_not_of("0123456789");
  if (x == name.npos || x == 0 || x + 1 == name.size() || name[x] != 'x') return {};
  const int nodes = name.size() - x > 7 ? kMostNodes + 1 : std::atoi(name.c_str() + x + 1);
  if (nodes < 1 || nodes > kMostNodes)
    throw Error(Verdict::usage, fmt::format("cluster '{}': from 1 to {} nodes", name, kMostNodes));
  return {nodes, x};
}

}  // namespace

Cluster find_cluster(const std::string& name, const std::string& folder) {
  const std::vector<std::string> known = machine_names(folder);
  const Count count = count_of(name);
  const std::string node = name.substr(0, count.at);
  const bool is_file = node.ends_with(".json");
  if (!is_file && std::find(known.begin(), known.end(), node) == known.end())
    throw Error(Verdict::usage,
                unknown_name("cluster", node, known) + " After the name come x and the number of nodes: dgx-a100x128.");
  Cluster cluster{.name = name, .machine = find_machine(node, folder), .nodes = std::max(count.nodes, 1)};
  if (cluster.machine.capacity() == 0 && count.nodes == 0)
    throw Error(Verdict::usage, fmt::format("cluster '{}' needs its number of nodes: {}x16", name, node));
  const int ranks = node_ranks(cluster.machine);
  if (cluster.nodes > 1 && cluster.machine.capacity() != 0) {
    cluster.network = network_of(node, folder);
    if (cluster.network.empty())
      throw Error(Verdict::usage, fmt::format("cluster '{}': no machine file describes a network between several {}. "
                                              "Use {}x1, or the file of a cluster (docs/use/machines.md)",
                                              name, node, node));
    cluster.machine = find_machine(cluster.network, folder);
  }
  cluster.gpus = cluster.nodes * ranks;
  return cluster;
}

}  // namespace lockstep::plan
