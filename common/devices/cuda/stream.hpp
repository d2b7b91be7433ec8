// A CUDA stream: its work runs in order, concurrently with other streams. It never waits for the default stream, which
// is not used here.
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
  bool idle() const;                    ///< true if all work so far is done
  void synchronize() const;             ///< blocks the host until all work so far is done

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace lockstep::cuda
