// A slice's memory as floats, one tile at a time. f32 is used in place; 16-bit types are widened into a buffer of the
// caller and narrowed back, rounding to nearest even.
#pragma once

#include <cstring>

#include "common/runtime/convert.hpp"
#include "common/slice.hpp"

namespace lockstep::cpu {

/// Elements of a tile: three tiles of floats are 12 KiB and stay in the L1 cache.
inline constexpr std::size_t kTile = 1024;

inline const std::uint16_t* halves(const void* data) { return static_cast<const std::uint16_t*>(data); }
inline std::uint16_t* halves(void* data) { return static_cast<std::uint16_t*>(data); }

class View {
 public:
  explicit View(const Slice& slice) : data_(static_cast<char*>(slice.data())), dtype_(slice.dtype()) {}

  bool direct() const { return dtype_ == DType::f32; }

  /// Reads elements [first, first + n); `buffer` holds n floats and is used unless the slice is f32.
  const float* read(std::size_t first, std::size_t n, float* buffer) const {
    if (direct()) return floats(first);
    const std::uint16_t* from = halves(at(first));
    if (dtype_ == DType::bf16) {
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) buffer[i] = from_bf16(from[i]);
    } else {
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) buffer[i] = from_f16(from[i]);
    }
    return buffer;
  }

  /// Destination for elements [first, first + n): in place, or `buffer`. Call `write` for the same elements afterwards.
  float* place(std::size_t first, float* buffer) const { return direct() ? floats(first) : buffer; }

  /// Stores n values produced in `place`.
  void write(std::size_t first, std::size_t n, const float* values) const {
    if (direct()) {
      if (values != floats(first)) std::memcpy(floats(first), values, n * sizeof(float));
      return;
    }
    std::uint16_t* to = halves(at(first));
    if (dtype_ == DType::bf16) {
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) to[i] = to_bf16(values[i]);
    } else {
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) to[i] = to_f16(values[i]);
    }
  }

 private:
  void* at(std::size_t first) const { return data_ + first * bytes_of(dtype_); }
  float* floats(std::size_t first) const { return reinterpret_cast<float*>(data_) + first; }

  char* data_;
  DType dtype_;
};

/// Calls f(first, n) for each tile of [first, last).
template <class F>
void for_tiles(std::size_t first, std::size_t last, const F& f) {
  for (; first < last; first += kTile) f(first, last - first < kTile ? last - first : kTile);
}

inline float* scalar(const Slice& slice) { return static_cast<float*>(slice.data()); }

}  // namespace lockstep::cpu
