// Checks every CUDA call: a status other than success becomes an Error that names the call, the computer and the GPU.
// The backend adds the rank.
#pragma once

#include <cuda_runtime.h>

#include "common/error.hpp"

namespace lockstep::cuda {

/// Example: check(cudaStreamCreate(&stream), "cudaStreamCreate"). Throws Error(fail) "cudaStreamCreate: out of memory
/// (host NAME, GPU 0, at file:line)" unless `status` is success.
void check(cudaError_t status, const char* call, Location where = Location::current());

/// "host NAME, GPU 0": host of this process and GPU of the calling thread.
std::string place();

}  // namespace lockstep::cuda
