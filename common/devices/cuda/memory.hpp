// GPU memory in the order of a stream, and host memory that the GPU can reach.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/devices/cuda/event.hpp"
#include "common/slice.hpp"

namespace lockstep::cuda {

/// Memory from the GPU's own pool, which keeps freed memory, so that a training step's allocations take a microsecond
/// each.
class DeviceMemory {
 public:
  explicit DeviceMemory(int gpu);
  /// Polls done() until it is true, or until the GPU has done all its work and so freed all that it can; throws if
  /// neither happens.
  using Await = std::function<void(const std::function<bool()>& done)>;
  /// Allocates memory for later work of `stream`. If the GPU is full, polls until pending work has finished; then
  /// throws Error(fail) "out of memory: N bytes for gradients at zero.cpp:9 (f); … of … bytes are free (host …)".
  void* allocate(std::size_t bytes, Category category, cudaStream_t stream, Location where, const Await& await);
  /// Frees the memory once the work given to `stream` so far is done.
  void free(void* data, cudaStream_t stream) noexcept;

 private:
  static void* try_to_allocate(std::size_t bytes, cudaStream_t stream);  // null: out of memory
  cudaMemPool_t pool_ = nullptr;
};

/// Copies between the GPU and ordinary host memory through pinned memory, so that the host can continue at once.
/// Thread-safe.
class Staging {
 public:
  /// `wait(event)` blocks the calling thread until the GPU has passed the event.
  explicit Staging(
      EventPool& events, std::function<void(const Event&)> wait = [](const Event& event) { event.synchronize(); })
      : events_(events), wait_(std::move(wait)) {}
  Staging(const Staging&) = delete;
  ~Staging();
  using Wait = std::function<void(const Event&)>;
  /// Allocates all pinned memory in advance, about 20 MiB. A later allocation could wait until all work on the GPU has
  /// ended, including messages that others send only later. After this, copies wait instead of allocating more.
  void prepare();
  /// Returns once `from` may change; the copy is made in the order of `stream`.
  void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait = {});
  /// `wait(event)` must return once the GPU has passed the event; others may work meanwhile.
  void download(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait);

 private:
  struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
    Event last;  // of the copy that last used it
    bool lent = false;
  };
  static constexpr std::size_t kLeast = 256, kPiece = 4 << 20;  // bytes of the smallest and the largest buffer
  static constexpr std::size_t kMostBuffers = 64;
  Buffer* make(std::size_t bytes);
  Buffer* find(std::size_t bytes, bool idle);
  Buffer* take(std::size_t bytes, const Wait& wait);
  void give(Buffer* buffer, Event last);

  EventPool& events_;
  std::function<void(const Event&)> wait_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // prepared ones, smallest first
  bool prepared_ = false;
};

}  // namespace lockstep::cuda
