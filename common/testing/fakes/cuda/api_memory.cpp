// The CUDA runtime's functions about memory: allocation, copies, pools.
#include <fmt/format.h>

#include <cstring>

#include "common/testing/fakes/cuda/call.hpp"
#include "common/testing/fakes/cuda/order.hpp"
#include "common/testing/fakes/cuda/poison.hpp"

struct CUmemPoolHandle_st {
  int device;
  std::uint64_t release_threshold;
};

using namespace lockstep::fake;

namespace {

// Allocation and release ----------------------------------------------------------------------------------------------

/// Allocates memory for work on `stream`; filled with poison in stream order.
cudaError_t allocate(Runtime& r, Lock& lock, void** result, std::size_t bytes, CUstream_st* stream) {
  if (!result || bytes == 0) return cudaErrorInvalidValue;
  const Allocation* const made = r.memory.allocate(bytes, MemoryKind::device, stream->device);
  if (!made) return cudaErrorMemoryAllocation;
  *result = made->data;
  r.add(lock, stream, {.run = [data = made->data, bytes] {
          order::writes(data, bytes);
          poison(data, bytes, Poison::allocated);
          return true;
        }});
  return cudaSuccess;
}

/// Returns the allocation that begins at `data`, if the host may free it.
Allocation* to_free(Runtime& r, const void* data, MemoryKind place) {
  Allocation* const found = r.memory.find(data);
  const std::size_t freed = found && found->freed ? found->bytes : r.memory.freed_bytes(data);
  if (freed > 0) {
    r.problem(fmt::format("{} bytes were freed twice", freed));
    return nullptr;
  }
  if (!found || found->place != place) {
    r.problem("memory was freed that was not allocated, or not in this way");
    return nullptr;
  }
  found->freed = true;
  return found;
}

void give_back(Runtime& r, void* data) {
  for (const std::string& problem : r.memory.release(r.memory.find(data))) r.problem(problem);
}

/// Marks the release as an access by the thread that frees: an unordered access by others is a race.
bool last_use(const Allocation& a) {
  order::writes(a.data, a.bytes);
  return true;
}

cudaError_t free_now(void* data, MemoryKind place) {
  if (!data) return remember(cudaSuccess);
  return call([&](Runtime& r, Lock& lock, int device) {
    Allocation* const found = to_free(r, data, place);
    if (!found) return cudaErrorInvalidValue;
    r.wait_for_all(lock, place == MemoryKind::device ? found->device : device);
    last_use(*found);
    give_back(r, data);
    return r.broken;
  });
}

cudaError_t allocate_pinned(void** result, std::size_t bytes) {
  return call([&](Runtime& r, Lock&, int device) {
    if (!result) return cudaErrorInvalidValue;
    *result = nullptr;
    if (bytes == 0) return cudaSuccess;
    r.comes_when_idle(device, fmt::format("{} bytes of pinned memory are allocated", bytes));
    const Allocation* const made = r.memory.allocate(bytes, MemoryKind::pinned, device);
    if (!made) return cudaErrorMemoryAllocation;
    poison(made->data, bytes, Poison::allocated);
    *result = made->data;
    return cudaSuccess;
  });
}

// Copies --------------------------------------------------------------------------------------------------------------

enum class Kind { device, pinned, pageable };

struct Side {
  Kind kind;
  bool right;
};

/// Describes the memory at an address, and checks that `bytes` of it may be used; otherwise reports a problem.
Side look_up(Runtime& r, const void* address, std::size_t bytes, const char* what) {
  const Allocation* const found = r.memory.containing(address);
  const std::size_t freed = found && found->freed ? found->bytes : r.memory.freed_bytes(address);
  if (freed > 0) {
    r.problem(fmt::format("{} {} bytes that were freed", what, freed));
    return {Kind::device, false};
  }
  if (!found) return {Kind::pageable, true};
  const Kind kind = found->place == MemoryKind::device ? Kind::device : Kind::pinned;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - found->data);
  if (bytes > found->bytes - offset) {
    r.problem(fmt::format("{} {} bytes at offset {} of an allocation of {}", what, bytes, offset, found->bytes));
    return {kind, false};
  }
  return {kind, true};
}

bool fits(cudaMemcpyKind kind, Kind to, Kind from) {
  const bool to_device = to == Kind::device, from_device = from == Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

/// Like CUDA: copies from pageable memory take its current contents, copies to pageable memory happen at once, and all
/// others in the stream's order.
cudaError_t copy(Runtime& r, Lock& lock, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 CUstream_st* stream) {
  if (bytes == 0) return cudaSuccess;
  const Side target = look_up(r, to, bytes, "a copy writes"), source = look_up(r, from, bytes, "a copy reads");
  if (!target.right || !source.right) return cudaErrorInvalidValue;
  if (!fits(kind, target.kind, source.kind)) {
    r.problem("a copy goes between other kinds of memory than it says");
    return cudaErrorInvalidValue;
  }
  const char* const bytes_from = static_cast<const char*>(from);
  if (source.kind == Kind::pageable) {
    r.add(lock, stream, {.run = [to, held = std::string(bytes_from, bytes)] {
            std::memcpy(to, held.data(), held.size());
            return true;
          }});
  } else {
    r.add(lock, stream, {.run = [to, from, bytes] {
            std::memmove(to, from, bytes);
            return true;
          }});
  }
  if (target.kind == Kind::pageable) r.wait(lock, r.mark(stream));
  return r.broken;
}

cudaError_t set(Runtime& r, Lock& lock, void* to, int value, std::size_t bytes, CUstream_st* stream) {
  if (bytes == 0) return cudaSuccess;
  const Side target = look_up(r, to, bytes, "a fill writes");
  if (!target.right || target.kind == Kind::pageable) return cudaErrorInvalidValue;
  r.add(lock, stream, {.run = [to, value, bytes] {
          std::memset(to, value, bytes);
          return true;
        }});
  return cudaSuccess;
}

// Pools ---------------------------------------------------------------------------------------------------------------

/// The default pool of a device. Pools hold no memory here: freed memory is released when its stream reaches the free.
cudaMemPool_t default_pool(int device) {
  static std::map<int, CUmemPoolHandle_st> pools;
  return &pools.try_emplace(device, CUmemPoolHandle_st{device, 0}).first->second;
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** result, std::size_t bytes, cudaStream_t handle) {
  return call_on(handle,
                 [&](Runtime& r, Lock& lock, CUstream_st* stream) { return allocate(r, lock, result, bytes, stream); });
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    Allocation* const found = to_free(r, data, MemoryKind::device);
    if (!found) return cudaErrorInvalidValue;
    r.add(lock, stream, {.run = [a = *found] { return last_use(a); }, .after = [&r, data] { give_back(r, data); }});
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** result, std::size_t bytes) {
  return call([&](Runtime& r, Lock& lock, int device) {
    if (!result) return cudaErrorInvalidValue;
    *result = nullptr;
    if (bytes == 0) return cudaSuccess;
    CUstream_st* const stream = r.find_stream(nullptr, device);
    const cudaError_t status = allocate(r, lock, result, bytes, stream);
    if (status == cudaSuccess) r.wait(lock, r.mark(stream));
    return status;
  });
}

cudaError_t cudaMallocHost(void** result, std::size_t bytes) { return allocate_pinned(result, bytes); }
cudaError_t cudaFreeHost(void* data) { return free_now(data, MemoryKind::pinned); }

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return call([&](Runtime& r, Lock&, int device) {
    *total_bytes = r.settings.memory_bytes;
    *free_bytes = *total_bytes - r.memory.used_bytes(device);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call([&](Runtime& r, Lock&, int) {
    *attributes = {};
    const Allocation* const found = r.memory.containing(address);
    if (!found || found->freed) {
      attributes->type = cudaMemoryTypeUnregistered;
      return cudaSuccess;
    }
    const bool device = found->place == MemoryKind::device;
    attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = found->device;
    attributes->devicePointer = const_cast<void*>(address);
    attributes->hostPointer = device ? nullptr : const_cast<void*>(address);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    return copy(r, lock, to, from, bytes, kind, stream);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return call_on(handle,
                 [&](Runtime& r, Lock& lock, CUstream_st* stream) { return set(r, lock, to, value, bytes, stream); });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call([&](Runtime& r, Lock&, int) {
    if (device < 0 || device >= r.settings.devices) return cudaErrorInvalidDevice;
    *pool = default_pool(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  return call([&](Runtime&, Lock&, int) {
    if (!pool || !value) return cudaErrorInvalidValue;
    if (which == cudaMemPoolAttrReleaseThreshold) pool->release_threshold = *static_cast<std::uint64_t*>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t) {
  return call([&](Runtime&, Lock&, int) { return pool ? cudaSuccess : cudaErrorInvalidValue; });
}

}  // extern "C"
