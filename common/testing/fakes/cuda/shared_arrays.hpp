// The __shared__ arrays of kernels: each is a thread_local variable of its function.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::fake {

struct SharedArray {
  void* data;
  std::size_t bytes;
};

/// Returns the arrays of a kernel, and small arrays of functions that kernels call, for this host thread. Empty if the
/// program's file has no names.
std::vector<SharedArray> shared_arrays_of(const void* kernel);

}  // namespace lockstep::fake
