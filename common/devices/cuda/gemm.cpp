#include "common/devices/cuda/gemm.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/devices/cuda/kernels/gemm_finish.hpp"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

using kernels::Cut;

kernels::Array array(const Slice& slice) { return {slice.data(), slice.size(), slice.dtype()}; }

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

/// The bias in the form the library needs: c's dtype, and aligned. If it is not, a copy in the workspace.
const void* fitting_bias(const kernels::Queue& queue, const Slice& bias, DType dtype) {
  if (bias.empty()) return nullptr;
  if (bias.dtype() == dtype && aligned(bias.data())) return bias.data();
  void* const copy = queue.workspace.take(bias.size() * bytes_of(dtype));
  kernels::cast(queue, {copy, bias.size(), dtype}, array(bias));
  return copy;
}

std::size_t widened_bytes(const Slice& x) { return x.dtype() == DType::f32 ? 0 : Cut::bytes<float>(x.size()); }

/// A whole slice as f32: in place, or widened into memory of `cut`.
const float* widened(const kernels::Queue& queue, const Slice& x, Cut& cut) {
  if (x.dtype() == DType::f32) return static_cast<const float*>(x.data());
  auto* const to = cut.next<float>(x.size());
  kernels::cast(queue, {to, x.size(), DType::f32}, array(x));
  return to;
}

/// True if the library's fast kernels can read and write it: rows begin at multiples of 16 bytes.
bool suits_tensor_cores(const Matrix& x) {
  return aligned(x.slice.data()) && (x.rows == 1 || x.columns * bytes_of(x.slice.dtype()) % 16 == 0);
}

Product product_of(const Matrix& c, const Matrix& a, const Matrix& b) {
  Product product{c.m(), c.n(), a.n(), a.slice.dtype(), c.slice.dtype()};
  product.a = a.slice.data();
  product.b = b.slice.data();
  product.c = c.slice.data();
  product.a_transposed = a.transposed;
  product.b_transposed = b.transposed;
  return product;
}

/// Requirements of the library's GELU (cublasLt.h: CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD). In f32, ours is more exact.
bool takes_gelu(const Matrix& c, const Matrix& a, const Matrix& b, const Slice& inner) {
  const DType dtype = c.slice.dtype();
  return dtype != DType::f32 && a.slice.dtype() == dtype && b.slice.dtype() == dtype && inner.dtype() == dtype &&
         a.n() > 0 && c.n() % 8 == 0 && aligned(c.slice.data()) && aligned(inner.data());
}

}  // namespace

bool Gemm::matmul_gelu(const kernels::Queue& queue, const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b,
                       const Slice& bias) {
  if (!takes_gelu(x, a, b, y) || (!bias.empty() && bias.dtype() != y.dtype())) return false;
  Product product = product_of(x, a, b);
  product.epilogue = Epilogue::gelu;
  product.inner = std::exchange(product.c, y.data());
  product.bias = fitting_bias(queue, bias, y.dtype());
  return library_.run(product);
}

bool Gemm::matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) {
  if (!takes_gelu(dx, a, b, x)) return false;
  Product product = product_of(dx, a, b);
  product.epilogue = Epilogue::gelu_backward;
  product.inner = x.data();
  return library_.run(product);
}

void Gemm::matmul(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
                  const Slice& bias) {
  if (!take_the_short_way(queue, c, a, b, into, bias)) take_the_long_way(queue, c, a, b, into, bias);
}

bool Gemm::take_the_short_way(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
                              const Slice& bias) {
  const DType dtype = a.slice.dtype(), c_dtype = c.slice.dtype();
  if (a.n() == 0 || b.slice.dtype() != dtype || (c_dtype != dtype && c_dtype != DType::f32)) return false;
  const bool suited = dtype == DType::f32 || (suits_tensor_cores(c) && suits_tensor_cores(a) && suits_tensor_cores(b));
  const bool accumulate = into == Into::accumulate;
  Product product = product_of(c, a, b);
  product.accumulate = accumulate;
  // cuBLASLt would round to 16 bits before it adds the bias (seen on an H100: in += and at odd places), or the bias.
  const bool bias_apart = !bias.empty() && c_dtype != DType::f32 && (bias.dtype() != c_dtype || accumulate || !suited);
  float* sum = nullptr;
  if (bias_apart) {
    product.c = sum = Cut(queue.workspace.take(Cut::bytes<float>(c.slice.size()))).next<float>(c.slice.size());
    product.c_dtype = DType::f32;
    product.accumulate = false;
  } else {
    product.bias = fitting_bias(queue, bias, c_dtype);
  }
  if (!library_.run(product)) return false;
  if (bias_apart) finish_product(queue, array(c.slice), sum, array(bias), c.n(), accumulate);
  if (!suited) ++slow_paths().products_at_odd_places;
  return true;
}

void Gemm::take_the_long_way(const kernels::Queue& queue, const Matrix& c, const Matrix& a, const Matrix& b, Into into,
                             const Slice& bias) {
  const bool accumulate = into == Into::accumulate;
  if (a.n() > 0 && (a.slice.dtype() != DType::f32 || b.slice.dtype() != DType::f32)) ++slow_paths().products_in_fp32;
  if (a.n() == 0) return finish_product(queue, array(c.slice), nullptr, array(bias), c.n(), accumulate);
  Cut cut(queue.workspace.take(widened_bytes(a.slice) + widened_bytes(b.slice) + Cut::bytes<float>(c.slice.size())));
  Product product{c.m(), c.n(), a.n()};
  product.a = widened(queue, a.slice, cut);
  product.b = widened(queue, b.slice, cut);
  auto* const sum = cut.next<float>(c.slice.size());
  product.c = sum;
  product.a_transposed = a.transposed;
  product.b_transposed = b.transposed;
  if (!library_.run(product))
    throw Error(Verdict::fail, fmt::format("cublasLtMatmulAlgoGetHeuristic: no way to multiply {} × {} by {} × {} in "
                                           "fp32 ({})",
                                           product.m, product.k, product.k, product.n, place()));
  finish_product(queue, array(c.slice), sum, array(bias), c.n(), accumulate);
}

}  // namespace lockstep::cuda
