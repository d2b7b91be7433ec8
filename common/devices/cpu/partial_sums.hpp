// Sums over the rows of a matrix, by column, in an order that does not depend on the number of threads: rows are split
// into chunks with separate sums, which are then added in order.
#pragma once

#include <algorithm>

#include "common/devices/cpu/scratch.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

class PartialSums {
 public:
  /// `width` sums over `rows` rows.
  PartialSums(Scratch& scratch, std::size_t rows, std::size_t width)
      : rows_of_chunk_(std::max(kFewestRows, (rows + kMostChunks - 1) / kMostChunks)),
        chunks_((rows + rows_of_chunk_ - 1) / rows_of_chunk_),
        width_(width),
        sums_(scratch.take(chunks_ * width)) {
    std::fill_n(sums_.data(), chunks_ * width, 0.0f);
  }

  std::size_t rows_of_chunk() const { return rows_of_chunk_; }
  float* of_chunk(std::size_t first_row) const { return sums_.data() + first_row / rows_of_chunk_ * width_; }

  /// target[i] += the sum of column offset + i, for `count` columns.
  void add_to(View target, std::size_t offset, std::size_t count) const {
    for_tiles(0, count, [&](std::size_t i, std::size_t n) {
      float total[kTile] = {}, buffer[kTile];
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        const float* sum = sums_.data() + chunk * width_ + offset + i;
#pragma omp simd
        for (std::size_t j = 0; j < n; ++j) total[j] += sum[j];
      }
      const float* before = target.read(i, n, buffer);
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) total[j] += before[j];
      target.write(i, n, total);
    });
  }
  void add_to(View target, std::size_t offset) const { add_to(target, offset, width_ - offset); }

 private:
  static constexpr std::size_t kFewestRows = 32, kMostChunks = 32;

  std::size_t rows_of_chunk_;
  std::size_t chunks_;
  std::size_t width_;
  Scratch::Lease sums_;
};

}  // namespace lockstep::cpu
