// Splitting and joining matrices on the host: from a serial model's tensors to those of p ranks, and back.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace lockstep::week23 {

/// A row-major matrix on the host. A vector is one row.
struct HostMatrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

/// Rows [first, first + count).
inline HostMatrix cut_rows(const HostMatrix& whole, std::size_t first, std::size_t count) {
  const auto begin = whole.values.begin() + static_cast<std::ptrdiff_t>(first * whole.columns);
  return {count, whole.columns, {begin, begin + static_cast<std::ptrdiff_t>(count * whole.columns)}};
}

/// Columns [first, first + count).
inline HostMatrix cut_columns(const HostMatrix& whole, std::size_t first, std::size_t count) {
  HostMatrix part{whole.rows, count, {}};
  for (std::size_t row = 0; row < whole.rows; ++row)
    for (std::size_t column = first; column < first + count; ++column) part.values.push_back(whole.at(row, column));
  return part;
}

/// `part` becomes rows [first, …) of `whole`.
inline void put_rows(HostMatrix& whole, std::size_t first, const HostMatrix& part) {
  for (std::size_t i = 0; i < part.values.size(); ++i) whole.values[first * whole.columns + i] = part.values[i];
}

/// `part` becomes columns [first, …) of `whole`.
inline void put_columns(HostMatrix& whole, std::size_t first, const HostMatrix& part) {
  for (std::size_t row = 0; row < part.rows; ++row)
    for (std::size_t column = 0; column < part.columns; ++column)
      whole.values[row * whole.columns + first + column] = part.at(row, column);
}

}  // namespace lockstep::week23
