#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/gemm_finish.hpp"

namespace lockstep::kernels {

namespace {

__global__ void finish_product_kernel(Array c, const float* sum, Array bias, Index columns, bool accumulate) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= static_cast<Index>(c.size)) return;
  float value = accumulate ? load_float(c, i) : 0.0f;
  if (sum) value += sum[i];
  if (bias.size > 0) value += load_float(bias, i % columns);
  store_float(c, i, value);
}

}  // namespace

void finish_product(const Queue& queue, Array c, const float* sum, Array bias, std::size_t columns, bool accumulate) {
  launch(finish_product_kernel, static_cast<unsigned>((c.size + kThreads - 1) / kThreads), kThreads, 0, queue.stream, c,
         sum, bias, static_cast<Index>(columns), accumulate);
}

}  // namespace lockstep::kernels
