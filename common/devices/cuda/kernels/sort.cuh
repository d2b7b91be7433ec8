// A stable sort of small integers together with their original places. The result does not depend on the order of
// blocks, as it would with atomics on floats or places.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

struct Sorted {
  const std::int32_t* keys;    // ascending
  const std::int32_t* places;  // original place of each; equal keys keep their order
};

/// Bytes of workspace for sorting n keys.
std::size_t sort_bytes(std::size_t n);

/// Destination of the keys to be sorted: the first n integers of the workspace.
inline std::int32_t* keys_to_sort(void* workspace) { return static_cast<std::int32_t*>(workspace); }

/// Sorts the n keys in `workspace`, which must be in [0, limit]. The result is in the workspace.
Sorted sort_keys(cudaStream_t stream, void* workspace, std::size_t n, std::int64_t limit);

}  // namespace lockstep::kernels
