// Sums over a slice, each chunk in float and the chunks in order in double; and operations based on such sums.
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/partial_sums.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kGrain = 16 * kTile;

/// Σ f(x[i]), where `tile` sums one tile.
template <class Tile>
double sum_tiles(Threads& threads, Scratch& scratch, const Slice& x, Tile tile) {
  const View view(x);
  const auto partials = scratch.take((x.size() + kGrain - 1) / kGrain);
  threads.chunks(x.size(), kGrain, [&](std::size_t first, std::size_t last) {
    float sum = 0;
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      sum += tile(view.read(i, n, buffer), n);
    });
    partials.data()[first / kGrain] = sum;
  });
  double sum = 0;
  for (std::size_t i = 0; i * kGrain < x.size(); ++i) sum += partials.data()[i];
  return sum;
}

/// True if an exponent in [first, last) is all ones: infinity or NaN.
template <class Bits>
bool any_overflow(const Bits* x, std::size_t first, std::size_t last, Bits exponent) {
  Bits found = 0;
#pragma omp simd reduction(| : found)
  for (std::size_t i = first; i < last; ++i) found |= (x[i] & exponent) == exponent ? Bits{1} : Bits{0};
  return found != 0;
}

}  // namespace

void CpuDevice::add_squares(const Slice& sum, const Slice& x) {
  const double squares = sum_tiles(threads_, scratch_, x, [](const float* values, std::size_t n) {
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (std::size_t i = 0; i < n; ++i) part += values[i] * values[i];
    return part;
  });
  *scalar(sum) = static_cast<float>(*scalar(sum) + squares);
}

void CpuDevice::add_sum(const Slice& sum, const Slice& x) {
  const double total = sum_tiles(threads_, scratch_, x, [](const float* values, std::size_t n) {
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (std::size_t i = 0; i < n; ++i) part += values[i];
    return part;
  });
  *scalar(sum) = static_cast<float>(*scalar(sum) + total);
}

void CpuDevice::clip_factor(const Slice& factor, const Slice& sum_of_squares, float max_norm) {
  const float ratio = max_norm / (std::sqrt(*scalar(sum_of_squares)) + 1e-6f);
  *scalar(factor) = ratio > 1.0f ? 1.0f : ratio;  // NaN stays NaN
}

void CpuDevice::find_overflow(const Slice& flag, const Slice& x) {
  std::atomic<bool> found{false};
  threads_.chunks(x.size(), kGrain, [&](std::size_t first, std::size_t last) {
    bool here = false;
    if (x.dtype() == DType::f32)
      here = any_overflow(static_cast<const std::uint32_t*>(x.data()), first, last, std::uint32_t{0x7f800000u});
    else
      here = any_overflow(halves(x.data()), first, last,
                          x.dtype() == DType::bf16 ? std::uint16_t{0x7f80} : std::uint16_t{0x7c00});
    if (here) found.store(true);
  });
  if (found) *scalar(flag) = 1.0f;
}

void CpuDevice::add_rows(const Slice& bias_gradient, const Matrix& x) {
  const View view(x.slice);
  const std::size_t columns = x.columns;
  PartialSums sums(scratch_, x.rows, columns);
  threads_.chunks(x.rows, sums.rows_of_chunk(), [&](std::size_t first, std::size_t last) {
    float* sum = sums.of_chunk(first);
    const auto buffer = scratch_.take(columns);
    for (std::size_t row = first; row < last; ++row) {
      const float* values = view.read(row * columns, columns, buffer.data());
#pragma omp simd
      for (std::size_t i = 0; i < columns; ++i) sum[i] += values[i];
    }
  });
  sums.add_to(View(bias_gradient), 0);
}

}  // namespace lockstep::cpu
