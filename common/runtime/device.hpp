// Arithmetic on one kind of memory, with one method per operation and shapes already checked. Implemented by cpu and
// cuda. Each method does what the function of the same name in arithmetic.hpp says.
#pragma once

#include "common/arithmetic.hpp"

namespace lockstep {

/// f(first, count, options) for each piece that is not empty.
template <class F>
void for_pieces(std::span<const AdamWPiece> pieces, const AdamW& options, const F& f) {
  std::size_t first = 0;
  for (const AdamWPiece& piece : pieces) {
    AdamW own = options;
    if (!piece.decays) own.weight_decay = 0;
    if (piece.count > 0) f(first, piece.count, own);
    first += piece.count;
  }
}

class Device {
 public:
  virtual ~Device() = default;

  virtual void fill(const Slice& x, float value) = 0;
  virtual void copy(const Slice& y, const Slice& x) = 0;
  virtual void cast(const Slice& y, const Slice& x) = 0;
  virtual void add(const Slice& z, const Slice& x, const Slice& y) = 0;  // z may be x or y
  virtual void scale(const Slice& x, float factor) = 0;
  virtual void scale(const Slice& x, const Slice& factor) = 0;
  virtual void scale_if(const Slice& x, float factor, const Slice& condition) = 0;
  virtual void at_least(const Slice& flag, const Slice& x, float threshold) = 0;
  virtual void add_squares(const Slice& sum, const Slice& x) = 0;
  virtual void add_sum(const Slice& sum, const Slice& x) = 0;
  virtual void clip_factor(const Slice& factor, const Slice& sum_of_squares, float max_norm) = 0;
  virtual void find_overflow(const Slice& flag, const Slice& x) = 0;
  virtual void random_normal(const Slice& x, Random key, float mean, float deviation) = 0;
  virtual void random_uniform(const Slice& x, Random key, float low, float high) = 0;
  virtual void matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) = 0;
  virtual void add_rows(const Slice& bias_gradient, const Matrix& x) = 0;
  virtual void gelu(const Slice& y, const Slice& x) = 0;
  virtual void gelu_backward(const Slice& dx, const Slice& dy, const Slice& x) = 0;
  /// Default: two passes over memory. After a large product, the first elements have left every cache by the time the
  /// last ones are written.
  virtual void matmul_gelu(const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b, const Slice& bias) {
    matmul(x, a, b, Into::overwrite, bias);
    gelu(y, x.slice);
  }
  virtual void matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) {
    matmul(dx, a, b, Into::overwrite, {});
    gelu_backward(dx.slice, dx.slice, x);
  }
  virtual void swiglu(const Slice& y, const Slice& x, std::size_t width) = 0;
  virtual void swiglu_backward(const Slice& dx, const Slice& dy, const Slice& x, std::size_t width) = 0;
  virtual void layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,
                          const Slice& bias) = 0;
  virtual void layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,
                                   const Slice& x, const Slice& weight, const Slice& statistics, Into into) = 0;
  virtual void rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) = 0;
  virtual void rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,
                                 const Slice& weight, const Slice& statistics, Into into) = 0;
  virtual void rotate_positions(const Slice& x, RotaryShape shape, float base, Turn way) = 0;
  virtual void attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) = 0;
  virtual void attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,
                                  const Slice& statistics, AttentionShape shape) = 0;
  virtual void attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) = 0;
  virtual void attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv, AttentionShape shape) = 0;
  virtual void attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,
                                                const Slice& probabilities, const Slice& qkv, AttentionShape shape) = 0;
  virtual void attention_block(const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                               AttentionBlock block) = 0;
  virtual void attention_block_backward(const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,
                                        const Slice& statistics, const Slice& q, const Slice& kv,
                                        AttentionBlock block) = 0;
  virtual void embedding(const Slice& y, const Slice& tokens, const Slice& table, const Slice& positions,
                         std::size_t sequence) = 0;
  virtual void embedding_backward(const Slice& dtable, const Slice& dpositions, const Slice& dy, const Slice& tokens,
                                  std::size_t sequence) = 0;
  virtual void cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                             const Slice& gradient_scale) = 0;
  virtual void cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) = 0;
  virtual void shard_tokens(const Slice& y, const Slice& x, VocabularyShard shard) = 0;
  virtual void cross_entropy_statistics(const Slice& statistics, const Slice& logits, const Slice& targets,
                                        VocabularyShard shard) = 0;
  virtual void cross_entropy_shard(const Slice& loss, const Slice& logits, const Slice& statistics,
                                   const Slice& targets, VocabularyShard shard, float factor,
                                   const Slice& gradient_scale) = 0;
  virtual void top_k(const Slice& values, const Slice& indices, const Slice& x) = 0;
  virtual void scatter_add(const Slice& y, const Slice& values, const Slice& indices, float factor) = 0;
  virtual void quantise(const Slice& q, const Slice& scales, const Slice& x, std::size_t block, Random key) = 0;
  virtual void add_dequantised(const Slice& y, const Slice& q, const Slice& scales, std::size_t block,
                               float factor) = 0;
  virtual void adamw(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v, const Slice& gradient,
                     AdamW options, const Slice& gradient_factor, const Slice& skip, const Slice& skipped) = 0;
  /// Default: one piece after another.
  virtual void adamw_pieces(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v,
                            const Slice& gradient, std::span<const AdamWPiece> pieces, AdamW options,
                            const Slice& gradient_factor, const Slice& skip, const Slice& skipped) {
    for_pieces(pieces, options, [&](std::size_t first, std::size_t count, const AdamW& own) {
      const auto cut = [&](const Slice& whole) { return whole.cut(first, count); };
      adamw(cut(parameter), cut(master), cut(m), cut(v), cut(gradient), own, gradient_factor, skip, skipped);
    });
  }
};

}  // namespace lockstep
