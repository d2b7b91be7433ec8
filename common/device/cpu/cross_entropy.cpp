// Softmax cross-entropy, a row of logits at a time: maximum, exponentials and their sum, and the gradient in place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/device/cpu/device_class.hpp"
#include "common/device/cpu/functions.hpp"
#include "common/device/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::int32_t kIgnored = -1;

void check_targets(const std::int32_t* targets, std::size_t count, std::size_t vocabulary) {
  for (std::size_t n = 0; n < count; ++n)
    if (targets[n] < kIgnored || (targets[n] >= 0 && static_cast<std::size_t>(targets[n]) >= vocabulary))
      throw std::out_of_range(
          fmt::format("target {} of row {} is neither −1 nor inside a vocabulary of {}", targets[n], n, vocabulary));
}

float maximum_of(const float* x, std::size_t n) {
  float maximum = x[0];
#pragma omp simd reduction(max : maximum)
  for (std::size_t i = 0; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

/// Σ exp(x[i] − maximum).
float sum_exponentials(const float* x, std::size_t n, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += exponential(x[i] - maximum);
  return sum;
}

/// The same, and y[i] = exp(x[i] − maximum).
float exponentials(float* y, const float* x, std::size_t n, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = exponential(x[i] - maximum);
    sum += y[i];
  }
  return sum;
}

void scale_row(float* x, std::size_t n, float factor) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

template <bool gradient>
void CpuDevice::cross_entropy_rows(const Slice& loss, const Slice& logits, const Slice& targets, float factor) {
  const std::size_t rows = targets.size(), vocabulary = logits.size() / rows;
  const auto* target = static_cast<const std::int32_t*>(targets.data());
  check_targets(target, rows, vocabulary);
  const View view(logits);
  const auto losses = scratch_.take(rows);
  const std::size_t rows_of_chunk = std::max<std::size_t>(1, 8 * kTile / vocabulary);
  threads_.chunks(rows, rows_of_chunk, [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(view.direct() ? 0 : vocabulary);
    for (std::size_t n = first; n < last; ++n) {
      float* out = view.place(n * vocabulary, buffer.data());
      if (target[n] == kIgnored) {
        losses.data()[n] = 0;
        if constexpr (gradient) {
          std::fill_n(out, vocabulary, 0.0f);
          view.write(n * vocabulary, vocabulary, out);
        }
        continue;
      }
      const float* in = view.read(n * vocabulary, vocabulary, buffer.data());
      const float maximum = maximum_of(in, vocabulary), right = in[target[n]];
      float sum = 0;
      if constexpr (gradient) {
        sum = exponentials(out, in, vocabulary, maximum);
        scale_row(out, vocabulary, factor / sum);
        out[target[n]] -= factor;
        view.write(n * vocabulary, vocabulary, out);
      } else {
        sum = sum_exponentials(in, vocabulary, maximum);
      }
      losses.data()[n] = std::log(sum) + (maximum - right);
    }
  });
  double total = 0;
  for (std::size_t n = 0; n < rows; ++n) total += losses.data()[n];
  *scalar(loss) = static_cast<float>(*scalar(loss) + factor * total);
}

void CpuDevice::cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor) {
  cross_entropy_rows<true>(loss, logits, targets, factor);
}

void CpuDevice::cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) {
  cross_entropy_rows<false>(loss, logits, targets, factor);
}

}  // namespace lockstep::cpu
