// Operations done by kernels, passed on one by one, and errors found by kernels.
#include "common/devices/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "common/devices/cuda/cuda_device_class.hpp"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/devices/cuda/supplies.hpp"
#include "common/devices/random_key.hpp"

namespace lockstep {

std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32) {
  return std::make_unique<cuda::StreamDevice>(stream, tf32, nullptr, 0);
}

std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32, const cuda::DeviceSupplies& supplies,
                                             int index) {
  return std::make_unique<cuda::StreamDevice>(stream, tf32, &supplies, index);
}

namespace cuda {

namespace {

kernels::Draw draw(const Random& random) { return {key_of(random), random.first}; }

kernels::Shard shard_of(const VocabularyShard& shard) {
  return {static_cast<std::int64_t>(shard.first), static_cast<std::int64_t>(shard.count)};
}

kernels::AdamWStep step_of(const AdamW& options) {
  return {options.learning_rate, options.beta1, options.beta2, options.epsilon, options.weight_decay, options.step};
}

}  // namespace

StreamDevice::StreamDevice(cudaStream_t stream, bool tf32, const DeviceSupplies* supplies, int index)
    : stream_(stream),
      workspace_(stream),
      spread_(stream),
      gemm_(stream, tf32, supplies ? supplies->product_library() : nullptr),
      fused_attention_(stream, /*may_load=*/!supplies),
      owns_fault_(!supplies) {
  if (supplies) {
    fault_ = supplies->record(index);
    return;
  }
  void* memory = nullptr;
  check(cudaMallocHost(&memory, sizeof(kernels::Fault)), "cudaMallocHost");
  fault_ = new (memory) kernels::Fault;
}

StreamDevice::~StreamDevice() {
  // A kernel may still be about to write the record. Any error has been reported by an earlier synchronisation.
  (void)cudaStreamSynchronize(stream_);
  if (owns_fault_) (void)cudaFreeHost(fault_);
}

void StreamDevice::check_indices(Location where) {
  if (fault_->found == 0) return;
  const kernels::Fault fault = std::exchange(*fault_, {});
  const auto index = static_cast<std::int32_t>(fault.found & 0xffffffffu);
  const std::string message = fmt::format(fmt::runtime(fault.message), index, (fault.found >> 32) - 1, fault.limit);
  usage_error(message + " (found on the GPU, and reported when it was waited for)", where);
}

void StreamDevice::fill(const Slice& x, float value) { kernels::fill(queue(), array(x), value); }

void StreamDevice::copy(const Slice& y, const Slice& x) {
  if (x.empty() || y.data() == x.data()) return;
  check(cudaMemcpyAsync(y.data(), x.data(), x.bytes(), cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
}

void StreamDevice::cast(const Slice& y, const Slice& x) { kernels::cast(queue(), array(y), array(x)); }

void StreamDevice::add(const Slice& z, const Slice& x, const Slice& y) {
  kernels::add(queue(), array(z), array(x), array(y));
}

void StreamDevice::scale(const Slice& x, float factor) { kernels::scale(queue(), array(x), factor); }
void StreamDevice::scale(const Slice& x, const Slice& factor) { kernels::scale(queue(), array(x), array(factor)); }

void StreamDevice::scale_if(const Slice& x, float factor, const Slice& condition) {
  kernels::scale_if(queue(), array(x), factor, array(condition));
}

void StreamDevice::at_least(const Slice& flag, const Slice& x, float threshold) {
  kernels::at_least(queue(), array(flag), array(x), threshold);
}

void StreamDevice::add_squares(const Slice& sum, const Slice& x) {
  kernels::add_squares(queue(), array(sum), array(x));
}

void StreamDevice::add_sum(const Slice& sum, const Slice& x) { kernels::add_sum(queue(), array(sum), array(x)); }

void StreamDevice::clip_factor(const Slice& factor, const Slice& sum_of_squares, float max_norm) {
  kernels::clip_factor(queue(), array(factor), array(sum_of_squares), max_norm);
}

void StreamDevice::find_overflow(const Slice& flag, const Slice& x) {
  kernels::find_overflow(queue(), array(flag), array(x));
}

void StreamDevice::random_normal(const Slice& x, Random key, float mean, float deviation) {
  kernels::random_normal(queue(), array(x), draw(key), mean, deviation);
}

void StreamDevice::random_uniform(const Slice& x, Random key, float low, float high) {
  kernels::random_uniform(queue(), array(x), draw(key), low, high, std::nextafter(high, low));
}

void StreamDevice::dropout(const Slice& y, const Slice& x, Random key, float p) {
  kernels::dropout(queue(), array(y), array(x), draw(key), p);
}

void StreamDevice::add_rows(const Slice& bias_gradient, const Matrix& x) {
  kernels::add_rows(queue(), array(bias_gradient), array(x.slice));
}

void StreamDevice::gelu(const Slice& y, const Slice& x) { kernels::gelu(queue(), array(y), array(x)); }

void StreamDevice::gelu_backward(const Slice& dx, const Slice& dy, const Slice& x) {
  kernels::gelu_backward(queue(), array(dx), array(dy), array(x));
}

void StreamDevice::swiglu(const Slice& y, const Slice& x, std::size_t width) {
  kernels::swiglu(queue(), array(y), array(x), width);
}

void StreamDevice::swiglu_backward(const Slice& dx, const Slice& dy, const Slice& x, std::size_t width) {
  kernels::swiglu_backward(queue(), array(dx), array(dy), array(x), width);
}

void StreamDevice::rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) {
  kernels::rms_norm(queue(), array(y), array(statistics), array(x), array(weight));
}

void StreamDevice::rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,
                                     const Slice& weight, const Slice& statistics, Into into) {
  kernels::rms_norm_backward(queue(), array(dx), array(dweight), array(dy), array(x), array(weight), array(statistics),
                             into == Into::accumulate);
}

void StreamDevice::layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,
                              const Slice& bias) {
  kernels::layer_norm(queue(), array(y), array(statistics), array(x), array(weight), array(bias));
}

void StreamDevice::layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,
                                       const Slice& x, const Slice& weight, const Slice& statistics, Into into) {
  kernels::layer_norm_backward(queue(), array(dx), array(dweight), array(dbias), array(dy), array(x), array(weight),
                               array(statistics), into == Into::accumulate);
}

void StreamDevice::embedding(const Slice& y, const Slice& tokens, const Slice& table, const Slice& positions,
                             std::size_t sequence) {
  kernels::embedding(queue(), array(y), array(tokens), array(table), array(positions), sequence);
}

void StreamDevice::embedding_backward(const Slice& dtable, const Slice& dpositions, const Slice& dy,
                                      const Slice& tokens, std::size_t sequence) {
  kernels::embedding_backward(queue(), array(dtable), array(dpositions), array(dy), array(tokens), sequence);
}

void StreamDevice::cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                                 const Slice& gradient_scale) {
  kernels::cross_entropy(queue(), array(loss), array(logits), array(targets), factor, array(gradient_scale));
}

void StreamDevice::cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) {
  kernels::cross_entropy_loss(queue(), array(loss), array(logits), array(targets), factor);
}

void StreamDevice::shard_tokens(const Slice& y, const Slice& x, VocabularyShard shard) {
  kernels::shard_tokens(queue(), array(y), array(x), shard_of(shard));
}

void StreamDevice::cross_entropy_statistics(const Slice& statistics, const Slice& logits, const Slice& targets,
                                            VocabularyShard shard) {
  kernels::cross_entropy_statistics(queue(), array(statistics), array(logits), array(targets), shard_of(shard));
}

void StreamDevice::cross_entropy_shard(const Slice& loss, const Slice& logits, const Slice& statistics,
                                       const Slice& targets, VocabularyShard shard, float factor,
                                       const Slice& gradient_scale) {
  kernels::cross_entropy_shard(queue(), array(loss), array(logits), array(statistics), array(targets), shard_of(shard),
                               factor, array(gradient_scale));
}

void StreamDevice::top_k(const Slice& values, const Slice& indices, const Slice& x) {
  kernels::top_k(queue(), array(values), array(indices), array(x));
}

void StreamDevice::scatter_add(const Slice& y, const Slice& values, const Slice& indices, float factor) {
  kernels::scatter_add(queue(), array(y), array(values), array(indices), factor);
}

void StreamDevice::quantise(const Slice& q, const Slice& scales, const Slice& x, std::size_t block, Random key) {
  kernels::quantise(queue(), array(q), array(scales), array(x), block, draw(key));
}

void StreamDevice::add_dequantised(const Slice& y, const Slice& q, const Slice& scales, std::size_t block,
                                   float factor) {
  kernels::add_dequantised(queue(), array(y), array(q), array(scales), block, factor);
}

void StreamDevice::adamw(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v,
                         const Slice& gradient, AdamW options, const Slice& gradient_factor, const Slice& skip,
                         const Slice& skipped) {
  const AdamWPiece all{master.size()};
  adamw_pieces(parameter, master, m, v, gradient, {&all, 1}, options, gradient_factor, skip, skipped);
}

void StreamDevice::adamw_pieces(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v,
                                const Slice& gradient, std::span<const AdamWPiece> pieces, AdamW options,
                                const Slice& gradient_factor, const Slice& skip, const Slice& skipped) {
  const kernels::AdamWArrays arrays{array(parameter), array(master),          array(m),    array(v),
                                    array(gradient),  array(gradient_factor), array(skip), array(skipped)};
  std::vector<kernels::AdamWPiece> counts;
  counts.reserve(pieces.size());
  for (const AdamWPiece& piece : pieces) counts.push_back({static_cast<std::int64_t>(piece.count), piece.decays});
  kernels::adamw(queue(), arrays, counts.data(), counts.size(), step_of(options));
}

}  // namespace cuda

}  // namespace lockstep
