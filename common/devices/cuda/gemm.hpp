// Matrix products on one stream. The library gets every product that it does well; all other combinations of storage,
// and empty sums, take the slow path: operands widened to f32, one product in f32, one rounding at the end.
//
// Linking chooses the library: cuBLASLt (gemm_cublaslt.cpp), or plain loops on the fake GPU
// (common/testing/fakes/cuda/gemm.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "common/arithmetic.hpp"
#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::cuda {

enum class Epilogue { none, gelu, gelu_backward };

/// A product for the library: c (m × n) = a (m × k) · b (k × n), all dense and row-major, sums in f32. a and b have one
/// dtype; c has the same or f32; bias is null or n elements of c's dtype, aligned to 16 bytes. No size is 0.
///
/// With GELU, all have one 16-bit type, rows of c have a multiple of 8 elements, c and `inner` (m × n) are aligned to
/// 16 bytes, and nothing is accumulated. `gelu`: inner = a·b + bias, c = GELU(inner). `gelu_backward`: c = (a·b) ·
/// GELU'(inner), without a bias.
struct Product {
  std::size_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;    // of a and b
  DType c_dtype = DType::f32;  // of c and bias
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  bool a_transposed = false;  // a is stored as k × m
  bool b_transposed = false;  // b is stored as n × k
  bool accumulate = false;    // c += a·b
  Epilogue epilogue = Epilogue::none;
  void* inner = nullptr;  // input of GELU: written by `gelu`, read by `gelu_backward`
};

/// Opens a handle of the library for the current GPU, which any number of streams may share.
std::shared_ptr<void> open_product_library();

/// The library, for one stream. Reruns are bit-identical.
class ProductLibrary {
 public:
  /// tf32: products of f32 may round their operands to a 10-bit mantissa and use tensor cores. Without a handle, the
  /// first product opens one, so queues that only add never need it.
  ProductLibrary(cudaStream_t stream, bool tf32, std::shared_ptr<void> handle = nullptr);
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  /// Queues the product; false, with nothing queued, if the library cannot do it.
  bool run(const Product& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Device::matmul and, if the library can fuse them, products with GELU, for the device of one stream.
class Gemm {
 public:
  Gemm(cudaStream_t stream, bool tf32, std::shared_ptr<void> handle = nullptr)
      : library_(stream, tf32, std::move(handle)) {}
  /// `queue` must be on the same stream. Throws Error if CUDA or the library fails.
  void matmul(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
              const Slice& bias);
  /// Device::matmul_gelu and its backward; false, with nothing written, if the library cannot fuse them.
  bool matmul_gelu(const kernels::Queue& queue, const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b,
                   const Slice& bias);
  bool matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x);

 private:
  bool take_the_short_way(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
                          const Slice& bias);
  void take_the_long_way(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
                         const Slice& bias);

  ProductLibrary library_;
};

}  // namespace lockstep::cuda
