// Layer normalisation (arXiv 1607.06450), one row at a time while it is in the L1 cache.
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/norm_rows.hpp"
#include "common/devices/cpu/partial_sums.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr float kEpsilon = 1e-5f;

struct RowStatistics {
  float mean;
  float reciprocal_deviation;
};

RowStatistics row_statistics(const float* x, std::size_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < columns; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(columns);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(columns) + kEpsilon)};
}

/// The two means that a row's dx needs; computing them also adds the row to dweight and dbias.
struct RowMeans {
  float g;       // mean of g = dy · weight
  float g_norm;  // mean of g · normalised x
};

RowMeans backward_sums(float* dweight, float* dbias, const float* dy, const float* x, const float* weight,
                       RowStatistics row, std::size_t columns) {
  float sum_g = 0, sum_g_norm = 0;
#pragma omp simd reduction(+ : sum_g, sum_g_norm)
  for (std::size_t i = 0; i < columns; ++i) {
    const float norm = (x[i] - row.mean) * row.reciprocal_deviation;
    const float g = dy[i] * weight[i];
    sum_g += g;
    sum_g_norm += g * norm;
    dweight[i] += dy[i] * norm;
    dbias[i] += dy[i];
  }
  return {sum_g / static_cast<float>(columns), sum_g_norm / static_cast<float>(columns)};
}

}  // namespace

void CpuDevice::layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,
                           const Slice& bias) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(2 * columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const float* b = View(bias).read(0, columns, parameters.data() + columns);
  const View to(y), from(x);
  float* means = scalar(statistics);
  threads_.chunks(rows, norm_rows_of_chunk(columns), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from.read(n * columns, columns, buffer.data());
      float* out = to.place(n * columns, buffer.data());
      const RowStatistics row = row_statistics(in, columns);
#pragma omp simd
      for (std::size_t i = 0; i < columns; ++i) out[i] = (in[i] - row.mean) * row.reciprocal_deviation * w[i] + b[i];
      to.write(n * columns, columns, out);
      means[n] = row.mean;
      means[rows + n] = row.reciprocal_deviation;
    }
  });
}

void CpuDevice::layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,
                                    const Slice& x, const Slice& weight, const Slice& statistics, Into into) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const View to(dx), from_dy(dy), from_x(x);
  const float* means = scalar(statistics);
  PartialSums sums(scratch_, rows, 2 * columns);
  threads_.chunks(rows, sums.rows_of_chunk(), [&](std::size_t first, std::size_t last) {
    float* dw = sums.of_chunk(first);
    const auto buffer = scratch_.take(3 * columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from_x.read(n * columns, columns, buffer.data());
      const float* gradient = from_dy.read(n * columns, columns, buffer.data() + columns);
      const RowStatistics row{means[n], means[rows + n]};
      const RowMeans mean = backward_sums(dw, dw + columns, gradient, in, w, row, columns);
      const auto dx_of = [&](std::size_t i) {
        const float norm = (in[i] - row.mean) * row.reciprocal_deviation;
        return row.reciprocal_deviation * (gradient[i] * w[i] - mean.g - norm * mean.g_norm);
      };
      store_row(to, n * columns, columns, buffer.data() + 2 * columns, into, dx_of);
    }
  });
  sums.add_to(View(dweight), 0, columns);
  sums.add_to(View(dbias), columns, columns);
}

}  // namespace lockstep::cpu
