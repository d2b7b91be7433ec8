// Matrix products and attention of the GPU device.
#include <cmath>

#include "common/devices/cuda/cuda_device_class.hpp"
#include "common/devices/cuda/kernels/attention.hpp"
#include "common/devices/cuda/kernels/attention_block.hpp"
#include "common/devices/cuda/slow_paths.hpp"
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

kernels::AttentionBlockSize size_of(const AttentionBlock& b) {
  return {b.batch, b.queries, b.keys, b.heads, b.key_value_heads(), b.head_size, b.first_query, b.first_key};
}

AttentionKey key_of(const AttentionShape& shape, DType dtype, bool backward) {
  return {shape.batch, shape.positions, shape.heads, shape.key_value_heads(), shape.head_size, dtype, backward};
}

/// Counts a GELU that is not fused. In f32 it never is, which is more exact, and is not counted.
void note_gelu_apart(const Slice& of) {
  if (of.dtype() != DType::f32) ++slow_paths().gelus_apart;
}

}  // namespace

void StreamDevice::matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) {
  gemm_.matmul(queue(), c, a, b, into, bias);
}

void StreamDevice::matmul_gelu(const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b, const Slice& bias) {
  if (gemm_.matmul_gelu(queue(), y, x, a, b, bias)) return;
  note_gelu_apart(y);
  Device::matmul_gelu(y, x, a, b, bias);
}

void StreamDevice::matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) {
  if (gemm_.matmul_gelu_backward(dx, a, b, x)) return;
  note_gelu_apart(x);
  Device::matmul_gelu_backward(dx, a, b, x);
}

void StreamDevice::rotate_positions(const Slice& x, RotaryShape shape, float base, Turn way) {
  kernels::rotate_positions(queue(), array(x),
                            {shape.batch, shape.positions, shape.turning, shape.head_size, shape.first},
                            std::log2(static_cast<double>(base)), way == Turn::backward);
}

StreamDevice::Spread StreamDevice::spread(const Slice& qkv, AttentionShape shape, bool backward) {
  if (shape.key_value_heads() == shape.heads) return {array(qkv), {}};
  const std::size_t size = 3 * shape.batch * shape.positions * shape.heads * shape.head_size;
  const std::size_t bytes = kernels::Cut::bytes<char>(size * bytes_of(qkv.dtype()));
  kernels::Cut memory(spread_.take((backward ? 2 : 1) * bytes));
  Spread spread{{memory.next<char>(bytes), size, qkv.dtype()}, {}};
  if (backward) spread.gradient = {memory.next<char>(bytes), size, qkv.dtype()};
  kernels::spread_groups(queue(), spread.qkv, array(qkv), size_of(shape), shape.key_value_heads());
  return spread;
}

void StreamDevice::add_spread(const Slice& dqkv, const Spread& spread, AttentionShape shape) {
  if (spread.gradient.data)
    kernels::add_groups(queue(), array(dqkv), spread.gradient, size_of(shape), shape.key_value_heads());
}

void StreamDevice::attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) {
  if (fused_attention_.run(queue(), {key_of(shape, qkv.dtype(), false), qkv.data(), y.data(), statistics.data()}))
    return;
  if (!kernels::attention(queue(), array(y), array(statistics), spread(qkv, shape).qkv, size_of(shape)))
    ++slow_paths().attentions_in_loops;
}

void StreamDevice::attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,
                                      const Slice& statistics, AttentionShape shape) {
  if (fused_attention_.run(
          queue(), {key_of(shape, qkv.dtype(), true), qkv.data(), y.data(), statistics.data(), dy.data(), dqkv.data()}))
    return;
  const Spread whole = spread(qkv, shape, true);
  if (!kernels::attention_backward(queue(), whole.gradient.data ? whole.gradient : array(dqkv), array(dy), array(y),
                                   whole.qkv, array(statistics), size_of(shape)))
    ++slow_paths().attentions_in_loops;
  add_spread(dqkv, whole, shape);
}

void StreamDevice::attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  kernels::attention_probabilities(queue(), array(probabilities), spread(qkv, shape).qkv, size_of(shape));
}

void StreamDevice::attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv,
                                    AttentionShape shape) {
  kernels::attention_output(queue(), array(y), array(probabilities), spread(qkv, shape).qkv, size_of(shape));
}

void StreamDevice::attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,
                                                    const Slice& probabilities, const Slice& qkv,
                                                    AttentionShape shape) {
  const Spread whole = spread(qkv, shape, true);
  kernels::attention_probabilities_backward(queue(), whole.gradient.data ? whole.gradient : array(dqkv), array(dy),
                                            array(y), array(probabilities), whole.qkv, size_of(shape));
  add_spread(dqkv, whole, shape);
}

void StreamDevice::attention_block(const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                                   AttentionBlock block) {
  kernels::attention_block(queue(), {array(y), array(statistics), array(q), array(kv), {}, {}, {}}, size_of(block));
}

void StreamDevice::attention_block_backward(const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,
                                            const Slice& statistics, const Slice& q, const Slice& kv,
                                            AttentionBlock block) {
  kernels::attention_block_backward(
      queue(), {array(y), array(statistics), array(q), array(kv), array(dy), array(dq), array(dkv)}, size_of(block));
}

}  // namespace lockstep::cuda
