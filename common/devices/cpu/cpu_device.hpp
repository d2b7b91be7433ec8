// The CPU as a Device: f32, bf16 and f16 storage, sums in f32, matrix products by a BLAS.
#pragma once

#include <memory>

namespace lockstep {

class Device;

/// A device that works with up to `threads` threads (≥ 1, the caller's included). It may be called from several threads
/// at once; who comes second works alone. Results are the same bits for any number of threads.
std::unique_ptr<Device> make_cpu_device(int threads);

/// The BLAS this was built with, for reports: "OpenBLAS 0.3.21", or "own sgemm".
const char* cpu_blas_name();

}  // namespace lockstep
