// A CUDA stream: work given to it is done in order, beside that of others. It never waits for the default stream, which
// nobody here uses.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "common/devices/cuda/event.hpp"

namespace lockstep::cuda {

class Stream {
 public:
  Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  cudaStream_t get() const { return stream_; }
  void wait(const Event& event) const;  ///< later work runs after it
  bool idle() const;                    ///< everything so far is done
  void synchronize() const;             ///< the host waits for everything so far

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace lockstep::cuda
