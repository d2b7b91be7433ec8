// Our own sgemm, used if there is no BLAS or it does not know the processor. Blocks of both matrices are packed into
// scratch that fits the caches, and a small kernel keeps a block of sums in vector registers (after Goto and van de
// Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). The order of summation does not depend on an
// element's place in c, so no split over rows or columns changes a bit.
#include <algorithm>
#include <cstring>

#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

namespace {

// Vector registers: 32 of 64 bytes (AVX-512), 16 of 32 (AVX), 32 of 16 (NEON), or 16 of 16 (SSE).
#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64, kRows = 12;
#elif defined(__AVX__)
constexpr std::size_t kVectorBytes = 32, kRows = 6;
#elif defined(__ARM_NEON)
constexpr std::size_t kVectorBytes = 16, kRows = 12;
#else
constexpr std::size_t kVectorBytes = 16, kRows = 6;
#endif

using Vector [[gnu::vector_size(kVectorBytes)]] = float;
constexpr std::size_t kLanes = kVectorBytes / sizeof(float), kColumns = 2 * kLanes;  // sums: kRows × kColumns

// A panel of b (kBlockK × kColumns) stays in the L1 cache, a block of a (kBlockM × kBlockK) in L2.
constexpr std::size_t kBlockM = 20 * kRows, kBlockN = 32 * kColumns, kBlockK = 256;

std::size_t round_up(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Packs `count` lines of x by k, from line `first` and index k0 on, into panels of `width` lines stored index by
/// index, padded with 0. Line i is x's row i or, with `along`, its column i.
template <std::size_t width>
void pack(float* packed, const float* x, std::size_t stride, bool along, std::size_t first, std::size_t count,
          std::size_t k0, std::size_t k) {
  for (std::size_t i = 0; i < count; i += width, packed += width * k) {
    const std::size_t lines = std::min(width, count - i);
    if (lines < width) std::fill_n(packed, width * k, 0.0f);
    if (along) {
      const float* from = x + k0 * stride + first + i;
      if (lines == width)
        for (std::size_t p = 0; p < k; ++p) std::memcpy(packed + p * width, from + p * stride, sizeof(float[width]));
      else
        for (std::size_t p = 0; p < k; ++p) std::memcpy(packed + p * width, from + p * stride, lines * sizeof(float));
    } else {
      for (std::size_t r = 0; r < lines; ++r) {
        const float* from = x + (first + i + r) * stride + k0;
        for (std::size_t p = 0; p < k; ++p) packed[p * width + r] = from[p];
      }
    }
  }
}

Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
void store(float* to, Vector value) { std::memcpy(to, &value, sizeof value); }

/// c[rows × columns] = or += panel of a · panel of b.
void multiply_panels(const float* a, const float* b, std::size_t k, bool add, float* c, std::size_t stride,
                     std::size_t rows, std::size_t columns) {
  Vector left[kRows] = {}, right[kRows] = {};
  for (std::size_t p = 0; p < k; ++p, a += kRows, b += kColumns) {
    const Vector b_left = load(b), b_right = load(b + kLanes);
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      left[i] += a[i] * b_left;
      right[i] += a[i] * b_right;
    }
  }
  if (rows == kRows && columns == kColumns) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      float* row = c + i * stride;
      store(row, add ? load(row) + left[i] : left[i]);
      store(row + kLanes, add ? load(row + kLanes) + right[i] : right[i]);
    }
    return;
  }
  float sums[kRows][kColumns];
#pragma GCC unroll 12
  for (std::size_t i = 0; i < kRows; ++i) {
    store(sums[i], left[i]);
    store(sums[i] + kLanes, right[i]);
  }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) c[i * stride + j] = (add ? c[i * stride + j] : 0.0f) + sums[i][j];
}

}  // namespace

void own_sgemm(Scratch& scratch, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta,
               float* c, std::size_t stride_c) {
  if (k == 0 && beta == 0)
    for (std::size_t i = 0; i < m; ++i) std::fill_n(c + i * stride_c, n, 0.0f);
  const std::size_t size_a = round_up(std::min(m, kBlockM), kRows) * std::min(k, kBlockK);
  const std::size_t size_b = round_up(std::min(n, kBlockN), kColumns) * std::min(k, kBlockK);
  const auto buffer = scratch.take(size_a + size_b);
  float *block_b = buffer.data(), *block_a = block_b + size_b;
  for (std::size_t j0 = 0; j0 < n; j0 += kBlockN)
    for (std::size_t k0 = 0; k0 < k; k0 += kBlockK) {
      const std::size_t nb = std::min(kBlockN, n - j0), kb = std::min(kBlockK, k - k0);
      const bool add = beta != 0 || k0 > 0;
      pack<kColumns>(block_b, b.data, b.stride, !b.transposed, j0, nb, k0, kb);
      for (std::size_t i0 = 0; i0 < m; i0 += kBlockM) {
        const std::size_t mb = std::min(kBlockM, m - i0);
        pack<kRows>(block_a, a.data, a.stride, a.transposed, i0, mb, k0, kb);
        for (std::size_t j = 0; j < nb; j += kColumns)
          for (std::size_t i = 0; i < mb; i += kRows)
            multiply_panels(block_a + i * kb, block_b + j * kb, kb, add, c + (i0 + i) * stride_c + j0 + j, stride_c,
                            std::min(kRows, mb - i), std::min(kColumns, nb - j));
      }
    }
}

}  // namespace lockstep::cpu
