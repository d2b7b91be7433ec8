// Softmax cross-entropy, one row of logits at a time: maximum, exponentials and their sum, and the gradient in place.
// For a sharded vocabulary, each shard's part of a row's sum, and the gradient once all parts are known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/view.hpp"

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

/// The same, and stores y[i] = exp(x[i] − maximum).
float exponentials(float* y, const float* x, std::size_t n, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = exponential(x[i] - maximum);
    sum += y[i];
  }
  return sum;
}

bool holds(VocabularyShard shard, std::int32_t token) {
  return token >= 0 && static_cast<std::size_t>(token) >= shard.first &&
         static_cast<std::size_t>(token) - shard.first < shard.count;
}

std::size_t rows_of_chunk(std::size_t columns) {
  return std::max<std::size_t>(1, 8 * kTile / std::max<std::size_t>(1, columns));
}

void scale_row(float* x, std::size_t n, float factor) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

float scaled(float factor, const Slice& gradient_scale) {
  return gradient_scale.empty() ? factor : factor * *scalar(gradient_scale);
}

}  // namespace

template <bool gradient>
void CpuDevice::cross_entropy_rows(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                                   float gradient_factor) {
  const std::size_t rows = targets.size(), vocabulary = logits.size() / rows;
  const auto* target = static_cast<const std::int32_t*>(targets.data());
  check_targets(target, rows, vocabulary);
  const View view(logits);
  const auto losses = scratch_.take(rows);
  threads_.chunks(rows, rows_of_chunk(vocabulary), [&](std::size_t first, std::size_t last) {
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
        scale_row(out, vocabulary, gradient_factor / sum);
        out[target[n]] -= gradient_factor;
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

void CpuDevice::cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                              const Slice& gradient_scale) {
  cross_entropy_rows<true>(loss, logits, targets, factor, scaled(factor, gradient_scale));
}

void CpuDevice::cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) {
  cross_entropy_rows<false>(loss, logits, targets, factor, 0);
}

void CpuDevice::shard_tokens(const Slice& y, const Slice& x, VocabularyShard shard) {
  const auto* from = static_cast<const std::int32_t*>(x.data());
  auto* to = static_cast<std::int32_t*>(y.data());
  const auto first = static_cast<std::int64_t>(shard.first), count = static_cast<std::int64_t>(shard.count);
  for (std::size_t n = 0; n < x.size(); ++n) {
    const std::int64_t here = from[n] - first;
    to[n] = static_cast<std::int32_t>(here >= 0 && here < count ? here : -1);
  }
}

void CpuDevice::cross_entropy_statistics(const Slice& statistics, const Slice& logits, const Slice& targets,
                                         VocabularyShard shard) {
  const std::size_t rows = targets.size(), width = logits.size() / rows;
  const auto* target = static_cast<const std::int32_t*>(targets.data());
  auto* result = static_cast<float*>(statistics.data());
  const View view(logits);
  threads_.chunks(rows, rows_of_chunk(width), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(view.direct() ? 0 : width);
    for (std::size_t n = first; n < last; ++n) {
      const float* in = view.read(n * width, width, buffer.data());
      const float maximum = shard.count == 0 ? 0 : maximum_of(in, shard.count);
      result[2 * n] = shard.count == 0 ? -std::numeric_limits<float>::infinity()
                                       : maximum + std::log(sum_exponentials(in, shard.count, maximum));
      result[2 * n + 1] = holds(shard, target[n]) ? in[static_cast<std::size_t>(target[n]) - shard.first] : 0;
    }
  });
}

void CpuDevice::cross_entropy_shard(const Slice& loss, const Slice& logits, const Slice& statistics,
                                    const Slice& targets, VocabularyShard shard, float factor,
                                    const Slice& gradient_scale) {
  const std::size_t rows = targets.size(), width = logits.size() / rows;
  const std::size_t shards = statistics.size() / (2 * rows);
  const auto* target = static_cast<const std::int32_t*>(targets.data());
  const auto* known = static_cast<const float*>(statistics.data());
  const View view(logits);
  const auto log_sums = scratch_.take(rows);
  double total = 0;
  for (std::size_t n = 0; n < rows; ++n) {
    float maximum = -std::numeric_limits<float>::infinity(), right = 0, sum = 0;
    for (std::size_t r = 0; r < shards; ++r) maximum = std::max(maximum, known[2 * (r * rows + n)]);
    for (std::size_t r = 0; r < shards; ++r) {
      sum += std::exp(known[2 * (r * rows + n)] - maximum);
      right += known[2 * (r * rows + n) + 1];
    }
    log_sums.data()[n] = maximum + std::log(sum);
    if (target[n] != kIgnored) total += static_cast<double>(log_sums.data()[n] - right);
  }
  *scalar(loss) = static_cast<float>(*scalar(loss) + factor * total);
  if (logits.empty()) return;
  const float gradient_factor = scaled(factor, gradient_scale);
  threads_.chunks(rows, rows_of_chunk(width), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(view.direct() ? 0 : width);
    for (std::size_t n = first; n < last; ++n) {
      float* out = view.place(n * width, buffer.data());
      const float* in = view.read(n * width, width, buffer.data());
      const std::size_t counted = target[n] == kIgnored ? 0 : shard.count;
      if (counted > 0) exponentials(out, in, counted, log_sums.data()[n]);
      scale_row(out, counted, gradient_factor);
      std::fill(out + counted, out + width, 0.0f);
      if (holds(shard, target[n])) out[static_cast<std::size_t>(target[n]) - shard.first] -= gradient_factor;
      view.write(n * width, width, out);
    }
  });
}

}  // namespace lockstep::cpu
