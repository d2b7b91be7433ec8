// The class behind make_cpu_device. Its methods are defined by topic: elementwise.cpp, reductions.cpp, random.cpp,
// matmul.cpp, gelu.cpp, swiglu.cpp, norm.cpp, rotary.cpp, attention.cpp, attention_block.cpp, embedding.cpp,
// cross_entropy.cpp, compression.cpp, adamw.cpp.
//
// All kernels are written once, on floats: 16-bit operands pass through small tiles that stay in the L1 cache
// (view.hpp). Loops over many rows are split into chunks whose bounds do not depend on the number of threads, and sums
// over chunks are added in chunk order, so results do not depend on it either.
#pragma once

#include "common/devices/cpu/scratch.hpp"
#include "common/devices/cpu/threads.hpp"
#include "common/runtime/device.hpp"

namespace lockstep::cpu {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {}

  LOCKSTEP_DEVICE_OPERATIONS(, override)

 private:
  void matmul_by_rows(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const float* bias);
  void matmul_by_terms(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const float* bias);
  template <bool gradient>
  void cross_entropy_rows(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                          float gradient_factor);
  template <bool centred>
  void norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight, const Slice& bias);
  template <bool centred>
  void norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy, const Slice& x,
                     const Slice& weight, const Slice& statistics, Into into);

  Threads threads_;
  Scratch scratch_;
};

}  // namespace lockstep::cpu
