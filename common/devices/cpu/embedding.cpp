// Rows of a table by token, and the sum of gradients back into it. The backward first groups tokens by value, so that
// one thread sums each row of the table in float, in order, and rounds it once.
#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::int32_t kElsewhere = -1;  // its row is in another shard of the table

void check_tokens(const std::int32_t* tokens, std::size_t count, std::size_t vocabulary) {
  for (std::size_t n = 0; n < count; ++n)
    if (tokens[n] < kElsewhere || (tokens[n] >= 0 && static_cast<std::size_t>(tokens[n]) >= vocabulary))
      throw std::out_of_range(
          fmt::format("token {} at position {} is outside a vocabulary of {}", tokens[n], n, vocabulary));
}

/// to[i] = from[i], or += if `add`.
void take_row(float* to, const float* from, std::size_t n, bool add) {
  if (!add) {
    if (to != from) std::memcpy(to, from, n * sizeof(float));
    return;
  }
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

/// target[row] += the sum of `count` rows of dy, the j-th of which is row_of(j).
template <class RowOf>
void add_gradients(View target, std::size_t row, View dy, std::size_t columns, std::size_t count, float* buffer,
                   const RowOf& row_of) {
  float* sum = target.place(row * columns, buffer);
  target.read(row * columns, columns, sum);
  for (std::size_t j = 0; j < count; ++j)
    take_row(sum, dy.read(row_of(j) * columns, columns, buffer + columns), columns, true);
  target.write(row * columns, columns, sum);
}

/// Positions by token: those of token t are at [begin[t], begin[t + 1]), in order.
struct Grouped {
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> positions;
};

Grouped group(const std::int32_t* tokens, std::size_t count, std::size_t vocabulary) {
  Grouped grouped{std::vector<std::uint32_t>(vocabulary + 2), std::vector<std::uint32_t>(count)};
  // begin[t + 1] first counts, then holds the slot for token t's next position; at the end that is begin[t + 1].
  std::uint32_t* next = grouped.begin.data() + 1;
  for (std::size_t n = 0; n < count; ++n)
    if (tokens[n] != kElsewhere) ++next[tokens[n] + 1];
  for (std::size_t t = 1; t <= vocabulary; ++t) next[t] += next[t - 1];
  for (std::size_t n = 0; n < count; ++n)
    if (tokens[n] != kElsewhere) grouped.positions[next[tokens[n]]++] = static_cast<std::uint32_t>(n);
  return grouped;
}

std::size_t embedding_rows_of_chunk(std::size_t columns) { return std::max<std::size_t>(1, 8 * kTile / columns); }

}  // namespace

void CpuDevice::embedding(const Slice& y, const Slice& tokens, const Slice& table, const Slice& positions,
                          std::size_t sequence) {
  const std::size_t rows = tokens.size(), columns = y.size() / rows;
  const auto* token = static_cast<const std::int32_t*>(tokens.data());
  check_tokens(token, rows, table.size() / columns);
  const View to(y), from(table), from_positions(positions);
  threads_.chunks(rows, embedding_rows_of_chunk(columns), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(2 * columns);
    for (std::size_t n = first; n < last; ++n) {
      float* out = to.place(n * columns, buffer.data());
      if (token[n] == kElsewhere)
        std::memset(out, 0, columns * sizeof(float));
      else
        take_row(out, from.read(static_cast<std::size_t>(token[n]) * columns, columns, out), columns, false);
      if (!positions.empty())
        take_row(out, from_positions.read(n % sequence * columns, columns, buffer.data() + columns), columns, true);
      to.write(n * columns, columns, out);
    }
  });
}

void CpuDevice::embedding_backward(const Slice& dtable, const Slice& dpositions, const Slice& dy, const Slice& tokens,
                                   std::size_t sequence) {
  const std::size_t rows = tokens.size(), columns = dy.size() / rows, vocabulary = dtable.size() / columns;
  const auto* token = static_cast<const std::int32_t*>(tokens.data());
  check_tokens(token, rows, vocabulary);
  const View from(dy), to(dtable), to_positions(dpositions);
  const Grouped grouped = group(token, rows, vocabulary);
  const std::size_t tokens_of_chunk =
      std::max(embedding_rows_of_chunk(columns), vocabulary / 64);  // most rows have no gradient
  threads_.chunks(vocabulary, tokens_of_chunk, [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(2 * columns);
    for (std::size_t t = first; t < last; ++t) {
      const std::uint32_t begin = grouped.begin[t], count = grouped.begin[t + 1] - begin;
      if (count > 0)
        add_gradients(to, t, from, columns, count, buffer.data(),
                      [&](std::size_t j) { return grouped.positions[begin + j]; });
    }
  });
  if (dpositions.empty()) return;
  threads_.chunks(sequence, embedding_rows_of_chunk(columns), [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(2 * columns);
    for (std::size_t t = first; t < last; ++t)
      add_gradients(to_positions, t, from, columns, rows / sequence, buffer.data(),
                    [&](std::size_t j) { return j * sequence + t; });
  });
}

}  // namespace lockstep::cpu
