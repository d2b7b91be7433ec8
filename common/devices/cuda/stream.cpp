#include "common/devices/cuda/stream.hpp"

#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }

Stream::~Stream() {
  if (stream_) (void)cudaStreamDestroy(stream_);
}

void Stream::wait(const Event& event) const {
  check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

bool Stream::idle() const {
  const cudaError_t status = cudaStreamQuery(stream_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "cudaStreamQuery");
  return true;
}

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

}  // namespace lockstep::cuda
