// Causal attention, one head of one sequence at a time: q, k and v of the head are gathered into scratch, and blocks of
// queries meet all keys up to their last one. Scores exist for one block only (kQueries × T), never for all (after
// FlashAttention, arXiv 2205.14135; a core's cache holds a whole row of scores, so the softmax needs no second pass).
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/sgemm.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kQueries = 60;  // rows of a block: a multiple of our sgemm's 12 and 6
constexpr std::size_t kLanes = 16;    // floats of the widest vector

/// Where a head's rows lie in an array of B × T × `parts` × h × d.
struct HeadRows {
  std::size_t first;   // of position 0
  std::size_t stride;  // from position to position
};

HeadRows head_rows(AttentionShape shape, std::size_t head, std::size_t part, std::size_t parts) {
  const std::size_t width = shape.heads * shape.head_size, sequence = head / shape.heads;
  return {sequence * shape.positions * parts * width + part * width + head % shape.heads * shape.head_size,
          parts * width};
}

/// to[t][i] = factor · x at the head's position t.
void gather(float* to, View x, HeadRows rows, AttentionShape shape, float factor) {
  for (std::size_t t = 0; t < shape.positions; ++t, to += shape.head_size) {
    const float* from = x.read(rows.first + t * rows.stride, shape.head_size, to);
#pragma omp simd
    for (std::size_t i = 0; i < shape.head_size; ++i) to[i] = factor * from[i];
  }
}

/// to[i][t] = x at the head's position t: so that products with its transpose run over rows.
void gather_transposed(float* to, View x, HeadRows rows, AttentionShape shape, float* buffer) {
  for (std::size_t t = 0; t < shape.positions; ++t) {
    const float* from = x.read(rows.first + t * rows.stride, shape.head_size, buffer);
    for (std::size_t i = 0; i < shape.head_size; ++i) to[i * shape.positions + t] = from[i];
  }
}

void scatter(View x, HeadRows rows, AttentionShape shape, float* from) {
  for (std::size_t t = 0; t < shape.positions; ++t, from += shape.head_size)
    x.write(rows.first + t * rows.stride, shape.head_size, from);
}

/// A row's loops go over its n scores rounded up to whole vectors; those that causality hides are −∞, whose exponential
/// is 0.
std::size_t hide_tail(float* scores, std::size_t n, std::size_t end) {
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
Softmax softmax_row(float* scores, std::size_t n, std::size_t end) {
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

/// From the scores and the gradient of the probabilities of a row: probabilities, and the gradient of the scores.
void softmax_backward_row(float* scores, float* gradient, std::size_t n, std::size_t end, float log_sum, float dot) {
  const std::size_t whole = hide_tail(scores, n, end);
#pragma omp simd
  for (std::size_t j = 0; j < whole; ++j) {
    const float probability = exponential(scores[j] - log_sum);
    gradient[j] = probability * (gradient[j] - dot);
    scores[j] = probability;
  }
  std::fill(gradient + n, gradient + end, 0.0f);
}

float dot_product(const float* a, const float* b, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

float score_factor(AttentionShape shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

/// From the probabilities and their gradient: the gradient of the scores. Probabilities beyond the row are 0.
void scores_gradient_row(const float* probabilities, float* gradient, std::size_t n, float dot) {
#pragma omp simd
  for (std::size_t j = 0; j < n; ++j) gradient[j] = probabilities[j] * (gradient[j] - dot);
}

}  // namespace

void CpuDevice::attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);  // of scores, or of a row on its way
  const View from(qkv), to(y);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(4 * size + block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *scores = out + size;
    gather(q, from, head_rows(shape, head, 0, 3), shape, score_factor(shape));
    gather_transposed(k, from, head_rows(shape, head, 1, 3), shape, scores);
    gather(v, from, head_rows(shape, head, 2, 3), shape, 1);
    float* log_sums = scalar(statistics) + head * positions;
    for (std::size_t first = 0; first < positions; first += kQueries) {
      const std::size_t end = std::min(positions, first + kQueries), rows = end - first;
      sgemm(scratch_, rows, end, d, {q + first * d, d}, {k, positions}, 0, scores, end);
      float sums[kQueries];
      for (std::size_t i = 0; i < rows; ++i) {
        const Softmax row = softmax_row(scores + i * end, first + i + 1, end);
        log_sums[first + i] = row.maximum + std::log(row.sum);
        sums[i] = row.sum;
      }
      sgemm(scratch_, rows, d, end, {scores, end}, {v, d}, 0, out + first * d, d);
      for (std::size_t i = 0; i < rows; ++i) {
        float* row = out + (first + i) * d;
        const float factor = 1.0f / sums[i];
#pragma omp simd
        for (std::size_t j = 0; j < d; ++j) row[j] *= factor;
      }
    }
    scatter(to, head_rows(shape, head, 0, 1), shape, out);
  });
}

void CpuDevice::attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,
                                   const Slice& statistics, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);  // of scores, or of a row on its way
  const View from(qkv), to(dqkv), from_y(y), from_dy(dy);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(9 * size + 2 * block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *dout = out + size;
    float *dq = dout + size, *dk = dq + size, *dv = dk + size, *k_transposed = dv + size;
    float *scores = k_transposed + size, *gradient = scores + block_size;
    gather(q, from, head_rows(shape, head, 0, 3), shape, score_factor(shape));
    gather(k, from, head_rows(shape, head, 1, 3), shape, 1);
    gather_transposed(k_transposed, from, head_rows(shape, head, 1, 3), shape, scores);
    gather_transposed(v, from, head_rows(shape, head, 2, 3), shape, scores);
    gather(out, from_y, head_rows(shape, head, 0, 1), shape, 1);
    gather(dout, from_dy, head_rows(shape, head, 0, 1), shape, 1);
    const float* log_sums = scalar(statistics) + head * positions;
    // From the last block, which meets all keys and so starts every sum of dk and dv, to the first.
    const std::size_t blocks = (positions + kQueries - 1) / kQueries;
    for (std::size_t block = blocks; block-- > 0;) {
      const std::size_t first = block * kQueries, end = std::min(positions, first + kQueries), rows = end - first;
      const float beta = block + 1 == blocks ? 0.0f : 1.0f;
      sgemm(scratch_, rows, end, d, {q + first * d, d}, {k_transposed, positions}, 0, scores, end);
      sgemm(scratch_, rows, end, d, {dout + first * d, d}, {v, positions}, 0, gradient, end);
      for (std::size_t i = 0; i < rows; ++i) {
        const float dot = dot_product(out + (first + i) * d, dout + (first + i) * d, d);
        softmax_backward_row(scores + i * end, gradient + i * end, first + i + 1, end, log_sums[first + i], dot);
      }
      sgemm(scratch_, end, d, rows, {scores, end, true}, {dout + first * d, d}, beta, dv, d);
      sgemm(scratch_, end, d, rows, {gradient, end, true}, {q + first * d, d}, beta, dk, d);
      sgemm(scratch_, rows, d, end, {gradient, end}, {k, d}, 0, dq + first * d, d);
    }
    const float factor = score_factor(shape);
#pragma omp simd
    for (std::size_t i = 0; i < size; ++i) dq[i] *= factor;
    scatter(to, head_rows(shape, head, 0, 3), shape, dq);
    scatter(to, head_rows(shape, head, 1, 3), shape, dk);
    scatter(to, head_rows(shape, head, 2, 3), shape, dv);
  });
}

// With the probabilities materialised: rows of T, those beyond the diagonal 0
// ------------------------------------------

void CpuDevice::attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const View from(qkv), to(probabilities);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(2 * size + kQueries * std::max(positions, d));
    float *q = buffer.data(), *k = q + size, *scores = k + size;
    gather(q, from, head_rows(shape, head, 0, 3), shape, score_factor(shape));
    gather_transposed(k, from, head_rows(shape, head, 1, 3), shape, scores);
    for (std::size_t first = 0; first < positions; first += kQueries) {
      const std::size_t end = std::min(positions, first + kQueries), rows = end - first;
      sgemm(scratch_, rows, end, d, {q + first * d, d}, {k, positions}, 0, scores, positions);
      for (std::size_t i = 0; i < rows; ++i) {
        float* row = scores + i * positions;
        const float factor = 1.0f / softmax_row(row, first + i + 1, positions).sum;
#pragma omp simd
        for (std::size_t j = 0; j < end; ++j) row[j] *= factor;
      }
      to.write((head * positions + first) * positions, rows * positions, scores);
    }
  });
}

void CpuDevice::attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const View from(qkv), from_p(probabilities), to(y);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(2 * size + kQueries * positions);
    float *v = buffer.data(), *out = v + size, *block = out + size;
    gather(v, from, head_rows(shape, head, 2, 3), shape, 1);
    for (std::size_t first = 0; first < positions; first += kQueries) {
      const std::size_t end = std::min(positions, first + kQueries), rows = end - first;
      const float* p = from_p.read((head * positions + first) * positions, rows * positions, block);
      sgemm(scratch_, rows, d, end, {p, positions}, {v, d}, 0, out + first * d, d);
    }
    scatter(to, head_rows(shape, head, 0, 1), shape, out);
  });
}

void CpuDevice::attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,
                                                 const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);
  const View from(qkv), from_p(probabilities), to(dqkv), from_y(y), from_dy(dy);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(8 * size + 2 * block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *dout = out + size;
    float *dq = dout + size, *dk = dq + size, *dv = dk + size, *block = dv + size, *gradient = block + block_size;
    gather(q, from, head_rows(shape, head, 0, 3), shape, score_factor(shape));
    gather(k, from, head_rows(shape, head, 1, 3), shape, score_factor(shape));  // its product is dq alone
    gather_transposed(v, from, head_rows(shape, head, 2, 3), shape, gradient);
    gather(out, from_y, head_rows(shape, head, 0, 1), shape, 1);
    gather(dout, from_dy, head_rows(shape, head, 0, 1), shape, 1);
    const std::size_t blocks = (positions + kQueries - 1) / kQueries;
    for (std::size_t i = blocks; i-- > 0;) {  // from the last, as attention_backward
      const std::size_t first = i * kQueries, end = std::min(positions, first + kQueries), rows = end - first;
      const float beta = i + 1 == blocks ? 0.0f : 1.0f;
      const float* p = from_p.read((head * positions + first) * positions, rows * positions, block);
      sgemm(scratch_, rows, end, d, {dout + first * d, d}, {v, positions}, 0, gradient, end);
      for (std::size_t row = 0; row < rows; ++row) {
        const float dot = dot_product(out + (first + row) * d, dout + (first + row) * d, d);
        scores_gradient_row(p + row * positions, gradient + row * end, end, dot);
      }
      sgemm(scratch_, end, d, rows, {p, positions, true}, {dout + first * d, d}, beta, dv, d);
      sgemm(scratch_, end, d, rows, {gradient, end, true}, {q + first * d, d}, beta, dk, d);
      sgemm(scratch_, rows, d, end, {gradient, end}, {k, d}, 0, dq + first * d, d);
    }
    scatter(to, head_rows(shape, head, 0, 3), shape, dq);
    scatter(to, head_rows(shape, head, 1, 3), shape, dk);
    scatter(to, head_rows(shape, head, 2, 3), shape, dv);
  });
}

}  // namespace lockstep::cpu
