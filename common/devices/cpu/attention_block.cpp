// Attention of a block of queries over a block of keys, one head of one sequence at a time, merged into y and the
// statistics. Blocks of kQueries rows are multiplied with the keys that any of them sees.
#include <algorithm>
#include <cmath>

#include "common/devices/cpu/attention_rows.hpp"
#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

namespace {

/// Rows in B × T × 2 × h × d, where h counts key-value heads; `head` counts the key-value heads of all sequences.
HeadRows key_value_rows(AttentionShape shape, std::size_t head, Part part) {
  HeadRows rows = output_rows({shape.batch, shape.positions, 2 * shape.heads, shape.head_size},
                              head / shape.heads * 2 * shape.heads + head % shape.heads);
  if (part == Part::v) rows.first += shape.heads * shape.head_size;
  return rows;
}

AttentionShape queries_of(AttentionBlock b) { return {b.batch, b.queries, b.heads, b.head_size}; }
AttentionShape keys_of(AttentionBlock b) { return {b.batch, b.keys, b.key_value_heads(), b.head_size}; }
/// Number of heads that share a key-value head.
std::size_t group_size(AttentionBlock b) { return b.key_value_heads() == 0 ? 1 : b.heads / b.key_value_heads(); }

/// Number of the block's keys that its query `row` sees.
std::size_t visible(AttentionBlock block, std::size_t row) {
  const std::size_t after = block.first_query + row + 1;  // first position that it does not see
  return after <= block.first_key ? 0 : std::min(block.keys, after - block.first_key);
}

/// Calls f(first, end, keys) for rows [first, end) of the block's queries, of which the last sees `keys` keys.
template <class F>
void for_query_rows(AttentionBlock block, const F& f) {
  for (std::size_t first = 0; first < block.queries; first += kQueries) {
    const std::size_t end = std::min(block.queries, first + kQueries), keys = visible(block, end - 1);
    if (keys > 0) f(first, end, keys);
  }
}

/// Merges attention over these keys into a row of y and its log-sum-exp, over the keys so far. `sums` holds the
/// products with exp(score − maximum), not yet divided by their sum.
void merge_row(float* y, float& log_sum, const float* sums, Softmax row, std::size_t d) {
  const float these = row.maximum + std::log(row.sum), most = std::max(log_sum, these);
  const float both = most + std::log(std::exp(log_sum - most) + std::exp(these - most));
  const float old_share = std::exp(log_sum - both), new_share = std::exp(row.maximum - both);
#pragma omp simd
  for (std::size_t i = 0; i < d; ++i) y[i] = old_share * y[i] + new_share * sums[i];
  log_sum = both;
}

}  // namespace

void CpuDevice::attention_block(const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                                AttentionBlock block) {
  const AttentionShape queries = queries_of(block), keys = keys_of(block);
  const std::size_t d = block.head_size, rows_size = block.queries * d, keys_size = block.keys * d;
  const View from_q(q), from_kv(kv), in_y(y);
  threads_.chunks(block.batch * block.heads, 1, [&](std::size_t head, std::size_t) {
    const auto buffer = scratch_.take(2 * rows_size + 2 * keys_size + kQueries * (std::max(block.keys, d) + d));
    float *own_q = buffer.data(), *out = own_q + rows_size, *k = out + rows_size, *v = k + keys_size;
    float *sums = v + keys_size, *scores = sums + kQueries * d;
    gather(own_q, from_q, output_rows(queries, head), queries, score_factor(queries));
    gather(out, in_y, output_rows(queries, head), queries, 1);
    const std::size_t shared = head / group_size(block);
    gather_transposed(k, from_kv, key_value_rows(keys, shared, Part::k), keys, scores);
    gather(v, from_kv, key_value_rows(keys, shared, Part::v), keys, 1);
    float* log_sums = scalar(statistics) + head * block.queries;
    for_query_rows(block, [&](std::size_t first, std::size_t end, std::size_t most) {
      sgemm(scratch_, end - first, most, d, {own_q + first * d, d}, {k, block.keys}, 0, scores, most);
      Softmax softmax[kQueries];
      for (std::size_t row = first; row < end; ++row) {
        float* of_row = scores + (row - first) * most;
        const std::size_t n = visible(block, row);
        if (n > 0)
          softmax[row - first] = softmax_row(of_row, n, most);
        else
          std::fill(of_row, of_row + most, 0.0f);
      }
      sgemm(scratch_, end - first, d, most, {scores, most}, {v, d}, 0, sums, d);
      for (std::size_t row = first; row < end; ++row)
        if (visible(block, row) > 0)
          merge_row(out + row * d, log_sums[row], sums + (row - first) * d, softmax[row - first], d);
    });
    scatter(in_y, output_rows(queries, head), queries, out);
  });
}

void CpuDevice::attention_block_backward(const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,
                                         const Slice& statistics, const Slice& q, const Slice& kv,
                                         AttentionBlock block) {
  const AttentionShape queries = queries_of(block), keys = keys_of(block);
  const std::size_t d = block.head_size, rows_size = block.queries * d, keys_size = block.keys * d;
  const std::size_t block_size = kQueries * std::max(block.keys, d);
  const View from_q(q), from_kv(kv), from_y(y), from_dy(dy), in_dq(dq), in_dkv(dkv);
  const float factor = score_factor(queries);
  threads_.chunks(block.batch * keys.heads, 1, [&](std::size_t shared, std::size_t) {
    const auto buffer = scratch_.take(4 * rows_size + 5 * keys_size + 2 * block_size);
    float *own_q = buffer.data(), *out = own_q + rows_size, *dout = out + rows_size, *own_dq = dout + rows_size;
    float *k = own_dq + rows_size, *k_transposed = k + keys_size, *v_transposed = k_transposed + keys_size;
    float *dk = v_transposed + keys_size, *dv = dk + keys_size, *scores = dv + keys_size;
    float* gradient = scores + block_size;
    const HeadRows of_key = key_value_rows(keys, shared, Part::k), of_value = key_value_rows(keys, shared, Part::v);
    gather(k, from_kv, of_key, keys, factor);  // multiplied only for dq
    gather_transposed(k_transposed, from_kv, of_key, keys, scores);
    gather_transposed(v_transposed, from_kv, of_value, keys, scores);
    gather(dk, in_dkv, of_key, keys, 1);
    gather(dv, in_dkv, of_value, keys, 1);
    for (std::size_t head = shared * group_size(block); head < (shared + 1) * group_size(block); ++head) {
      const HeadRows of_query = output_rows(queries, head);
      gather(own_q, from_q, of_query, queries, factor);
      gather(out, from_y, of_query, queries, 1);
      gather(dout, from_dy, of_query, queries, 1);
      gather(own_dq, in_dq, of_query, queries, 1);
      const float* log_sums = scalar(statistics) + head * block.queries;
      for_query_rows(block, [&](std::size_t first, std::size_t end, std::size_t most) {
        const std::size_t rows = end - first;
        sgemm(scratch_, rows, most, d, {own_q + first * d, d}, {k_transposed, block.keys}, 0, scores, most);
        sgemm(scratch_, rows, most, d, {dout + first * d, d}, {v_transposed, block.keys}, 0, gradient, most);
        for (std::size_t row = first; row < end; ++row) {
          const float dot = dot_product(out + row * d, dout + row * d, d);
          softmax_backward_row(scores + (row - first) * most, gradient + (row - first) * most, visible(block, row),
                               most, log_sums[row], dot);
        }
        sgemm(scratch_, most, d, rows, {scores, most, true}, {dout + first * d, d}, 1, dv, d);
        sgemm(scratch_, most, d, rows, {gradient, most, true}, {own_q + first * d, d}, 1, dk, d);
        sgemm(scratch_, rows, d, most, {gradient, most}, {k, d}, 1, own_dq + first * d, d);
      });
      scatter(in_dq, of_query, queries, own_dq);
    }
    scatter(in_dkv, of_key, keys, dk);
    scatter(in_dkv, of_value, keys, dv);
  });
}

}  // namespace lockstep::cpu
