// "dgx-a100x128": so many nodes of a machine file, and what joins them.
#pragma once

#include <string>

#include "common/runtime/machine/machine.hpp"

namespace lockstep::plan {

struct Cluster {
  std::string name;  ///< as asked for
  Machine machine;
  int nodes = 1;
  int gpus = 1;
  std::string network;  ///< the file whose links join the nodes, where `name` did not say it; else ""
};

/// NAMExN is N nodes of machine NAME of `folder`, which is a node's or a cluster's file; where it is a node's, the
/// cluster's file of it with the fastest links (NAME-…) joins them. Without xN: the ranks that the file says. Throws
/// Error(usage) with one sentence, which suggests the nearest name.
Cluster find_cluster(const std::string& name, const std::string& folder);

}  // namespace lockstep::plan
