// Resources shared by the devices of one process, allocated before anything waits on its GPU. Pinned memory, a
// library's handle and the code of its kernels may become available only when all work on the GPU has ended. Allocating
// them in the middle of a program would wait for messages that others send only after this process's next step.
#pragma once

#include <memory>

#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::cuda {

class DeviceSupplies {
 public:
  /// Resources for `devices` devices, on the current GPU. Runs one small product of each kind, and waits for them.
  explicit DeviceSupplies(int devices);
  ~DeviceSupplies();
  DeviceSupplies(const DeviceSupplies&) = delete;

  /// A cleared record, for device number `index`, whose predecessor is gone.
  kernels::Fault* record(int index) const;
  const std::shared_ptr<void>& product_library() const { return product_library_; }

 private:
  void multiply_once() const;

  int devices_;
  std::shared_ptr<void> product_library_;
  kernels::Fault* records_ = nullptr;
};

}  // namespace lockstep::cuda
