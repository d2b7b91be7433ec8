// Error message of a rejected kernel launch.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "common/devices/cuda/status.hpp"

namespace lockstep::kernels {

void check_launch(cudaError_t status, const void* kernel, const char* step) {
  if (status == cudaSuccess) return;
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) != cudaSuccess || !name) name = "?";
  cuda::check(status, fmt::format("{} of kernel {}", step, name).c_str());
}

}  // namespace lockstep::kernels
