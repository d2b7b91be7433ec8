// The common beginning and end of every function of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include "common/testing/fakes/cuda/runtime.hpp"

namespace lockstep::fake {

/// State of a host thread.
struct HostThread {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};
HostThread& host_thread();

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) host_thread().last_error = error;
  return error;
}

/// Returns the error if no function can be called at all, or success.
cudaError_t absent(const Settings& settings);

/// Calls body(runtime, lock, device), unless there is no device, or it is broken.
template <typename Body>
cudaError_t call(Body body) {
  if (inside_task()) return remember(cudaErrorNotPermitted);
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t why = absent(r.settings); why != cudaSuccess) return remember(why);
  if (r.broken != cudaSuccess) return remember(r.broken);
  return remember(body(r, lock, host_thread().device));
}

/// The same for operations on a stream: body(runtime, lock, stream).
template <typename Body>
cudaError_t call_on(cudaStream_t handle, Body body) {
  return call([&](Runtime& r, Lock& lock, int device) {
    CUstream_st* const stream = r.find_stream(handle, device);
    return stream ? body(r, lock, stream) : cudaErrorInvalidResourceHandle;
  });
}

}  // namespace lockstep::fake
