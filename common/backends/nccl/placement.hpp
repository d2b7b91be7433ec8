// Which GPU each process gets, and whether the job can run at all: found alike by all processes, before NCCL is asked.
#pragma once

#include <string>
#include <vector>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/devices/cuda/gpu.hpp"

namespace lockstep::nccl {

/// Where one process sits.
struct Place {
  std::string host;
  int cores = 1;       // usable ones of that host, in all
  int local_rank = 0;  // among the processes of its host
  int gpus = 0;        // that the process sees; 0: none, and `trouble` says why
  int gpu = 0;         // its own, among those
  std::string gpu_name;
  std::string gpu_id;  // the same for every process that sees this GPU
  std::string trouble;
  bool no_device = false;  // the trouble is that there is no GPU
};

/// Collective: GPU = local rank, counted anew on each host, unless this process' launcher has said its `local_rank`
/// (else −1). By rank.
std::vector<Place> take_seats(Bootstrap& bootstrap, int local_rank = -1);

/// Why this job cannot run, in one sentence; empty when it can. Throws nothing: all processes come to the same words.
struct Objection {
  std::string text;
  bool no_device = false;
};
Objection objection(const std::vector<Place>& places, int nccl_version, bool may_share_gpus);

/// "rank 0: HOST, GPU 0 (NVIDIA H100 80GB HBM3)", a line a rank.
std::string format_binding(const std::vector<Place>& places);

/// The oldest NCCL that splits communicators and shares their resources.
inline constexpr int kOldestNccl = 21803;
/// From this version on, NCCL_MULTI_RANK_GPU_ENABLE=1 lets ranks share a GPU.
inline constexpr int kSharingNccl = 23000;

}  // namespace lockstep::nccl
