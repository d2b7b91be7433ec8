// What the devices of one process share, taken before anything waits on its GPU. Pinned memory, a library's handle and
// the code of its kernels may come only when all that is on the GPU has ended; taken in the middle of a program, they
// would wait for messages that others send only after what this process does next.
#pragma once

#include <memory>

#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::cuda {

class DeviceSupplies {
 public:
  /// For so many devices, on the current GPU. Does one small product of each kind, and waits for them.
  explicit DeviceSupplies(int devices);
  ~DeviceSupplies();
  DeviceSupplies(const DeviceSupplies&) = delete;

  /// Fresh, for device number `index`, whose predecessor is gone.
  kernels::Fault* record(int index) const;
  const std::shared_ptr<void>& product_library() const { return product_library_; }

 private:
  void multiply_once() const;

  int devices_;
  std::shared_ptr<void> product_library_;
  kernels::Fault* records_ = nullptr;
};

}  // namespace lockstep::cuda
