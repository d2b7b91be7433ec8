// Everything that a library's choice of a way to do a matrix product may depend on.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "common/devices/cuda/gemm.hpp"

namespace lockstep::cuda {

struct ProductKey {
  std::size_t m, n, k;
  DType dtype, c_dtype;
  bool a_transposed, b_transposed, accumulate, bias;
  bool tf32;  // operands of f32 may be rounded
  Epilogue epilogue;
  /// Of the addresses: the largest power of two up to 16 that divides them, which is what a kernel may rely on. Tensor
  /// cores ask for no more (cuBLAS's documentation, "Tensor Core Usage"). So a product gives the same bits wherever its
  /// matrices lie, if that is at multiples of 16 bytes: a model that is cut into stages, with products of the same
  /// shapes, adds in the order of the whole one. A shard's product has another shape, and may add in any order.
  std::uint32_t a_alignment, b_alignment, c_alignment;
  std::uint32_t result_alignment;  // of c, the bias and what GELU is taken of: a kernel may use one width for all
  auto operator<=>(const ProductKey&) const = default;  // NOLINT(modernize-use-nullptr): of clang-tidy 14
};

ProductKey key_of(const Product& product, bool tf32);

}  // namespace lockstep::cuda
