// A queue of one rank: a CUDA stream, and the closures that main gives to it.
//
// With checks on, a closure runs on a thread of its queue's, because it waits for the other ends of its messages.
// Without, nothing waits but the GPU: a closure runs at once, on main's thread, so that work reaches the GPU in the
// program's order. That order is alike on all ranks, as NCCL asks of programs with several communicators.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/backends/nccl/job.hpp"
#include "common/devices/cuda/backlog.hpp"
#include "common/devices/cuda/cuda_device.hpp"
#include "common/devices/cuda/range.hpp"
#include "common/devices/cuda/stream.hpp"
#include "common/runtime/processes/closure_queue.hpp"

namespace lockstep::nccl {

class Queue final : public processes::ClosureQueue<cuda::Event> {
 public:
  using Job = nccl::Job;

  Queue(Job& job, int index, std::string name) : ClosureQueue(job, index, std::move(name)), job_(job) {}
  ~Queue() override { stop(); }

  cuda::Event here() const override { return job_.events.record(stream.get()); }
  void after(const cuda::Event& then) override { stream.wait(then); }
  double time_of_closures() const override { return 0; }
  /// Tells the ledgers of the arithmetic since the last wait.
  void end_stretch();

  cuda::Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  cuda::Event stretch;                 // begin of the arithmetic since the last wait; empty: none yet
  double stretch_flop = 0;
  std::vector<cuda::OpenRegion> regions;
  cuda::Backlog backlog;  // of operations; under backlog_mutex, for the wait table
  std::mutex backlog_mutex;

 private:
  void thread_begins() override { (void)cudaSetDevice(job_.gpu); }  // each thread has its own
  void closure_ended() override {
    if (!job_.failed) end_stretch();
  }

  Job& job_;
};

}  // namespace lockstep::nccl
