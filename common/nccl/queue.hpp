// A queue of one rank: a CUDA stream, and the closures that main gives to it.
//
// With checks on, a closure runs on a thread of its queue's, because it waits for the other ends of its messages.
// Without, nothing waits but the GPU: a closure runs at once, on main's thread, so that work reaches the GPU in the
// program's order. That order is alike on all ranks, as NCCL asks of programs with several communicators.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/range.hpp"
#include "common/cuda/stream.hpp"
#include "common/device/cuda/cuda_device.hpp"
#include "common/nccl/job.hpp"

namespace lockstep::nccl {

class Lane;

/// What a queue's host code is at, for the wait table.
struct Doing {
  enum class Kind { nothing, own_code, waits_for_batch, waits_for_closure, waits_for_gpu, sets_up, finished };
  Kind kind = Kind::nothing;
  const char* operation = "";
  Location where{};
  Lane* lane = nullptr;  // waits_for_batch
  int queue = 0;         // waits_for_closure: whose
};

struct Closure {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank rank;
  Location where{};
  cuda::Event issued, ended;
};

class Queue {
 public:
  Queue(Job& job, int index, std::string name);
  ~Queue();
  Queue(const Queue&) = delete;

  /// Of queues beside main, where closures have a thread.
  void begin_thread();
  /// Ends the thread once the closure it is in has ended; the rest is dropped if the run has failed.
  void stop();
  std::thread::id thread() const { return thread_.get_id(); }

  /// `issued`: where main is.
  std::uint64_t push(std::function<void(Rank)> f, Rank rank, Location where, cuda::Event issued);
  /// Blocks until closure `number` has been given to the GPU; false if the run has failed.
  bool wait_for(std::uint64_t number);
  /// Where closure `number`, ended and not released, ended on the stream.
  cuda::Event end_of(std::uint64_t number) const;
  /// Forgets closures up to `number`, in order, and with them their hold on memory: main's stream waits for their end.
  void release(std::uint64_t number);
  std::uint64_t pushed() const { return pushed_; }  // main only, as is the next
  std::uint64_t released() const { return released_; }
  const Closure* unwaited() const { return closures_.empty() ? nullptr : closures_.front().get(); }
  /// Drops all closures; the thread has stopped.
  void clear() { closures_.clear(); }
  /// Of the closure that runs: where main called run; line 0 when none does.
  Location running() const;

  void set_doing(Doing doing);
  Doing doing() const;

  const int index;
  const std::string name;
  cuda::Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  cuda::Event stretch;                 // begin of the arithmetic since the last wait; empty: none yet
  double stretch_flop = 0;
  std::vector<cuda::OpenRegion> regions;
  std::function<void()> closure_begins;  // of the backend: on main's thread or this queue's
  std::function<void()> closure_ends;

 private:
  void serve();
  void call(Closure& closure);

  Job& job_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Closure>> closures_;  // pushed and not released
  std::uint64_t pushed_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t released_ = 0;
  bool stop_ = false;
  mutable std::mutex doing_mutex_;
  Doing doing_;
};

}  // namespace lockstep::nccl
