// Emulates the instructions that kernels write as PTX. For their effect see
// common/devices/cuda/language/tensor_cores.hpp.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/testing/fakes/cuda/language/kernel_language.hpp"

namespace lockstep::kernels {

inline void mma_m16n8k16_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              const float (&c)[4], LOCKSTEP_FROM) {
  fake::mma_m16n8k16({d, a, b, c}, fake::Half::bf16, file, line);
}

inline void mma_m16n8k16_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             const float (&c)[4], LOCKSTEP_FROM) {
  fake::mma_m16n8k16({d, a, b, c}, fake::Half::f16, file, line);
}

inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row, LOCKSTEP_FROM) {
  fake::ldmatrix_x4({r, row}, false, file, line);
}
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row, LOCKSTEP_FROM) {
  fake::ldmatrix_x4({r, row}, true, file, line);
}

inline void cp_async_16(void* shared, const void* global, LOCKSTEP_FROM) {
  fake::cp_async_16(shared, global, {file, line});
}
inline void cp_async_commit() { fake::cp_async_commit(); }
template <int Groups>
void cp_async_wait() {
  fake::cp_async_wait(Groups);
}

inline float exp2_fast(float x) { return fake::within_2_ulp(exp2f(x)); }

}  // namespace lockstep::kernels
