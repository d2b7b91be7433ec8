// Assigns a GPU to each process, and checks whether the job can run. All processes reach the same result before NCCL is
// called.
#pragma once

#include <string>
#include <vector>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/devices/cuda/gpu.hpp"

namespace lockstep::nccl {

/// Placement of one process.
struct Placement {
  std::string host;
  int cores = 1;       // usable cores of that host, in total
  int local_rank = 0;  // rank among the processes of its host
  int gpus = 0;        // GPUs that the process sees; 0: none, and `trouble` says why
  int gpu = 0;         // index of its own among those
  std::string gpu_name;
  std::string gpu_id;  // the same for every process that sees this GPU
  std::string trouble;
  bool no_device = false;  // the trouble is that there is no GPU
};

/// Collective: the place of every process, by rank. GPU = local rank, counted on each host, unless this process's
/// launcher has given its `local_rank` (else −1).
std::vector<Placement> gather_placements(Bootstrap& bootstrap, int local_rank = -1);

/// Reason why this job cannot run, in one sentence; empty if it can. Never throws: all processes reach the same text.
struct Objection {
  std::string text;
  bool no_device = false;
};
Objection objection(const std::vector<Placement>& places, int nccl_version, bool may_share_gpus);

/// "rank 0: HOST, GPU 0 (NVIDIA H100 80GB HBM3)", one line per rank.
std::string format_binding(const std::vector<Placement>& places);

/// The oldest NCCL that splits communicators and shares their resources.
inline constexpr int kOldestNccl = 21803;
/// From this version on, NCCL_MULTI_RANK_GPU_ENABLE=1 lets ranks share a GPU.
inline constexpr int kSharingNccl = 23000;

}  // namespace lockstep::nccl
