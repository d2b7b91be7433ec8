// sgemm by a BLAS, through its C interface.
#include <cblas.h>

#include <algorithm>

#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

void sgemm(Scratch&, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c) {
  // BLAS rejects a stride of 0, which empty matrices have.
  const auto stride = [](std::size_t value) { return static_cast<int>(std::max<std::size_t>(1, value)); };
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, a.data, stride(a.stride), b.data,
              stride(b.stride), beta, c, stride(stride_c));
}

bool splits_freely() { return false; }

}  // namespace lockstep::cpu
