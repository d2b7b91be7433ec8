// How kernels treat an index from data.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// Where to record an index outside its table; `record` is the queue's, `message` as in Fault, a literal.
struct IndexCheck {
  Fault* record;
  const char* message;
  Index limit;  // indices are below it

  /// Whether `index`, at `place` of its list, is one.
  __device__ bool operator()(std::int32_t index, Index place) const {
    if (index >= 0 && index < limit) return true;
    record_fault(index, place);
    return false;
  }
  /// All threads of a launch that come here write the same, but for `found`, which is written as one word.
  __device__ void record_fault(std::int32_t index, Index place) const {
    record->limit = limit;
    record->message = message;
    record->found = static_cast<unsigned long long>(place + 1) << 32 | static_cast<std::uint32_t>(index);
  }
};

}  // namespace lockstep::kernels
