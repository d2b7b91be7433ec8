// Memory of a test's slices, and the device that computes with them. Linking chooses workplace_cpu.cpp, or
// workplace_cuda.cpp on a GPU, real or fake.
#pragma once

#include <cstddef>
#include <memory>

#include "common/runtime/device.hpp"

namespace lockstep::testing {

class Workplace {
 public:
  virtual ~Workplace() = default;
  virtual Device& device() = 0;
  /// Every byte is 0xff, which is NaN in every floating-point type.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies to the host, after all work so far.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// Throws errors that the device found in the work before the last download.
  virtual void check_work(Location where) = 0;
};

/// `threads` help a CPU; a GPU ignores them.
std::unique_ptr<Workplace> make_workplace(int threads);

}  // namespace lockstep::testing
