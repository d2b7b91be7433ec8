// The library of matrix products on the fake GPU: loops, queued on the stream like a kernel. Sums are in f32. Their
// order is drawn for each kind of product from its shape, types and alignment, because a real library's kernels differ,
// too. A test that relies on one order fails here.
#include "common/devices/cuda/gemm.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/devices/cuda/product_key.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/runtime/convert.hpp"
#include "common/testing/fakes/cuda/fake.hpp"

namespace lockstep::cuda {

namespace {

/// Returns x (rows × columns) as floats; x is stored transposed if `transposed`.
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

/// The tanh form of GELU is x · logistic(2u); its derivative follows from that.
float logistic_of_twice(float x) { return 1 / (1 + std::exp(-1.5957691216f * x * (1 + 0.044715f * x * x))); }
float gelu(float x) { return x * logistic_of_twice(x); }
float gelu_derivative(float x) {
  const float s = logistic_of_twice(x);
  return s + x * s * (1 - s) * 1.5957691216f * (1 + 3 * 0.044715f * x * x);
}

/// Like cuBLASLt: GELU of the sum before rounding.
float after_epilogue(const Product& p, std::size_t i, float sum) {
  switch (p.epilogue) {
    case Epilogue::gelu: store(p.inner, i, p.c_dtype, sum); return gelu(sum);
    case Epilogue::gelu_backward: return sum * gelu_derivative(load_as_float(p.inner, i, p.c_dtype));
    default: return sum;
  }
}

/// An order of the k terms of each sum: `parts` stretches, forwards or backwards, each distributed over `lanes` sums,
/// which are then added in pairs.
struct Order {
  std::size_t parts, lanes;
  bool from_the_end;
};

/// Mixes `value` into a hash (the finaliser of SplitMix64).
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash += value + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

std::uint64_t hash_of(const ProductKey& key) {
  std::uint64_t hash = fake::settings().library_seed;
  for (const std::size_t part :
       {key.m, key.n, key.k, static_cast<std::size_t>(key.dtype), static_cast<std::size_t>(key.c_dtype),
        std::size_t{key.a_transposed}, std::size_t{key.b_transposed}, std::size_t{key.accumulate},
        std::size_t{key.bias}, std::size_t{key.tf32}, static_cast<std::size_t>(key.epilogue),
        std::size_t{key.a_alignment}, std::size_t{key.b_alignment}, std::size_t{key.c_alignment},
        std::size_t{key.result_alignment}})
    hash = mixed(hash, part);
  return hash;
}

Order order_of(const ProductKey& key) {
  const std::uint64_t drawn = mixed(hash_of(key), 0);
  return {.parts = 1 + drawn % 4, .lanes = std::size_t{1} << (drawn >> 8) % 4, .from_the_end = (drawn >> 16) % 2 == 1};
}

/// lanes[0 … n) = the sums of terms first … last of row i of a·b; lanes holds order.lanes rows.
void sum_stretch(std::vector<float>& lanes, const Order& order, const float* a, const float* b, std::size_t n,
                 std::size_t first, std::size_t last) {
  lanes.assign(order.lanes * n, 0);
  for (std::size_t s = first; s < last; ++s) {
    const std::size_t term = order.from_the_end ? last - 1 - (s - first) : s;
    float* const lane = lanes.data() + (s - first) % order.lanes * n;
    for (std::size_t j = 0; j < n; ++j) lane[j] += a[term] * b[term * n + j];
  }
  for (std::size_t half = order.lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half * n; ++i) lanes[i] += lanes[half * n + i];
}

float rounded(float value, DType dtype) {
  std::array<std::byte, sizeof(float)> bits{};
  store(bits.data(), 0, dtype, value);
  return load_as_float(bits.data(), 0, dtype);
}

/// Like cuBLASLt 13.1 on an H100: a 16-bit sum is rounded before a bias is added to it, in += and where rows do not
/// begin at multiples of 16 bytes.
bool rounds_before_bias(const Product& p) {
  const auto odd = [](const void* data, std::size_t rows, std::size_t length, DType dtype) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 != 0 || (rows > 1 && length * bytes_of(dtype) % 16 != 0);
  };
  return p.bias && p.epilogue == Epilogue::none && p.c_dtype != DType::f32 &&
         (p.accumulate || odd(p.c, p.m, p.n, p.c_dtype) ||
          odd(p.a, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, p.dtype) ||
          odd(p.b, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n, p.dtype));
}

void multiply(const Product& p, const Order& order) {
  const bool rounds = rounds_before_bias(p);
  const std::vector<float> a = widened(p.a, p.dtype, p.m, p.k, p.a_transposed);
  const std::vector<float> b = widened(p.b, p.dtype, p.k, p.n, p.b_transposed);
  std::vector<float> row(p.n), lanes;
  for (std::size_t i = 0; i < p.m; ++i) {
    row.assign(p.n, 0);
    for (std::size_t part = 0; part < order.parts; ++part) {
      sum_stretch(lanes, order, a.data() + i * p.k, b.data(), p.n, part * p.k / order.parts,
                  (part + 1) * p.k / order.parts);
      for (std::size_t j = 0; j < p.n; ++j) row[j] += lanes[j];
    }
    for (std::size_t j = 0; j < p.n; ++j) {
      if (p.accumulate) row[j] += load_as_float(p.c, i * p.n + j, p.c_dtype);
      if (rounds) row[j] = rounded(row[j], p.c_dtype);
      if (p.bias) row[j] += load_as_float(p.bias, j, p.c_dtype);
      store(p.c, i * p.n + j, p.c_dtype, after_epilogue(p, i * p.n + j, row[j]));
    }
  }
}

/// Checks the conditions that gemm.hpp guarantees to the library; a GPU's library might return wrong results without
/// them.
void require(const Product& p) {
  const bool sizes = p.m > 0 && p.n > 0 && p.k > 0, dtypes = p.c_dtype == p.dtype || p.c_dtype == DType::f32;
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  const bool gelu = p.epilogue == Epilogue::none ||
                    (p.dtype != DType::f32 && p.c_dtype == p.dtype && p.n % 8 == 0 && aligned(p.c) && p.inner &&
                     aligned(p.inner) && !p.accumulate && (p.epilogue == Epilogue::gelu || !p.bias));
  if (!sizes || !dtypes || !gelu || !aligned(p.bias))
    throw std::logic_error("the library of products was asked for what it is not for");
}

/// Names the part of the library's code that the product needs, which is loaded with the first such product.
std::string code_of(const Product& p, bool tf32) {
  return fmt::format("{}→{}{}{}{}{}{}{}", to_string(p.dtype), to_string(p.c_dtype), p.a_transposed ? " aᵀ" : "",
                     p.b_transposed ? " bᵀ" : "", p.accumulate ? " +=" : "", p.bias ? " bias" : "",
                     p.epilogue == Epilogue::none   ? ""
                     : p.epilogue == Epilogue::gelu ? " GELU"
                                                    : " GELU'",
                     tf32 && p.dtype == DType::f32 ? " tf32" : "");
}

struct Queued {
  Product product;
  Order order;
};

void CUDART_CB run_queued(void* data) {
  const std::unique_ptr<const Queued> queued(static_cast<const Queued*>(data));
  multiply(queued->product, queued->order);
}

}  // namespace

struct ProductLibrary::State {
  cudaStream_t stream;
  bool tf32;
  std::shared_ptr<void> handle;
};

std::shared_ptr<void> open_product_library() {
  fake::comes_when_idle("the library of products is opened");
  return std::make_shared<int>();
}

ProductLibrary::ProductLibrary(cudaStream_t stream, bool tf32, std::shared_ptr<void> handle)
    : state_(new State{stream, tf32, std::move(handle)}) {}
ProductLibrary::~ProductLibrary() = default;

bool ProductLibrary::run(const Product& product) {
  require(product);
  if (!state_->handle) state_->handle = open_product_library();
  fake::load_code(code_of(product, state_->tf32));
  const Order order = order_of(key_of(product, state_->tf32));
  check(cudaLaunchHostFunc(state_->stream, run_queued, new Queued{product, order}), "cudaLaunchHostFunc");
  fake::count_launch();
  return true;
}

}  // namespace lockstep::cuda
