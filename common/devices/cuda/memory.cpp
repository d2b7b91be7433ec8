#include "common/devices/cuda/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/devices/cuda/status.hpp"
#include "common/runtime/errors.hpp"

namespace lockstep::cuda {

// Device memory -------------------------------------------------------------------------------------------------------

DeviceMemory::DeviceMemory(int gpu) {
  check(cudaDeviceGetDefaultMemPool(&pool_, gpu), "cudaDeviceGetDefaultMemPool");
  std::uint64_t keep = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
  // Never makes a stream wait for another only to reuse its memory: that would serialise work that may overlap.
  int allowed = 0;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &allowed), "cudaMemPoolSetAttribute");
}

void* DeviceMemory::try_to_allocate(std::size_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, bytes, stream);
  if (status == cudaSuccess) return data;
  if (status != cudaErrorMemoryAllocation) check(status, "cudaMallocAsync");
  (void)cudaGetLastError();
  return nullptr;
}

void* DeviceMemory::allocate(std::size_t bytes, Category category, cudaStream_t stream, Location where,
                             const Await& await) {
  void* data = try_to_allocate(bytes, stream);
  if (data) return data;
  await([&] { return (data = try_to_allocate(bytes, stream)) != nullptr; });
  if (data) return data;
  check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");  // pieces that are too small by themselves
  data = try_to_allocate(bytes, stream);
  if (data) return data;
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  throw Error(Verdict::fail,
              fmt::format("{}; {} of {} bytes are free ({})", out_of_memory(bytes, category, where).what(), free_bytes,
                          total_bytes, place()));
}

void DeviceMemory::free(void* data, cudaStream_t stream) noexcept {
  // A failure here follows one already reported; the GPU does no more work.
  if (data && cudaFreeAsync(data, stream) != cudaSuccess) (void)cudaGetLastError();
}

// Pinned memory -------------------------------------------------------------------------------------------------------

Staging::~Staging() {
  for (const auto& buffer : buffers_) (void)cudaFreeHost(buffer->data);
}

Staging::Buffer* Staging::make(std::size_t bytes) {
  auto fresh = std::make_unique<Buffer>();
  fresh->bytes = bytes;
  check(cudaMallocHost(&fresh->data, bytes), "cudaMallocHost");
  return buffers_.emplace_back(std::move(fresh)).get();
}

void Staging::prepare() {
  constexpr std::size_t kSmall = 64 << 10, kMedium = 1 << 20;
  for (std::size_t bytes = kLeast; bytes <= kPiece; bytes *= 2)
    for (int i = 0; i < (bytes <= kSmall ? 8 : bytes <= kMedium ? 4 : 2); ++i) make(bytes);
  prepared_ = true;
}

/// Among prepared buffers, the smallest that is large enough; otherwise one of exactly this size, so that small copies
/// do not use up large buffers.
Staging::Buffer* Staging::find(std::size_t bytes, bool idle) {
  for (const auto& buffer : buffers_)
    if (!buffer->lent && (prepared_ ? buffer->bytes >= bytes : buffer->bytes == bytes) &&
        (!idle || !buffer->last || buffer->last.done()))
      return buffer.get();
  return nullptr;
}

Staging::Buffer* Staging::take(std::size_t bytes, const Wait& wait) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kLeast));
  std::unique_lock lock(mutex_);
  Buffer* buffer = find(size, /*idle=*/true);
  if (!buffer && (prepared_ || buffers_.size() >= kMostBuffers)) {
    buffer = find(size, /*idle=*/false);
    if (buffer) {
      buffer->lent = true;  // reserved, while others may use the rest
      const Event last = buffer->last;
      lock.unlock();
      struct Return {  // also runs if the wait ends with the run
        Staging& staging;
        Buffer* buffer;
        const Event& last;
        bool waited = false;
        ~Return() {
          if (!waited) staging.give(buffer, last);
        }
      } give_back{*this, buffer, last};
      (wait ? wait : wait_)(last);
      give_back.waited = true;
      return buffer;
    }
  }
  if (!buffer) buffer = make(size);
  buffer->lent = true;
  return buffer;
}

void Staging::give(Buffer* buffer, Event last) {
  std::lock_guard lock(mutex_);
  buffer->last = std::move(last);
  buffer->lent = false;
}

void Staging::upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait) {
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    Buffer* buffer = take(piece, wait);
    std::memcpy(buffer->data, static_cast<const char*>(from) + at, piece);
    check(cudaMemcpyAsync(static_cast<char*>(to) + at, buffer->data, piece, cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync to the GPU");
    give(buffer, events_.record(stream));
  }
}

void Staging::download(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const Wait& wait) {
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    Buffer* buffer = take(piece, wait);
    check(cudaMemcpyAsync(buffer->data, static_cast<const char*>(from) + at, piece, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync to the host");
    const Event copied = events_.record(stream);
    struct Return {  // also runs if the run ends meanwhile
      Staging& staging;
      Buffer* buffer;
      const Event& last;
      ~Return() { staging.give(buffer, last); }
    } give_back{*this, buffer, copied};
    wait(copied);
    std::memcpy(static_cast<char*>(to) + at, buffer->data, piece);
  }
}

}  // namespace lockstep::cuda
