// A stable sort of small integers with the places they came from: the same result whichever block comes first, where
// atomics on floats or on places would not give that.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

struct Sorted {
  const std::int32_t* keys;    // ascending
  const std::int32_t* places;  // where each was; equal keys in their order
};

/// Bytes of workspace that sorting n keys takes.
std::size_t sort_bytes(std::size_t n);

/// Where the keys to be sorted are put: the first n integers of the workspace.
inline std::int32_t* keys_to_sort(void* workspace) { return static_cast<std::int32_t*>(workspace); }

/// Sorts the n keys in `workspace`, which are in [0, limit]. The result lies in the workspace.
Sorted sort_keys(cudaStream_t stream, void* workspace, std::size_t n, std::int64_t limit);

}  // namespace lockstep::kernels
