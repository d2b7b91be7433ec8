// sgemm by a BLAS through its C interface. CMake defines LOCKSTEP_OPENBLAS, its version, where it is OpenBLAS.
#include <cblas.h>

#include <algorithm>
#include <string_view>

#include "common/device/cpu/sgemm.hpp"

namespace lockstep::cpu {

namespace {

#if defined(LOCKSTEP_OPENBLAS) && defined(__AVX__)
/// OpenBLAS takes processors that are newer than itself for ones from before AVX, and is then 4 times slower than ours.
bool use_own() {
  static const bool old_kernels = [] {
    const std::string_view core = openblas_get_corename();
    for (std::string_view old :
         {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Core2", "Penryn", "Dunnington", "Nehalem",
          "Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Nano", "Atom", "Bobcat"})
      if (core == old) return true;
    return false;
  }();
  return old_kernels;
}
#else
bool use_own() { return false; }
#endif

}  // namespace

void sgemm(Scratch& scratch, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c) {
  if (use_own()) return own_sgemm(scratch, m, n, k, a, b, beta, c, stride_c);
  // A stride of 0, of an empty matrix, is an error to BLAS.
  const auto stride = [](std::size_t value) { return static_cast<int>(std::max<std::size_t>(1, value)); };
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, a.data, stride(a.stride), b.data,
              stride(b.stride), beta, c, stride(stride_c));
}

#ifdef LOCKSTEP_OPENBLAS
void use_one_thread() { openblas_set_num_threads(1); }
const char* sgemm_name() {
  return use_own() ? "own sgemm (OpenBLAS " LOCKSTEP_OPENBLAS " does not know this processor)"
                   : "OpenBLAS " LOCKSTEP_OPENBLAS;
}
#else
void use_one_thread() {}
const char* sgemm_name() { return "BLAS"; }
#endif

}  // namespace lockstep::cpu
