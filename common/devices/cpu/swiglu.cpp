// SwiGLU (arXiv 2002.05202): silu(gate) · up, with silu(x) = x · logistic(x). A row of x is the gate, then up.
#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

std::size_t swiglu_rows_of_chunk(std::size_t width) { return std::max<std::size_t>(1, 8 * kTile / width); }

}  // namespace

void CpuDevice::swiglu(const Slice& y, const Slice& x, std::size_t width) {
  const View to(y), from(x);
  threads_.chunks(y.size() / width, swiglu_rows_of_chunk(width), [&](std::size_t first_row, std::size_t last_row) {
    for (std::size_t row = first_row; row < last_row; ++row)
      for_tiles(0, width, [&](std::size_t i, std::size_t n) {
        float buffer_gate[kTile], buffer_up[kTile];
        const float* gate = from.read(2 * row * width + i, n, buffer_gate);
        const float* up = from.read((2 * row + 1) * width + i, n, buffer_up);
        float* out = to.place(row * width + i, buffer_gate);
#pragma omp simd
        for (std::size_t j = 0; j < n; ++j) out[j] = gate[j] * logistic(gate[j]) * up[j];
        to.write(row * width + i, n, out);
      });
  });
}

void CpuDevice::swiglu_backward(const Slice& dx, const Slice& dy, const Slice& x, std::size_t width) {
  const View to(dx), from_dy(dy), from(x);
  threads_.chunks(dy.size() / width, swiglu_rows_of_chunk(width), [&](std::size_t first_row, std::size_t last_row) {
    for (std::size_t row = first_row; row < last_row; ++row)
      for_tiles(0, width, [&](std::size_t i, std::size_t n) {
        const std::size_t at_gate = 2 * row * width + i, at_up = at_gate + width;
        float buffer_gate[kTile], buffer_up[kTile], buffer_dy[kTile];
        const float* gate = from.read(at_gate, n, buffer_gate);
        const float* up = from.read(at_up, n, buffer_up);
        const float* gradient = from_dy.read(row * width + i, n, buffer_dy);
        float *dgate = to.place(at_gate, buffer_gate), *dup = to.place(at_up, buffer_up);
#pragma omp simd
        for (std::size_t j = 0; j < n; ++j) {
          const float g = gate[j], u = up[j], s = logistic(g), dout = gradient[j];
          dgate[j] = dout * u * s * (1.0f + g * (1.0f - s));
          dup[j] = dout * g * s;
        }
        to.write(at_gate, n, dgate);
        to.write(at_up, n, dup);
      });
  });
}

}  // namespace lockstep::cpu
