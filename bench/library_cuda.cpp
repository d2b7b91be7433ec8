// One GPU has no library that adds up what its own ranks hold; and the versions of CUDA.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include "bench/library_all_reduce.hpp"
#include "bench/support/versions.hpp"
#include "common/cuda/gpu.hpp"

namespace lockstep::bench {

std::function<void(Rank, Slice)> library_all_reduce() { return {}; }

std::vector<std::pair<std::string, std::string>> library_versions() {
  const cuda::Gpu gpu = cuda::open_gpu(0);
  return {{"gpu", gpu.name},
          {"cuda", cuda::version_text(gpu.runtime)},
          {"driver", cuda::version_text(gpu.driver)},
          {"cublaslt", std::to_string(cublasLtGetVersion())}};
}

}  // namespace lockstep::bench
