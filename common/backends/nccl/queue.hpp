// A queue of one rank: a CUDA stream, and the closures that main launches on it.
//
// With checks on, a closure runs on its queue's thread, because it waits for the other ends of its messages. With
// checks off, only the GPU waits: a closure runs at once, on main's thread, so that work reaches the GPU in the
// program's order. That order is the same on all ranks, as NCCL requires of programs with several communicators.
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
  /// Records the arithmetic since the last wait in the ledgers.
  void end_stretch();

  cuda::Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  cuda::Event stretch;                 // start of the arithmetic since the last wait; empty: none yet
  double stretch_flop = 0;
  std::vector<cuda::OpenRegion> regions;
  cuda::Backlog backlog;  // operations not known to be done; protected by backlog_mutex, for the wait table
  std::mutex backlog_mutex;

 private:
  void thread_begins() override { (void)cudaSetDevice(job_.gpu); }  // per thread
  void closure_ended() override {
    if (!job_.failed) end_stretch();
  }

  Job& job_;
};

}  // namespace lockstep::nccl
