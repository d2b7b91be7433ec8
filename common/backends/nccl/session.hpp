// State that lasts as long as the process: the other processes, this one's GPU, and NCCL's communicators from run to
// run.
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
  /// Collective. Throws NoDevice or Error(usage), with the same message on every process, if the job cannot run.
  explicit Processes(const Environment& environment);

  Control& control() { return control_; }
  const std::vector<Placement>& places() const { return places_; }
  int gpu() const { return places_[bootstrap_->rank()].gpu; }
  cuda::EventPool& events() { return events_; }
  cuda::DeviceMemory& memory() { return memory_; }
  cuda::Staging& staging() { return staging_; }
  const cuda::DeviceSupplies& supplies() const { return supplies_; }
  Communicators& communicators() { return communicators_; }
  /// Counts calls of run(); the same on all processes.
  std::uint64_t next_run() { return ++runs_; }
  /// Ends every process of the job at once; the first caller's message is printed.
  [[noreturn]] void end_job(const std::string& message);

 private:
  void lost(int rank);

  std::unique_ptr<Bootstrap> bootstrap_;
  std::vector<Placement> places_;
  Control control_;
  cuda::EventPool events_;
  cuda::DeviceMemory memory_;
  cuda::Staging staging_;
  cuda::DeviceSupplies supplies_;
  Communicators communicators_;
  std::uint64_t runs_ = 0;
};

/// The GPU of each rank of this job, in one line; valid while a Session exists.
std::string binding_of_this_job();
/// Resources that this process's communicators and streams needed on its GPU, in the run that needed most.
std::string load_of_this_job();

}  // namespace lockstep::nccl
