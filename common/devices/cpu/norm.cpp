// Layer normalisation (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467), one row at a time while it is in the L1 cache.
// RMSNorm is layer normalisation without mean and bias.
#include <algorithm>
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/partial_sums.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

struct RowStatistics {
  float mean;  // 0 for RMSNorm
  float reciprocal_deviation;
};

/// The two means that a row's dx needs; computing them also adds the row to dweight and dbias.
struct RowMeans {
  float g;       // mean of g = dy · weight; 0 for RMSNorm
  float g_norm;  // mean of g · normalised x
};

namespace {

constexpr float kEpsilon = 1e-5f;

template <bool centred>
RowStatistics row_statistics(const float* x, std::size_t columns) {
  float sum = 0, squares = 0;
  if constexpr (centred) {
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < columns; ++i) sum += x[i];
  }
  const float mean = sum / static_cast<float>(columns);
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(columns) + kEpsilon)};
}

template <bool centred>
RowMeans backward_sums(float* dweight, float* dbias, const float* dy, const float* x, const float* weight,
                       RowStatistics row, std::size_t columns) {
  float sum_g = 0, sum_g_norm = 0;
#pragma omp simd reduction(+ : sum_g, sum_g_norm)
  for (std::size_t i = 0; i < columns; ++i) {
    const float norm = (x[i] - row.mean) * row.reciprocal_deviation;
    const float g = dy[i] * weight[i];
    sum_g_norm += g * norm;
    dweight[i] += dy[i] * norm;
    if constexpr (centred) {
      sum_g += g;
      dbias[i] += dy[i];
    }
  }
  return {sum_g / static_cast<float>(columns), sum_g_norm / static_cast<float>(columns)};
}

/// Sets elements [first, first + columns) of `to` to value_of(0 … columns − 1), or adds. `buffer`: `columns` floats.
template <class F>
void store_row(const View& to, std::size_t first, std::size_t columns, float* buffer, Into into, const F& value_of) {
  float* out = to.place(first, buffer);
  if (into == Into::accumulate) {
    const float* before = to.read(first, columns, out);
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) out[i] = before[i] + value_of(i);
  } else {
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) out[i] = value_of(i);
  }
  to.write(first, columns, out);
}

}  // namespace

template <bool centred>
void CpuDevice::norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight, const Slice& bias) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(2 * columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const float* b = centred ? View(bias).read(0, columns, parameters.data() + columns) : nullptr;
  const View to(y), from(x);
  float *means = scalar(statistics), *reciprocals = centred ? means + rows : means;
  threads_.chunks(rows, std::max<std::size_t>(1, 16 * kTile / columns), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from.read(n * columns, columns, buffer.data());
      float* out = to.place(n * columns, buffer.data());
      const RowStatistics row = row_statistics<centred>(in, columns);
#pragma omp simd
      for (std::size_t i = 0; i < columns; ++i) {
        out[i] = (in[i] - row.mean) * row.reciprocal_deviation * w[i];
        if constexpr (centred) out[i] += b[i];
      }
      to.write(n * columns, columns, out);
      means[n] = row.mean;
      reciprocals[n] = row.reciprocal_deviation;
    }
  });
}

template <bool centred>
void CpuDevice::norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,
                              const Slice& x, const Slice& weight, const Slice& statistics, Into into) {
  const std::size_t columns = weight.size(), rows = x.size() / columns;
  const auto parameters = scratch_.take(columns);
  const float* w = View(weight).read(0, columns, parameters.data());
  const View to(dx), from_dy(dy), from_x(x);
  const float *means = scalar(statistics), *reciprocals = centred ? means + rows : means;
  PartialSums sums(scratch_, rows, centred ? 2 * columns : columns);
  threads_.chunks(rows, sums.rows_of_chunk(), [&](std::size_t first, std::size_t last) {
    float* dw = sums.of_chunk(first);
    const auto buffer = scratch_.take(3 * columns);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = from_x.read(n * columns, columns, buffer.data());
      const float* gradient = from_dy.read(n * columns, columns, buffer.data() + columns);
      const RowStatistics row{centred ? means[n] : 0, reciprocals[n]};
      const RowMeans mean = backward_sums<centred>(dw, dw + columns, gradient, in, w, row, columns);
      const auto dx_of = [&](std::size_t i) {
        const float norm = (in[i] - row.mean) * row.reciprocal_deviation;
        return row.reciprocal_deviation * (gradient[i] * w[i] - mean.g - norm * mean.g_norm);
      };
      store_row(to, n * columns, columns, buffer.data() + 2 * columns, into, dx_of);
    }
  });
  sums.add_to(View(dweight), 0, columns);
  if (centred) sums.add_to(View(dbias), columns, columns);
}

void CpuDevice::layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,
                           const Slice& bias) {
  norm<true>(y, statistics, x, weight, bias);
}

void CpuDevice::layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,
                                    const Slice& x, const Slice& weight, const Slice& statistics, Into into) {
  norm_backward<true>(dx, dweight, dbias, dy, x, weight, statistics, into);
}

void CpuDevice::rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) {
  norm<false>(y, statistics, x, weight, {});
}

void CpuDevice::rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,
                                  const Slice& weight, const Slice& statistics, Into into) {
  norm_backward<false>(dx, dweight, {}, dy, x, weight, statistics, into);
}

}  // namespace lockstep::cpu
