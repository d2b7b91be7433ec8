// Shared by layer and RMS normalisation: number of rows that a thread takes at once, and storing a row of gradients.
#pragma once

#include <algorithm>

#include "common/arithmetic.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

inline std::size_t norm_rows_of_chunk(std::size_t columns) { return std::max<std::size_t>(1, 16 * kTile / columns); }

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

}  // namespace lockstep::cpu
