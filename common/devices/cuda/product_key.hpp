// Everything that a library's choice of algorithm for a matrix product may depend on.
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
  bool tf32;  // f32 operands may be rounded
  Epilogue epilogue;
  /// Alignments of the addresses: the largest power of two up to 16 that divides them, which a kernel may rely on.
  /// Tensor cores need no more (cuBLAS's documentation, "Tensor Core Usage"). So a product is bit-identical wherever
  /// its matrices are, as long as they are aligned to 16 bytes: a model split into stages, with products of the same
  /// shapes, adds in the same order as the whole model. A shard's product has another shape, and may add in any order.
  std::uint32_t a_alignment, b_alignment, c_alignment;
  std::uint32_t result_alignment;  // of c, the bias and GELU's input: a kernel may use one width for all
  auto operator<=>(const ProductKey&) const = default;  // NOLINT(modernize-use-nullptr): for clang-tidy 14
};

ProductKey key_of(const Product& product, bool tf32);

}  // namespace lockstep::cuda
