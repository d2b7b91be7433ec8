// c = op(a)·op(b) + beta·c on floats, row-major, by one thread, with a BLAS. CMake picks sgemm_cblas.cpp with
// blas_openblas.cpp or blas_plain.cpp, or the loop of sgemm_no_blas.cpp.
#pragma once

#include <cstddef>

#include "common/devices/cpu/scratch.hpp"

namespace lockstep::cpu {

/// A matrix in memory: element (i, j) is data[i·stride + j], or data[j·stride + i] if transposed.
struct Operand {
  const float* data;
  std::size_t stride;
  bool transposed = false;
};

/// c: m × n, its rows `stride_c` apart; op(a): m × k; op(b): k × n; beta: 0 (c is not read) or 1.
void sgemm(Scratch& scratch, std::size_t m, std::size_t n, std::size_t k, Operand a, Operand b, float beta, float* c,
           std::size_t stride_c);

/// Tells the library to use no threads of its own; call it once, before the first product.
void use_one_thread();

/// True if an element of c is bit-identical whichever rows of c are computed in one call.
bool splits_freely();

const char* sgemm_name();

}  // namespace lockstep::cpu
