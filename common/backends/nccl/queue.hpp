// A queue of one rank: a CUDA stream, and the closures that main gives to it.
//
// With checks on, a closure runs on a thread of its queue's, because it waits for the other ends of its messages.
// Without, nothing waits but the GPU: a closure runs at once, on main's thread, so that work reaches the GPU in the
// program's order. That order is alike on all ranks, as NCCL asks of programs with several communicators.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/backends/nccl/job.hpp"
#include "common/devices/cuda/backlog.hpp"
#include "common/devices/cuda/cuda_device.hpp"
#include "common/devices/cuda/range.hpp"
#include "common/devices/cuda/stream.hpp"
#include "common/runtime/processes/closure_queue.hpp"

namespace lockstep::nccl {

class Endpoint;

/// What a queue's host code is at, for the wait table.
struct Doing {
  enum class Kind {
    nothing,
    own_code,
    waits_for_batch,
    waits_for_closure,
    waits_for_gpu,
    waits_for_memory,
    sets_up,
    finished
  };
  Kind kind = Kind::nothing;
  const char* operation = "";
  Location where{};
  Endpoint* endpoint = nullptr;  // waits_for_batch
  int queue = 0;                 // waits_for_closure: whose
  std::size_t bytes = 0;         // waits_for_memory
  Category category = Category::buffer;
};

struct Closure : processes::ClosureBase {
  cuda::Event issued, ended;
};

class Queue;
struct QueueTypes {
  using Queue = nccl::Queue;
  using Job = nccl::Job;
  using Closure = nccl::Closure;
  using Doing = nccl::Doing;
};

/// Queues beside main have a thread where closures have one.
class Queue final : public processes::ClosureQueue<QueueTypes> {
 public:
  using ClosureQueue::ClosureQueue;
  ~Queue() { stop(); }

  /// `issued`: where main is.
  std::uint64_t push(std::function<void(Rank)> f, Rank rank, Location where, cuda::Event issued) {
    auto closure = make(std::move(f), rank, where);
    closure->issued = std::move(issued);
    return ClosureQueue::push(std::move(closure));
  }
  /// Where closure `number`, ended and not released, ended on the stream.
  cuda::Event end_of(std::uint64_t number) const { return numbered(number).ended; }
  /// Forgets closures up to `number`, in order, and with them their hold on memory: main's stream waits for their end.
  void release(std::uint64_t number) {
    ClosureQueue::release(number, [](const Closure&) {});
  }

  cuda::Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  cuda::Event stretch;                 // begin of the arithmetic since the last wait; empty: none yet
  double stretch_flop = 0;
  std::vector<cuda::OpenRegion> regions;
  cuda::Backlog backlog;  // of operations; under backlog_mutex, for the wait table
  std::mutex backlog_mutex;
  std::function<void()> closure_begins;  // of the backend: on main's thread or this queue's
  std::function<void()> closure_ends;

 private:
  friend class processes::ClosureQueue<QueueTypes>;
  void thread_begins() const { (void)cudaSetDevice(job_.gpu); }  // each thread has its own
  void begins(const Closure&) const { closure_begins(); }
  void call(Closure& closure) {
    stream.wait(closure.issued);
    job_.record([&](Recorder& recorder) { recorder.closure_begins(index); });
    closure.f(closure.rank);
    job_.record([&](Recorder& recorder) { recorder.closure_ends(index); });
    closure.ended = job_.events.record(stream.get());
  }
  void ends(const Closure&) const { closure_ends(); }
};

}  // namespace lockstep::nccl
