// Memory of the GPU in the order of a stream, and memory of the host that the GPU can reach.
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

/// From the GPU's own pool, which keeps what was freed, so that a training step's allocations cost a microsecond each.
class DeviceMemory {
 public:
  explicit DeviceMemory(int gpu);
  /// Asks done() again and again until it says yes, or the GPU has done all that it was given and so freed all that it
  /// can; throws where neither comes.
  using Await = std::function<void(const std::function<bool()>& done)>;
  /// Usable by later work of `stream`. Where the GPU is full, asks again until what is on it has been done; then throws
  /// Error(fail) "out of memory: N bytes for gradients; … of … bytes are free (host …)".
  void* allocate(std::size_t bytes, Category category, cudaStream_t stream, const Await& await);
  /// When the work given to `stream` so far is done.
  void free(void* data, cudaStream_t stream) noexcept;

 private:
  static void* try_to_allocate(std::size_t bytes, cudaStream_t stream);  // null: there is no memory
  cudaMemPool_t pool_ = nullptr;
};

/// Copies between the GPU and ordinary memory of the host, by way of pinned memory, so that the host goes on at once.
/// May be used by several threads.
class Staging {
 public:
  /// `wait(event)` blocks the calling thread until the GPU has passed it.
  explicit Staging(
      EventPool& events, std::function<void(const Event&)> wait = [](const Event& event) { event.synchronize(); })
      : events_(events), wait_(std::move(wait)) {}
  Staging(const Staging&) = delete;
  ~Staging();
  using Wait = std::function<void(const Event&)>;
  /// Takes all the pinned memory it will need, some 20 MiB: an allocation may wait until all that is on the GPU has
  /// ended, and so also for messages that others send only later. From then on it waits where it would take more.
  void prepare();
  /// `from` may change when this returns; the copy is made in the order of `stream`.
  void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait = {});
  /// `wait(event)` returns when the GPU has passed it; others may work meanwhile.
  void download(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait);

 private:
  struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
    Event last;  // of the copy it was last used for
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
  std::vector<std::unique_ptr<Buffer>> buffers_;  // prepared ones: the smallest first
  bool prepared_ = false;
};

}  // namespace lockstep::cuda
