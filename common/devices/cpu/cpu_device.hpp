// The CPU as a Device: f32, bf16 and f16 storage, sums in f32, matrix products by a BLAS.
#pragma once

#include <memory>

namespace lockstep {

class Device;

/// A device that uses up to `threads` threads (≥ 1, including the caller). Several threads may call it at once; while
/// one has the workers, the others compute alone. Results are bit-identical for any number of threads.
std::unique_ptr<Device> make_cpu_device(int threads);

/// The BLAS that this was built with, for reports: "OpenBLAS 0.3.21, Zen kernels".
const char* cpu_blas_name();

}  // namespace lockstep
