// Memory passed between kernels of one stream.
#include <fmt/format.h>

#include <algorithm>

#include "common/devices/cuda/kernels/array.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::kernels {

Workspace::~Workspace() {
  if (data_) (void)cudaFreeAsync(data_, stream_);
}

void* Workspace::take(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  if (data_) cuda::check(cudaFreeAsync(std::exchange(data_, nullptr), stream_), "cudaFreeAsync");
  bytes_ = 0;
  const std::size_t wanted = std::max(bytes + bytes / 2, std::size_t{1} << 20);  // so that it rarely grows again
  cuda::check(cudaMallocAsync(&data_, wanted, stream_),
              fmt::format("cudaMallocAsync of {} bytes for the kernels' workspace", wanted).c_str());
  bytes_ = wanted;
  return data_;
}

void set_bytes(const Queue& queue, void* data, int value, std::size_t bytes) {
  cuda::check(cudaMemsetAsync(data, value, bytes, queue.stream), "cudaMemsetAsync");
}

}  // namespace lockstep::kernels
