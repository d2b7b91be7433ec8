// What the launchers of kernels take: raw memory with its size and type, and the stream with what belongs to it.
// C++17, without CUDA's own types but the stream.
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

/// An index that a kernel met and that lies outside its table: kernels cannot throw, so they leave this record, in
/// memory of the host, and go on as if the index had not been there. One record is kept.
struct Fault {
  unsigned long long found = 0;   // 0: none; else its place plus 1 in the upper half, the index in the lower
  std::int64_t limit = 0;         // the table's size
  const char* message = nullptr;  // with {} for the index, its place and the limit
};

/// Memory that kernels of one stream use between them. It grows and is used again: what an operation left in it is of
/// no use to the next, which runs after it.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// At least `bytes`, aligned to 256; contents undefined. Throws Error where the GPU has no more memory.
  void* take(std::size_t bytes);

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Several arrays in one workspace: the sizes first, then the arrays in the same order.
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

/// Where kernels are queued.
struct Queue {
  cudaStream_t stream;
  Workspace& workspace;
  Fault* fault;
};

/// Queues the setting of every byte. Throws Error where CUDA refuses.
void set_bytes(const Queue& queue, void* data, int value, std::size_t bytes);

}  // namespace lockstep::kernels
