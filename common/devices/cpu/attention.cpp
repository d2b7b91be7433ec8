// Causal attention, one head of one sequence at a time. q, k and v of the head are gathered into scratch, and blocks of
// queries are multiplied with all keys up to their last one. Scores exist for one block only (kQueries × T), never for
// all (after FlashAttention, arXiv 2205.14135; a core's cache holds a whole row of scores, so the softmax needs no
// second pass).
#include <algorithm>
#include <cmath>

#include "common/devices/cpu/attention_rows.hpp"
#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

namespace {

/// The `count` heads from `first` that share the key-value head `group`, counted over all sequences.
struct Group {
  std::size_t first, count;
};
Group group_of(AttentionShape shape, std::size_t group) {
  const std::size_t count = shape.heads / shape.key_value_heads();
  return {group * count, count};
}

/// Computes the gradient of the scores from the probabilities and their gradient. Probabilities beyond the row are 0.
void scores_gradient_row(const float* probabilities, float* gradient, std::size_t n, float dot) {
#pragma omp simd
  for (std::size_t j = 0; j < n; ++j) gradient[j] = probabilities[j] * (gradient[j] - dot);
}

}  // namespace

void CpuDevice::attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);  // scores, or a row being gathered
  const View from(qkv), to(y);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(4 * size + block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *scores = out + size;
    gather(q, from, qkv_rows(shape, head, Part::q), shape, score_factor(shape));
    gather_transposed(k, from, qkv_rows(shape, head, Part::k), shape, scores);
    gather(v, from, qkv_rows(shape, head, Part::v), shape, 1);
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
    scatter(to, output_rows(shape, head), shape, out);
  });
}

void CpuDevice::attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,
                                   const Slice& statistics, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);  // scores, or a row being gathered
  const View from(qkv), to(dqkv), from_y(y), from_dy(dy);
  threads_.chunks(shape.batch * shape.key_value_heads(), 1, [&](std::size_t which, std::size_t) {
    const auto buffer = scratch_.take(9 * size + 2 * block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *dout = out + size;
    float *dq = dout + size, *dk = dq + size, *dv = dk + size, *k_transposed = dv + size;
    float *scores = k_transposed + size, *gradient = scores + block_size;
    const Group group = group_of(shape, which);
    gather(k, from, qkv_rows(shape, group.first, Part::k), shape, 1);
    gather_transposed(k_transposed, from, qkv_rows(shape, group.first, Part::k), shape, scores);
    gather_transposed(v, from, qkv_rows(shape, group.first, Part::v), shape, scores);
    const std::size_t blocks = (positions + kQueries - 1) / kQueries;
    for (std::size_t head = group.first; head < group.first + group.count; ++head) {
      gather(q, from, qkv_rows(shape, head, Part::q), shape, score_factor(shape));
      gather(out, from_y, output_rows(shape, head), shape, 1);
      gather(dout, from_dy, output_rows(shape, head), shape, 1);
      const float* log_sums = scalar(statistics) + head * positions;
      // From the last block, which sees all keys and so starts every sum of dk and dv, to the first.
      for (std::size_t block = blocks; block-- > 0;) {
        const std::size_t first = block * kQueries, end = std::min(positions, first + kQueries), rows = end - first;
        const float beta = head == group.first && block + 1 == blocks ? 0.0f : 1.0f;
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
      scatter(to, qkv_rows(shape, head, Part::q), shape, dq);
    }
    scatter(to, qkv_rows(shape, group.first, Part::k), shape, dk);
    scatter(to, qkv_rows(shape, group.first, Part::v), shape, dv);
  });
}

// With materialised probabilities: rows of T, 0 beyond the diagonal ---------------------------------------------------

void CpuDevice::attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const View from(qkv), to(probabilities);
  threads_.chunks(shape.batch * shape.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(2 * size + kQueries * std::max(positions, d));
    float *q = buffer.data(), *k = q + size, *scores = k + size;
    gather(q, from, qkv_rows(shape, head, Part::q), shape, score_factor(shape));
    gather_transposed(k, from, qkv_rows(shape, head, Part::k), shape, scores);
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
    gather(v, from, qkv_rows(shape, head, Part::v), shape, 1);
    for (std::size_t first = 0; first < positions; first += kQueries) {
      const std::size_t end = std::min(positions, first + kQueries), rows = end - first;
      const float* p = from_p.read((head * positions + first) * positions, rows * positions, block);
      sgemm(scratch_, rows, d, end, {p, positions}, {v, d}, 0, out + first * d, d);
    }
    scatter(to, output_rows(shape, head), shape, out);
  });
}

void CpuDevice::attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,
                                                 const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  const std::size_t positions = shape.positions, d = shape.head_size, size = positions * d;
  const std::size_t block_size = kQueries * std::max(positions, d);
  const View from(qkv), from_p(probabilities), to(dqkv), from_y(y), from_dy(dy);
  threads_.chunks(shape.batch * shape.key_value_heads(), 1, [&](std::size_t which, std::size_t) {
    const auto buffer = scratch_.take(8 * size + 2 * block_size);
    float *q = buffer.data(), *k = q + size, *v = k + size, *out = v + size, *dout = out + size;
    float *dq = dout + size, *dk = dq + size, *dv = dk + size, *block = dv + size, *gradient = block + block_size;
    const Group group = group_of(shape, which);
    // k is multiplied only for dq
    gather(k, from, qkv_rows(shape, group.first, Part::k), shape, score_factor(shape));
    gather_transposed(v, from, qkv_rows(shape, group.first, Part::v), shape, gradient);
    const std::size_t blocks = (positions + kQueries - 1) / kQueries;
    for (std::size_t head = group.first; head < group.first + group.count; ++head) {
      gather(q, from, qkv_rows(shape, head, Part::q), shape, score_factor(shape));
      gather(out, from_y, output_rows(shape, head), shape, 1);
      gather(dout, from_dy, output_rows(shape, head), shape, 1);
      for (std::size_t i = blocks; i-- > 0;) {  // from the last, as in attention_backward
        const std::size_t first = i * kQueries, end = std::min(positions, first + kQueries), rows = end - first;
        const float beta = head == group.first && i + 1 == blocks ? 0.0f : 1.0f;
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
      scatter(to, qkv_rows(shape, head, Part::q), shape, dq);
    }
    scatter(to, qkv_rows(shape, group.first, Part::k), shape, dk);
    scatter(to, qkv_rows(shape, group.first, Part::v), shape, dv);
  });
}

}  // namespace lockstep::cpu
