// GELU, tanh approximation: x · (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³), which is x · logistic(2u).
#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kGeluGrain = 8 * kTile;
constexpr float kTwice = 1.5957691216f;  // 2 √(2/π)
constexpr float kCubic = 0.044715f;

}  // namespace

void CpuDevice::gelu(const Slice& y, const Slice& x) {
  const View to(y), from(x);
  threads_.chunks(x.size(), kGeluGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      const float* in = from.read(i, n, buffer);
      float* out = to.place(i, buffer);
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) {
        const float value = in[j];
        out[j] = value * logistic(kTwice * value * (1.0f + kCubic * value * value));
      }
      to.write(i, n, out);
    });
  });
}

void CpuDevice::gelu_backward(const Slice& dx, const Slice& dy, const Slice& x) {
  const View to(dx), from_dy(dy), from_x(x);
  threads_.chunks(x.size(), kGeluGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer_x[kTile], buffer_dy[kTile];
      const float* in = from_x.read(i, n, buffer_x);
      const float* gradient = from_dy.read(i, n, buffer_dy);
      float* out = to.place(i, buffer_dy);
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) {
        const float value = in[j], square = kCubic * value * value;
        const float s = logistic(kTwice * value * (1.0f + square));
        out[j] = gradient[j] * (s + value * s * (1.0f - s) * kTwice * (1.0f + 3.0f * square));
      }
      to.write(i, n, out);
    });
  });
}

}  // namespace lockstep::cpu
