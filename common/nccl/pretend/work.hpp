// What one communicator does between ncclGroupStart and ncclGroupEnd: all its transfers progress together, and the work
// ends when the last has. A send ends when its receiver has everything, so an order that only a buffer would forgive
// hangs.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/nccl/pretend/wires.hpp"

namespace lockstep::pretend_nccl {

struct Operation {
  enum class Kind { send, receive, all_reduce };
  Kind kind = Kind::send;
  int peer = -1;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
};

enum class Ending { done, stopped, peer_lost, mismatch };

/// Carries out `operations` of rank `rank`; `explanation` is filled where the two ends of a message disagree, which
/// NCCL would answer with a hang or wrong memory.
Ending carry_out(const std::vector<Operation>& operations, int rank, const std::vector<Wires>& wires,
                 const StopFlag& stop, std::string& explanation);

std::size_t bytes_of(ncclDataType_t type);

}  // namespace lockstep::pretend_nccl
