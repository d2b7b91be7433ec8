// A cluster such as "dgx-a100x128": a number of nodes of a machine file, and the links between them.
#pragma once

#include <string>

#include "common/runtime/machine/machine.hpp"

namespace lockstep::plan {

struct Cluster {
  std::string name;  ///< as requested
  Machine machine;
  int nodes = 1;
  int gpus = 1;
  std::string network;  ///< file with the links between nodes, if `name` did not give it; else ""
};

/// Finds NAMExN: N nodes of machine NAME of `folder`, a file of a node or of a cluster. For a node, the cluster file
/// with the fastest links (NAME-…) joins the nodes. Without xN, the cluster has as many ranks as the file. Throws
/// Error(usage) with one sentence that suggests the nearest name.
Cluster find_cluster(const std::string& name, const std::string& folder);

}  // namespace lockstep::plan
