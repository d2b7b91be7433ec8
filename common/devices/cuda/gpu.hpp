// The GPU that this process uses, and the reason if there is none.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::cuda {

struct Gpu {
  int index = 0;  // index among those this process may see (CUDA_VISIBLE_DEVICES)
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int driver = 0, runtime = 0;  // 13000 is CUDA 13.0
};

/// "13.0"
std::string version_text(int version);

/// Number of GPUs that this process may see. Throws NoDevice "no CUDA device (…)" without a driver or GPU, and
/// Error(fail) if the driver is older than the toolkit this program was built with.
int count_gpus();

/// Makes GPU `index` the calling thread's and describes it. Throws like count_gpus, and Error(usage) for an index that
/// does not exist, Error(fail) for a GPU that the kernels have no code for.
Gpu open_gpu(int index);

}  // namespace lockstep::cuda
