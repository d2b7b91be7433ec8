#include "common/cuda/stream.hpp"

#include "common/cuda/status.hpp"

namespace lockstep::cuda {

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }

Stream::~Stream() {
  if (stream_) (void)cudaStreamDestroy(stream_);
}

void Stream::wait(const Event& event) const {
  check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

}  // namespace lockstep::cuda
