// The versions of CUDA, of ranks on one GPU.
#include <cublas_api.h>
#include <fmt/format.h>

#include "bench/support/versions.hpp"
#include "common/devices/cuda/gpu.hpp"

namespace lockstep::bench {

std::vector<std::pair<std::string, std::string>> library_versions() {
  const cuda::Gpu gpu = cuda::open_gpu(0);
  return {{"gpu", gpu.name},
          {"cuda", cuda::version_text(gpu.runtime)},
          {"driver", cuda::version_text(gpu.driver)},
          {"cublaslt", fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH)}};
}

std::vector<std::pair<std::string, std::string>> surroundings() { return {}; }

double gpu_memory_bytes() { return static_cast<double>(cuda::open_gpu(0).memory_bytes); }

}  // namespace lockstep::bench
