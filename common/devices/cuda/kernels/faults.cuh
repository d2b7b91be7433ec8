// Bounds check in kernels for indices that come from data.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// Checks an index, and records one outside its table. `record` is the queue's; `message` is a literal, as in Fault.
struct IndexCheck {
  Fault* record;
  const char* message;
  Index limit;  // indices are below it

  /// True if `index`, at `place` of its list, is inside the table.
  __device__ bool operator()(std::int32_t index, Index place) const {
    if (index >= 0 && index < limit) return true;
    record_fault(index, place);
    return false;
  }
  /// All threads of a launch that get here write the same values, except `found`, which is written as one word.
  __device__ void record_fault(std::int32_t index, Index place) const {
    record->limit = limit;
    record->message = message;
    record->found = static_cast<unsigned long long>(place + 1) << 32 | static_cast<std::uint32_t>(index);
  }
};

}  // namespace lockstep::kernels
