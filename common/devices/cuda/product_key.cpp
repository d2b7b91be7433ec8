#include "common/devices/cuda/product_key.hpp"

#include <algorithm>

namespace lockstep::cuda {

namespace {

std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 16u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

std::uint32_t result_alignment(const Product& p) {
  std::uint32_t least = alignment_of(p.c);
  for (const void* beside : {p.bias, static_cast<const void*>(p.inner)})
    if (beside) least = std::min(least, alignment_of(beside));
  return least;
}

}  // namespace

ProductKey key_of(const Product& p, bool tf32) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .dtype = p.dtype,
          .c_dtype = p.c_dtype,
          .a_transposed = p.a_transposed,
          .b_transposed = p.b_transposed,
          .accumulate = p.accumulate,
          .bias = p.bias != nullptr,
          .tf32 = tf32 && p.dtype == DType::f32,
          .epilogue = p.epilogue,
          .a_alignment = alignment_of(p.a),
          .b_alignment = alignment_of(p.b),
          .c_alignment = alignment_of(p.c),
          .result_alignment = result_alignment(p)};
}

}  // namespace lockstep::cuda
