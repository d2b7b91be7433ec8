// OpenBLAS: which kernels it uses, and whether they fit this processor. CMake defines its version as LOCKSTEP_OPENBLAS,
// and picks this file or blas_plain.cpp.
#include <cblas.h>
#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "common/devices/cpu/blas_kernels.hpp"
#include "common/devices/cpu/sgemm.hpp"
#include "common/error.hpp"

extern "C" void gotoblas_dynamic_quit() __attribute__((weak));
extern "C" void gotoblas_dynamic_init() __attribute__((weak));

namespace lockstep::cpu {

namespace {

#ifdef __x86_64__
/// Both checks also ask the operating system, which must save the registers.
Vectors vectors_of_processor() {
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return Vectors::avx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Vectors::avx2 : Vectors::sse;
}

/// OpenBLAS chooses its kernels while it is loaded. If they do not fit, names a family, unless the user has, and lets
/// it choose again, before anything is computed. Afterwards the environment is as it was: a child process would take
/// the family for the user's wish. Returns what it uses, in words. Both functions are weak, because an OpenBLAS for one
/// kind of processor lacks them.
std::string choose() {
  const std::string version = "OpenBLAS " LOCKSTEP_OPENBLAS, first = openblas_get_corename();
  const bool asked = std::getenv("OPENBLAS_CORETYPE") != nullptr;
  const std::string better(better_family(first, vectors_of_processor()));
  if (!asked && !better.empty() && gotoblas_dynamic_quit && gotoblas_dynamic_init &&
      setenv("OPENBLAS_CORETYPE", better.c_str(), /*overwrite=*/0) == 0) {
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv("OPENBLAS_CORETYPE");
  }
  const std::string family = openblas_get_corename();
  if (family != first) return version + ", " + family + " kernels (chosen in place of its " + first + ")";
  const std::string unused = better.empty() ? "" : "; this processor could use " + better + "'s";
  return version + ", " + family + " kernels" + (asked ? " (by OPENBLAS_CORETYPE" + unused + ")" : "");
}
#else
std::string choose() { return "OpenBLAS " LOCKSTEP_OPENBLAS; }
#endif

/// The first product maps a buffer of 128 MiB (OpenBLAS 0.3.21, x86). If that fails, OpenBLAS retries forever.
void need_address_space() {
  constexpr std::size_t kBuffer = std::size_t{160} << 20;
  void* buffer = mmap(nullptr, kBuffer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (buffer == MAP_FAILED)
    throw Error(Verdict::usage,
                "matrix products by OpenBLAS need 160 MiB of address space, and less is left of what this process may "
                "have: raise the limit, with 'ulimit -v unlimited' in the shell.");
  munmap(buffer, kBuffer);
}

}  // namespace

/// Chosen on first use, even if only the name is asked for.
const char* sgemm_name() {
  static const std::string name = choose();
  return name.c_str();
}

void use_one_thread() {
  (void)sgemm_name();
  need_address_space();
  openblas_set_num_threads(1);
}

}  // namespace lockstep::cpu
