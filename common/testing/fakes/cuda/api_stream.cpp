// The CUDA runtime's functions about streams and events.
#include "common/testing/fakes/cuda/call.hpp"
#include "common/testing/fakes/cuda/order.hpp"

using namespace lockstep::fake;

namespace {

/// Calls body(runtime, lock, event) for an event that exists.
template <typename Body>
cudaError_t call_with(cudaEvent_t event, Body body) {
  return call([&](Runtime& r, Lock& lock, int) {
    if (r.events.count(event) == 0) {
      r.problem("an event was used that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    return body(r, lock, event);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](Runtime& r, Lock&, int device) {
    *stream = r.add_stream(device, flags != cudaStreamNonBlocking);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return remember(cudaErrorInvalidResourceHandle);
  return call_on(handle, [](Runtime& r, Lock&, CUstream_st* stream) {
    r.destroy(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call_on(handle, [](Runtime& r, Lock& lock, CUstream_st* stream) {
    const auto end = std::make_shared<Mark>(Mark{stream});
    r.add(lock, stream, {.reaches = end});
    r.wait(lock, end);
    return r.broken;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call_on(handle, [](Runtime& r, Lock& lock, CUstream_st* stream) {
    r.poll(lock, stream);
    if (!stream->tasks.empty() || stream->running) return cudaErrorNotReady;
    r.wait(lock, r.mark(stream));  // at once, so that the order is recorded
    return r.broken;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    if (r.events.count(event) == 0) {
      r.problem("a stream waits for an event that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    if (event->last) r.add(lock, stream, {.awaits = event->last});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    r.add(lock, stream, {.run = [function, data] {
            function(data);
            return true;
          }});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Runtime& r, Lock&, int) {
    *event = new CUevent_st{nullptr, (flags & cudaEventDisableTiming) == 0};
    r.events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call_with(handle, [](Runtime& r, Lock&, CUevent_st* event) {
    r.events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    if (r.events.count(event) == 0) {
      r.problem("an event was recorded that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    event->last = std::make_shared<Mark>(Mark{stream});
    r.add(lock, stream, {.reaches = event->last});
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call_with(handle, [](Runtime& r, Lock& lock, CUevent_st* event) {
    const auto mark = event->last;
    if (mark && !mark->reached) r.poll(lock, mark->stream);
    if (mark && !mark->reached) return cudaErrorNotReady;
    if (mark) order::after(mark.get());
    return r.broken;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call_with(handle, [](Runtime& r, Lock& lock, CUevent_st* event) {
    if (const auto mark = event->last) r.wait(lock, mark);
    return r.broken;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call([&](Runtime& r, Lock&, int) {
    if (r.events.count(from) == 0 || r.events.count(to) == 0) {
      r.problem("the time of an event was asked for that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    if (!from->timed || !to->timed || !from->last || !to->last) return cudaErrorInvalidResourceHandle;
    if (!from->last->reached || !to->last->reached) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((to->last->seconds - from->last->seconds) * 1e3);
    return cudaSuccess;
  });
}

}  // extern "C"

namespace lockstep::fake {

cudaError_t enqueue_attempt(cudaStream_t handle, std::function<bool()> attempt, int multiprocessors) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    r.add(lock, stream, {.run = std::move(attempt), .multiprocessors = multiprocessors});
    return cudaSuccess;
  });
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> task) {
  return enqueue_attempt(stream, [task = std::move(task)] {
    task();
    return true;
  });
}

std::uint64_t launches() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  return r.launches;
}

void count_launch() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  ++r.launches;
}

int spinning_kernels() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  return r.spinning_kernels(host_thread().device);
}

void comes_when_idle(const std::string& what) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  r.comes_when_idle(host_thread().device, what);
}

void load_code(const std::string& kernel) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  if (r.loaded.insert(kernel).second) r.comes_when_idle(host_thread().device, "code is loaded (" + kernel + ")");
}

void break_device(cudaError_t error, const std::string& why) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  r.fault(error, why);
}

}  // namespace lockstep::fake
