// Arguments of the kernels' launchers: raw memory with its size and type, and the stream with its resources. C++17,
// without CUDA's types except the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/dtype.hpp"

namespace lockstep::kernels {

/// `size` elements of GPU memory.
struct Array {
  void* data = nullptr;
  std::size_t size = 0;
  DType dtype = DType::f32;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// Record of an index outside its table. Kernels cannot throw, so they leave this record in host memory and continue as
/// if the index had not been there. Only one record is kept.
struct Fault {
  unsigned long long found = 0;   // 0: none; otherwise its place plus 1 in the upper half, the index in the lower
  std::int64_t limit = 0;         // the table's size
  const char* message = nullptr;  // with {} for the index, its place and the limit
};

/// Memory shared by the kernels of one operation on a stream. It grows and is reused: an operation must not expect any
/// content in it, since operations run one after another.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// At least `bytes`, aligned to 256; contents undefined. Throws Error if the GPU is out of memory.
  void* take(std::size_t bytes);

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Splits a workspace into several arrays: first pass all sizes, then take the arrays in the same order.
class Cut {
 public:
  template <class T>
  static constexpr std::size_t bytes(std::size_t count) {
    return (count * sizeof(T) + 255) / 256 * 256;
  }
  explicit Cut(void* memory) : next_(static_cast<char*>(memory)) {}
  template <class T>
  T* next(std::size_t count) {
    char* here = next_;
    next_ += bytes<T>(count);
    return reinterpret_cast<T*>(here);
  }

 private:
  char* next_;
};

/// The place where kernels are queued.
struct Queue {
  cudaStream_t stream;
  Workspace& workspace;
  Fault* fault;
};

/// Queues a memset. Throws Error if CUDA rejects it.
void set_bytes(const Queue& queue, void* data, int value, std::size_t bytes);

}  // namespace lockstep::kernels
