// sgemm where no BLAS was found: blocks of both matrices are packed into scratch that fits the caches, and a small
// kernel keeps 4 × 32 sums in registers (after Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication").
#include <algorithm>
#include <vector>

#include "common/device/cpu/sgemm.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kRows = 4, kColumns = 32;                     // of the register block
constexpr std::size_t kBlockM = 96, kBlockN = 1024, kBlockK = 256;  // of the packed blocks

float element(Operand x, std::size_t i, std::size_t j) {
  return x.transposed ? x.data[j * x.stride + i] : x.data[i * x.stride + j];
}

/// Rows [i0, i0 + m) and columns [k0, k0 + k) of a, as panels of kRows rows stored column by column, padded with 0.
void pack_a(float* packed, Operand a, std::size_t i0, std::size_t m, std::size_t k0, std::size_t k) {
  for (std::size_t i = 0; i < m; i += kRows)
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t r = 0; r < kRows; ++r) *packed++ = i + r < m ? element(a, i0 + i + r, k0 + p) : 0.0f;
}

/// Rows [k0, k0 + k) and columns [j0, j0 + n) of b, as panels of kColumns columns stored row by row, padded with 0.
void pack_b(float* packed, Operand b, std::size_t k0, std::size_t k, std::size_t j0, std::size_t n) {
  for (std::size_t j = 0; j < n; j += kColumns)
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t r = 0; r < kColumns; ++r) *packed++ = j + r < n ? element(b, k0 + p, j0 + j + r) : 0.0f;
}

/// c[rows × columns] += panel of a · panel of b.
void multiply_panels(const float* a, const float* b, std::size_t k, float* c, std::size_t stride, std::size_t rows,
                     std::size_t columns) {
  float sum[kRows][kColumns] = {};
  for (std::size_t p = 0; p < k; ++p, a += kRows, b += kColumns)
    for (std::size_t i = 0; i < kRows; ++i)
#pragma omp simd
      for (std::size_t j = 0; j < kColumns; ++j) sum[i][j] += a[i] * b[j];
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) c[i * stride + j] += sum[i][j];
}

}  // namespace

void sgemm(std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c) {
  if (beta == 0)
    for (std::size_t i = 0; i < m; ++i) std::fill_n(c + i * stride_c, n, 0.0f);
  std::vector<float> block_a(kBlockM * kBlockK), block_b(kBlockK * kBlockN);
  for (std::size_t j0 = 0; j0 < n; j0 += kBlockN)
    for (std::size_t k0 = 0; k0 < k; k0 += kBlockK) {
      const std::size_t nb = std::min(kBlockN, n - j0), kb = std::min(kBlockK, k - k0);
      pack_b(block_b.data(), b, k0, kb, j0, nb);
      for (std::size_t i0 = 0; i0 < m; i0 += kBlockM) {
        const std::size_t mb = std::min(kBlockM, m - i0);
        pack_a(block_a.data(), a, i0, mb, k0, kb);
        for (std::size_t j = 0; j < nb; j += kColumns)
          for (std::size_t i = 0; i < mb; i += kRows)
            multiply_panels(block_a.data() + i * kb, block_b.data() + j * kb, kb, c + (i0 + i) * stride_c + j0 + j,
                            stride_c, std::min(kRows, mb - i), std::min(kColumns, nb - j));
      }
    }
}

void use_one_thread() {}
const char* sgemm_name() { return "own sgemm"; }

}  // namespace lockstep::cpu
