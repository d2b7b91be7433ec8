// How kernels treat an index from data.
#pragma once

#include "common/device/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

/// Where to record an index outside its table; `record` is the queue's, `operation` a literal.
struct IndexCheck {
  Fault* record;
  const char* operation;
  Index limit;  // indices are below it

  /// Whether `index`, at `place` of its list, is one. All threads that find a wrong one write the same but `found`,
  /// which is written as one word.
  __device__ bool operator()(std::int32_t index, Index place) const {
    if (index >= 0 && index < limit) return true;
    record->limit = limit;
    record->operation = operation;
    record->found = static_cast<unsigned long long>(place + 1) << 32 | static_cast<std::uint32_t>(index);
    return false;
  }
};

}  // namespace lockstep::kernels
