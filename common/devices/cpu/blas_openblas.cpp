// OpenBLAS: which of its kernels it uses, and whether they fit this processor. CMake defines LOCKSTEP_OPENBLAS, its
// version, and picks this file or blas_plain.cpp.
#include <cblas.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "common/devices/cpu/sgemm.hpp"

extern "C" void gotoblas_dynamic_quit() __attribute__((weak));
extern "C" void gotoblas_dynamic_init() __attribute__((weak));

namespace lockstep::cpu {

namespace {

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

void choose_kernels_once() {
  static std::once_flag chosen;
  std::call_once(chosen, choose_kernels);
}

}  // namespace

/// OpenBLAS takes processors that are newer than itself for ones from before AVX, and is then 4 times slower than ours:
/// where choosing again did not help.
bool prefers_own_sgemm() {
#ifdef __AVX__
  static const bool old_kernels = [] {
    choose_kernels_once();  // whoever asks first, and be it only for a name
    const std::string_view core = openblas_get_corename();
    for (std::string_view old :
         {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Core2", "Penryn", "Dunnington", "Nehalem",
          "Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Nano", "Atom", "Bobcat"})
      if (core == old) return true;
    return false;
  }();
  return old_kernels;
#else
  return false;
#endif
}

void use_one_thread() {
  choose_kernels_once();
  openblas_set_num_threads(1);
}

const char* sgemm_name() {
  return prefers_own_sgemm() ? "own sgemm (OpenBLAS " LOCKSTEP_OPENBLAS " does not know this processor)"
                             : "OpenBLAS " LOCKSTEP_OPENBLAS;
}

}  // namespace lockstep::cpu
