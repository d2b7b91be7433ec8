// sgemm without a BLAS.
#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

void sgemm(Scratch& scratch, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c) {
  own_sgemm(scratch, m, n, k, a, b, beta, c, stride_c);
}

bool splits_freely() { return true; }

void use_one_thread() {}
const char* sgemm_name() { return "own sgemm"; }

}  // namespace lockstep::cpu
