// The library of matrix products on the fake GPU: loops, queued on the stream like a kernel. Sums are in f32.
#include "common/devices/cuda/gemm.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/devices/cuda/status.hpp"
#include "common/runtime/convert.hpp"

namespace lockstep::cuda {

namespace {

/// rows × columns of x as floats; x is stored transposed where `transposed`.
std::vector<float> widened(const void* x, DType dtype, std::size_t rows, std::size_t columns, bool transposed) {
  std::vector<float> result(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      result[i * columns + j] = load_as_float(x, transposed ? j * rows + i : i * columns + j, dtype);
  return result;
}

void store(void* x, std::size_t i, DType dtype, float value) {
  switch (dtype) {
    case DType::bf16: static_cast<std::uint16_t*>(x)[i] = to_bf16(value); break;
    case DType::f16: static_cast<std::uint16_t*>(x)[i] = to_f16(value); break;
    default: static_cast<float*>(x)[i] = value;
  }
}

/// In its tanh form, which is x · logistic(2u); the derivative follows from that.
float logistic_of_twice(float x) { return 1 / (1 + std::exp(-1.5957691216f * x * (1 + 0.044715f * x * x))); }
float gelu(float x) { return x * logistic_of_twice(x); }
float gelu_derivative(float x) {
  const float s = logistic_of_twice(x);
  return s + x * s * (1 - s) * 1.5957691216f * (1 + 3 * 0.044715f * x * x);
}

/// As cuBLASLt's: GELU of the sum before that is rounded.
float after_epilogue(const Product& p, std::size_t i, float sum) {
  switch (p.epilogue) {
    case Epilogue::gelu: store(p.inner, i, p.c_dtype, sum); return gelu(sum);
    case Epilogue::gelu_backward: return sum * gelu_derivative(load_as_float(p.inner, i, p.c_dtype));
    default: return sum;
  }
}

void multiply(const Product& p) {
  const std::vector<float> a = widened(p.a, p.dtype, p.m, p.k, p.a_transposed);
  const std::vector<float> b = widened(p.b, p.dtype, p.k, p.n, p.b_transposed);
  std::vector<float> row(p.n);
  for (std::size_t i = 0; i < p.m; ++i) {
    for (std::size_t j = 0; j < p.n; ++j) row[j] = 0;
    for (std::size_t s = 0; s < p.k; ++s)
      for (std::size_t j = 0; j < p.n; ++j) row[j] += a[i * p.k + s] * b[s * p.n + j];
    for (std::size_t j = 0; j < p.n; ++j) {
      if (p.accumulate) row[j] += load_as_float(p.c, i * p.n + j, p.c_dtype);
      if (p.bias) row[j] += load_as_float(p.bias, j, p.c_dtype);
      store(p.c, i * p.n + j, p.c_dtype, after_epilogue(p, i * p.n + j, row[j]));
    }
  }
}

/// What gemm.hpp promises to the library, which a GPU's might answer with wrong results.
void require(const Product& p) {
  const bool sizes = p.m > 0 && p.n > 0 && p.k > 0, dtypes = p.c_dtype == p.dtype || p.c_dtype == DType::f32;
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  const bool gelu = p.epilogue == Epilogue::none ||
                    (p.dtype != DType::f32 && p.c_dtype == p.dtype && p.n % 8 == 0 && aligned(p.c) && p.inner &&
                     aligned(p.inner) && !p.accumulate && (p.epilogue == Epilogue::gelu || !p.bias));
  if (!sizes || !dtypes || !gelu || !aligned(p.bias))
    throw std::logic_error("the library of products was asked for what it is not for");
}

void CUDART_CB run_queued(void* data) {
  const std::unique_ptr<const Product> product(static_cast<const Product*>(data));
  multiply(*product);
}

}  // namespace

struct ProductLibrary::State {
  cudaStream_t stream;
};

ProductLibrary::ProductLibrary(cudaStream_t stream, bool) : state_(new State{stream}) {}
ProductLibrary::~ProductLibrary() = default;

bool ProductLibrary::run(const Product& product) {
  require(product);
  check(cudaLaunchHostFunc(state_->stream, run_queued, new Product(product)), "cudaLaunchHostFunc");
  return true;
}

}  // namespace lockstep::cuda
