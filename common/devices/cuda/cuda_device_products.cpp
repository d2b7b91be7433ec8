// Matrix products and attention of the GPU's device.
#include "common/devices/cuda/cuda_device_class.hpp"
#include "common/devices/cuda/kernels/attention.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep {

bool cuda_fuses_gelu() {
  int device = 0, major = 0;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major >= 9;
}

}  // namespace lockstep

namespace lockstep::cuda {

namespace {

kernels::AttentionSize size_of(const AttentionShape& shape) {
  return {shape.batch, shape.positions, shape.heads, shape.head_size};
}

}  // namespace

void StreamDevice::matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) {
  gemm_.matmul(queue(), c, a, b, into, bias);
}

void StreamDevice::matmul_gelu(const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b, const Slice& bias) {
  if (!gemm_.matmul_gelu(queue(), y, x, a, b, bias)) Device::matmul_gelu(y, x, a, b, bias);
}

void StreamDevice::matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) {
  if (!gemm_.matmul_gelu_backward(dx, a, b, x)) Device::matmul_gelu_backward(dx, a, b, x);
}

void StreamDevice::attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) {
  kernels::attention(queue(), array(y), array(statistics), array(qkv), size_of(shape));
}

void StreamDevice::attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,
                                      const Slice& statistics, AttentionShape shape) {
  kernels::attention_backward(queue(), array(dqkv), array(dy), array(y), array(qkv), array(statistics), size_of(shape));
}

void StreamDevice::attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  kernels::attention_probabilities(queue(), array(probabilities), array(qkv), size_of(shape));
}

void StreamDevice::attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv,
                                    AttentionShape shape) {
  kernels::attention_output(queue(), array(y), array(probabilities), array(qkv), size_of(shape));
}

void StreamDevice::attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,
                                                    const Slice& probabilities, const Slice& qkv,
                                                    AttentionShape shape) {
  kernels::attention_probabilities_backward(queue(), array(dqkv), array(dy), array(y), array(probabilities), array(qkv),
                                            size_of(shape));
}

}  // namespace lockstep::cuda
