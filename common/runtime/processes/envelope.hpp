// Description of a message that its sender passes to the receiver, to compare both ends and to explain differences.
#pragma once

#include <cstdint>
#include <string>

#include "common/runtime/processes/endpoint_core.hpp"

namespace lockstep::processes {

struct Envelope {
  std::uint64_t bytes = 0;
  DType dtype = DType::f32;
  char region[40] = "";  // the collective it is part of; empty: none
  char where[80] = "";   // source line, as text
};
Envelope envelope_of(const TransferBatchCore& batch, const Transfer& transfer);

/// The sender's side: "rank 1 sends 3 fp32 at ring.cpp:31 (all_gather) in region "all_reduce"".
std::string format_sender(int from, const Envelope& sent);

/// Difference between a message and the receive of rank `to`; empty if none. `members`: the group's world ranks.
std::string mismatch(const std::vector<int>& members, const Envelope& sent, int to, const TransferBatchCore& batch,
                     const Transfer& receive);

}  // namespace lockstep::processes
