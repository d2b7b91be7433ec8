// RMSNorm (arXiv 1910.07467), one row at a time while it is in the L1 cache.
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/norm_rows.hpp"
#include "common/devices/cpu/partial_sums.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr float kRmsEpsilon = 1e-5f;

float reciprocal_root_mean_square(const float* x, std::size_t columns) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < columns; ++i) squares += x[i] * x[i];
  return 1.0f / std::sqrt(squares / static_cast<float>(columns) + kRmsEpsilon);
}

/// Adds a row to dweight. Returns the mean of dy · weight · normalised x.
float rms_backward_sums(float* dweight, const float* dy, const float* x, const float* weight, float reciprocal,
                        std::size_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < columns; ++i) {
    const float norm = x[i] * reciprocal;
    sum += dy[i] * weight[i] * norm;
    dweight[i] += dy[i] * norm;
  }
  return sum / static_cast<float>(columns);
}

}  // namespace

void CpuDevice::rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const View to(y), from(x);
  float* reciprocals = scalar(statistics);
  threads_.chunks(rows, norm_rows_of_chunk(columns), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from.read(n * columns, columns, buffer.data());
      float* out = to.place(n * columns, buffer.data());
      const float reciprocal = reciprocal_root_mean_square(in, columns);
#pragma omp simd
      for (std::size_t i = 0; i < columns; ++i) out[i] = in[i] * reciprocal * w[i];
      to.write(n * columns, columns, out);
      reciprocals[n] = reciprocal;
    }
  });
}

void CpuDevice::rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,
                                  const Slice& weight, const Slice& statistics, Into into) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const View to(dx), from_dy(dy), from_x(x);
  const float* reciprocals = scalar(statistics);
  PartialSums sums(scratch_, rows, columns);
  threads_.chunks(rows, sums.rows_of_chunk(), [&](std::size_t first, std::size_t last) {
    float* dw = sums.of_chunk(first);
    const auto buffer = scratch_.take(3 * columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from_x.read(n * columns, columns, buffer.data());
      const float* gradient = from_dy.read(n * columns, columns, buffer.data() + columns);
      const float reciprocal = reciprocals[n];
      const float mean = rms_backward_sums(dw, gradient, in, w, reciprocal, columns);
      const auto dx_of = [&](std::size_t i) { return reciprocal * (gradient[i] * w[i] - in[i] * reciprocal * mean); };
      store_row(to, n * columns, columns, buffer.data() + 2 * columns, into, dx_of);
    }
  });
  sums.add_to(View(dweight), 0);
}

}  // namespace lockstep::cpu
