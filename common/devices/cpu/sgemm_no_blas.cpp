// sgemm without a BLAS: in the browser, or where none is installed.
#include <algorithm>

#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

/// Every element sums its terms in the same order, whatever is around it.
void sgemm(Scratch& scratch, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c) {
  const auto buffer = scratch.take(b.transposed ? k * n : 0);
  for (std::size_t p = 0; b.transposed && p < k; ++p)
    for (std::size_t j = 0; j < n; ++j) buffer.data()[p * n + j] = b.data[j * b.stride + p];
  if (b.transposed) b = {buffer.data(), n};
  for (std::size_t i = 0; i < m; ++i) {
    float* to = c + i * stride_c;
    if (beta == 0) std::fill_n(to, n, 0.0f);
    for (std::size_t p = 0; p < k; ++p) {
      const float factor = a.transposed ? a.data[p * a.stride + i] : a.data[i * a.stride + p];
      const float* row = b.data + p * b.stride;
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) to[j] += factor * row[j];
    }
  }
}

bool splits_freely() { return true; }
void use_one_thread() {}
const char* sgemm_name() { return "a plain loop, without a BLAS"; }

}  // namespace lockstep::cpu
