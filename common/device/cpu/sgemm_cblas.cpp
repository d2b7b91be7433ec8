// sgemm by a BLAS through its C interface. CMake defines LOCKSTEP_OPENBLAS, its version, where it is OpenBLAS.
#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "common/device/cpu/sgemm.hpp"

#ifdef LOCKSTEP_OPENBLAS
extern "C" void gotoblas_dynamic_quit() __attribute__((weak));
extern "C" void gotoblas_dynamic_init() __attribute__((weak));
#endif

namespace lockstep::cpu {

namespace {

#ifdef LOCKSTEP_OPENBLAS
/// OpenBLAS chooses its kernels while it is loaded. Where it does not know the processor we name a family that the
/// processor's features allow, unless the user did, and let it choose again: nothing has been computed yet. Both
/// functions are weak, because an OpenBLAS for one kind of processor lacks them.
void choose_kernels() {
#ifdef __x86_64__
  if (std::string_view(openblas_get_corename()) != "Prescott" || !gotoblas_dynamic_quit || !gotoblas_dynamic_init)
    return;
  const char* family = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? "SkylakeX"
                       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? "Haswell"
                                                                                                : nullptr;
  if (!family || setenv("OPENBLAS_CORETYPE", family, /*overwrite=*/0) != 0) return;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
#endif
}
#endif

#if defined(LOCKSTEP_OPENBLAS) && defined(__AVX__)
/// OpenBLAS takes processors that are newer than itself for ones from before AVX, and is then 4 times slower than ours:
/// where choosing again did not help.
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

bool splits_freely() { return use_own(); }

#ifdef LOCKSTEP_OPENBLAS
void use_one_thread() {
  static std::once_flag chosen;
  std::call_once(chosen, choose_kernels);
  openblas_set_num_threads(1);
}
const char* sgemm_name() {
  return use_own() ? "own sgemm (OpenBLAS " LOCKSTEP_OPENBLAS " does not know this processor)"
                   : "OpenBLAS " LOCKSTEP_OPENBLAS;
}
#else
void use_one_thread() {}
const char* sgemm_name() { return "BLAS"; }
#endif

}  // namespace lockstep::cpu
