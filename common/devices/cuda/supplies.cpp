#include "common/devices/cuda/supplies.hpp"

#include <initializer_list>
#include <new>
#include <stdexcept>

#include "common/devices/cuda/status.hpp"
#include "common/devices/cuda/stream.hpp"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kSide = 64;  // size of the small products' matrices
constexpr std::size_t kMatrixBytes = kSide * kSide * sizeof(float);

/// Calls f with one product of every kind that Product offers, whatever its sizes.
template <class F>
void each_kind(const Product& of, F f) {
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true})
      for (const bool with_bias : {false, true}) {
        Product product = of;
        product.a_transposed = a_transposed;
        product.b_transposed = b_transposed;
        if (!with_bias) product.bias = nullptr;
        for (const bool accumulate : {false, true}) {
          product.accumulate = accumulate;
          f(product);
        }
        if (of.dtype == DType::f32 || of.c_dtype == DType::f32) continue;
        product.accumulate = false;
        product.epilogue = Epilogue::gelu;
        f(product);
        product.epilogue = Epilogue::gelu_backward;
        if (!with_bias) f(product);
      }
}

}  // namespace

DeviceSupplies::DeviceSupplies(int devices) : devices_(devices), product_library_(open_product_library()) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, sizeof(kernels::Fault) * static_cast<std::size_t>(devices)), "cudaMallocHost");
  records_ = static_cast<kernels::Fault*>(memory);
  multiply_once();
}

DeviceSupplies::~DeviceSupplies() { (void)cudaFreeHost(records_); }

kernels::Fault* DeviceSupplies::record(int index) const {
  if (index < 0 || index >= devices_) throw std::logic_error("more devices than there are supplies for");
  return new (records_ + index) kernels::Fault;
}

void DeviceSupplies::multiply_once() const {
  const Stream stream;
  char* memory = nullptr;
  check(cudaMallocAsync(reinterpret_cast<void**>(&memory), 5 * kMatrixBytes, stream.get()), "cudaMallocAsync");
  check(cudaMemsetAsync(memory, 0, 5 * kMatrixBytes, stream.get()), "cudaMemsetAsync");
  for (const bool tf32 : {false, true}) {
    ProductLibrary library(stream.get(), tf32, product_library_);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const DType c_dtype : {dtype, DType::f32}) {
        if (dtype == DType::f32 ? c_dtype != dtype : tf32) continue;
        Product product{kSide, kSide, kSide, dtype, c_dtype};
        product.a = memory;
        product.b = memory + kMatrixBytes;
        product.c = memory + 2 * kMatrixBytes;
        product.inner = memory + 3 * kMatrixBytes;
        product.bias = memory + 4 * kMatrixBytes;
        each_kind(product, [&](const Product& one) { (void)library.run(one); });  // false: it has no such kind
      }
  }
  check(cudaFreeAsync(memory, stream.get()), "cudaFreeAsync");
  stream.synchronize();
}

}  // namespace lockstep::cuda
