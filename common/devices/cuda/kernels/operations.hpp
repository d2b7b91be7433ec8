// Launchers of the kernels, one per operation of arithmetic.hpp, whose descriptions apply here too. Each queues its
// work on the queue's stream and returns. Shapes have been checked; nothing is launched for empty operands.
#pragma once

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::kernels {

// elementwise.cu
void fill(const Queue& queue, Array x, float value);
void cast(const Queue& queue, Array y, Array x);
void add(const Queue& queue, Array z, Array x, Array y);
void scale(const Queue& queue, Array x, float factor);
void scale(const Queue& queue, Array x, Array factor);
void scale_if(const Queue& queue, Array x, float factor, Array condition);
void gelu(const Queue& queue, Array y, Array x);
void gelu_backward(const Queue& queue, Array dx, Array dy, Array x);

// reductions.cu
void add_squares(const Queue& queue, Array sum, Array x);
void add_sum(const Queue& queue, Array sum, Array x);
void at_least(const Queue& queue, Array flag, Array x, float threshold);
void clip_factor(const Queue& queue, Array factor, Array sum_of_squares, float max_norm);
void find_overflow(const Queue& queue, Array flag, Array x);
void add_rows(const Queue& queue, Array sums, Array x);

// random.cu. `key` is made from seed, tensor and step; element i of x is element first + i of its tensor.
struct Draw {
  std::uint64_t key = 0;
  std::uint64_t first = 0;
};
void random_normal(const Queue& queue, Array x, Draw draw, float mean, float deviation);
/// Values are at most `largest`, the float below `high`.
void random_uniform(const Queue& queue, Array x, Draw draw, float low, float high, float largest);
void dropout(const Queue& queue, Array y, Array x, Draw draw, float p);

// layer_norm.cu
void layer_norm(const Queue& queue, Array y, Array statistics, Array x, Array weight, Array bias);
void layer_norm_backward(const Queue& queue, Array dx, Array dweight, Array dbias, Array dy, Array x, Array weight,
                         Array statistics, bool accumulate);

// rms_norm.cu
void rms_norm(const Queue& queue, Array y, Array statistics, Array x, Array weight);
void rms_norm_backward(const Queue& queue, Array dx, Array dweight, Array dy, Array x, Array weight, Array statistics,
                       bool accumulate);

// swiglu.cu
void swiglu(const Queue& queue, Array y, Array x, std::size_t width);
void swiglu_backward(const Queue& queue, Array dx, Array dy, Array x, std::size_t width);

// embedding.cu
void embedding(const Queue& queue, Array y, Array tokens, Array table, Array positions, std::size_t sequence);
void embedding_backward(const Queue& queue, Array dtable, Array dpositions, Array dy, Array tokens,
                        std::size_t sequence);

// cross_entropy.cu
void cross_entropy(const Queue& queue, Array loss, Array logits, Array targets, float factor, Array gradient_scale);
void cross_entropy_loss(const Queue& queue, Array loss, Array logits, Array targets, float factor);
struct Shard {
  std::int64_t first = 0;  // token of the first column
  std::int64_t count = 0;  // columns that hold a token
};
void shard_tokens(const Queue& queue, Array y, Array x, Shard shard);
void cross_entropy_statistics(const Queue& queue, Array statistics, Array logits, Array targets, Shard shard);
void cross_entropy_shard(const Queue& queue, Array loss, Array logits, Array statistics, Array targets, Shard shard,
                         float factor, Array gradient_scale);

// compression.cu
void top_k(const Queue& queue, Array values, Array indices, Array x);
void scatter_add(const Queue& queue, Array y, Array values, Array indices, float factor);
void quantise(const Queue& queue, Array q, Array scales, Array x, std::size_t block, Draw draw);
void add_dequantised(const Queue& queue, Array y, Array q, Array scales, std::size_t block, float factor);

// adamw.cu
struct AdamWStep {  // see AdamW
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  int step;
};
/// `gradient_factor`, `skip` and `skipped` may be empty, `parameter` may be `master`.
struct AdamWArrays {
  Array parameter, master, m, v, gradient, gradient_factor, skip, skipped;
};
struct AdamWPiece {
  std::int64_t count;  // elements
  bool decays;
};
/// `pieces` follow one another, from the first element to the last. One launch for up to 256 of them.
void adamw(const Queue& queue, const AdamWArrays& arrays, const AdamWPiece* pieces, std::size_t count, AdamWStep step);

}  // namespace lockstep::kernels
