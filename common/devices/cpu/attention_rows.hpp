// Shared by all attention of the CPU: rows of one head, gathered into scratch, and a row's softmax.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/arithmetic.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

inline constexpr std::size_t kQueries = 60;  // rows of a block: a multiple of our sgemm's 12 and 6
inline constexpr std::size_t kLanes = 16;    // floats of the widest vector

/// Location of a head's rows in an array of B × T × …
struct HeadRows {
  std::size_t first;   // offset of position 0
  std::size_t stride;  // distance between positions
};

enum class Part { q, k, v };

/// Rows in B × T × (h + 2 kv_heads) × d. `head` counts the heads of all sequences; its k and v are those of its group.
inline HeadRows qkv_rows(AttentionShape shape, std::size_t head, Part part) {
  const std::size_t kv_heads = shape.key_value_heads(), stride = (shape.heads + 2 * kv_heads) * shape.head_size;
  std::size_t own = head % shape.heads;
  if (part != Part::q) own = shape.heads + own / (shape.heads / kv_heads) + (part == Part::v ? kv_heads : 0);
  return {head / shape.heads * shape.positions * stride + own * shape.head_size, stride};
}

/// Rows in B × T × h × d.
inline HeadRows output_rows(AttentionShape shape, std::size_t head) {
  const std::size_t stride = shape.heads * shape.head_size;
  return {head / shape.heads * shape.positions * stride + head % shape.heads * shape.head_size, stride};
}

/// to[t][i] = factor · x at the head's position t.
inline void gather(float* to, View x, HeadRows rows, AttentionShape shape, float factor) {
  for (std::size_t t = 0; t < shape.positions; ++t, to += shape.head_size) {
    const float* from = x.read(rows.first + t * rows.stride, shape.head_size, to);
#pragma omp simd
    for (std::size_t i = 0; i < shape.head_size; ++i) to[i] = factor * from[i];
  }
}

/// to[i][t] = x at the head's position t, so that products with the transpose run over rows.
inline void gather_transposed(float* to, View x, HeadRows rows, AttentionShape shape, float* buffer) {
  for (std::size_t t = 0; t < shape.positions; ++t) {
    const float* from = x.read(rows.first + t * rows.stride, shape.head_size, buffer);
    for (std::size_t i = 0; i < shape.head_size; ++i) to[i * shape.positions + t] = from[i];
  }
}

inline void scatter(View x, HeadRows rows, AttentionShape shape, float* from) {
  for (std::size_t t = 0; t < shape.positions; ++t, from += shape.head_size)
    x.write(rows.first + t * rows.stride, shape.head_size, from);
}

/// Extends a row of n scores to whole vectors with −∞, whose exponential is 0, so that loops need no tail.
inline std::size_t hide_tail(float* scores, std::size_t n, std::size_t end) {
  const std::size_t whole = std::min(end, (n + kLanes - 1) / kLanes * kLanes);
  std::fill(scores + n, scores + whole, -std::numeric_limits<float>::infinity());
  std::fill(scores + whole, scores + end, 0.0f);
  return whole;
}

/// Turns the n scores of a row into exp(score − maximum), and those from n to `end` into 0.
struct Softmax {
  float maximum;
  float sum;
};
inline Softmax softmax_row(float* scores, std::size_t n, std::size_t end) {
  const std::size_t whole = hide_tail(scores, n, end);
  float maximum = scores[0];
#pragma omp simd reduction(max : maximum)
  for (std::size_t j = 0; j < whole; ++j) maximum = scores[j] > maximum ? scores[j] : maximum;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t j = 0; j < whole; ++j) {
    scores[j] = exponential(scores[j] - maximum);
    sum += scores[j];
  }
  return {maximum, sum};
}

/// Turns a row's scores into probabilities, and the gradient of the probabilities into that of the scores.
inline void softmax_backward_row(float* scores, float* gradient, std::size_t n, std::size_t end, float log_sum,
                                 float dot) {
  const std::size_t whole = hide_tail(scores, n, end);
#pragma omp simd
  for (std::size_t j = 0; j < whole; ++j) {
    const float probability = exponential(scores[j] - log_sum);
    gradient[j] = probability * (gradient[j] - dot);
    scores[j] = probability;
  }
  std::fill(gradient + n, gradient + end, 0.0f);
}

inline float dot_product(const float* a, const float* b, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

inline float score_factor(AttentionShape shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

}  // namespace lockstep::cpu
