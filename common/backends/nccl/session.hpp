// What lives as long as the process: the other processes, this one's GPU, and NCCL's communicators from run to run.
#pragma once

#include <memory>
#include <vector>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/backends/nccl/communicators.hpp"
#include "common/backends/nccl/control.hpp"
#include "common/backends/nccl/placement.hpp"
#include "common/devices/cuda/memory.hpp"
#include "common/devices/cuda/supplies.hpp"

namespace lockstep::nccl {

class Processes {
 public:
  /// Collective. Throws NoDevice or Error(usage), with the same words on every process, where the job cannot run.
  explicit Processes(const Environment& environment);

  Control& control() { return control_; }
  const std::vector<Place>& places() const { return places_; }
  int gpu() const { return places_[bootstrap_->rank()].gpu; }
  cuda::EventPool& events() { return events_; }
  cuda::DeviceMemory& memory() { return memory_; }
  cuda::Staging& staging() { return staging_; }
  const cuda::DeviceSupplies& supplies() const { return supplies_; }
  Communicators& communicators() { return communicators_; }
  /// Counts the calls of run(), alike on all processes.
  std::uint64_t next_run() { return ++runs_; }
  /// Ends every process of the job at once; the first that calls it says why.
  [[noreturn]] void end_job(const std::string& message);

 private:
  void lost(int rank);

  std::unique_ptr<Bootstrap> bootstrap_;
  std::vector<Place> places_;
  Control control_;
  cuda::EventPool events_;
  cuda::DeviceMemory memory_;
  cuda::Staging staging_;
  cuda::DeviceSupplies supplies_;
  Communicators communicators_;
  std::uint64_t runs_ = 0;
};

/// Which GPU each rank of this job has, in one line; while a Session lives.
std::string binding_of_this_job();
/// What communicators and streams of this process asked of its GPU, in the run that asked for most.
std::string load_of_this_job();

}  // namespace lockstep::nccl
