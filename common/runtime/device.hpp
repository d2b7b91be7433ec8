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

/// Declares every operation that a device must have, between `before` and `after`: in Device virtual and pure, in a
/// device that implements them as an override.
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are no expressions
#define LOCKSTEP_DEVICE_OPERATIONS(before, after)                                                                      \
  before void fill(const Slice& x, float value) after;                                                                 \
  before void copy(const Slice& y, const Slice& x) after;                                                              \
  before void cast(const Slice& y, const Slice& x) after;                                                              \
  before void add(const Slice& z, const Slice& x, const Slice& y) after; /* z may be x or y */                         \
  before void scale(const Slice& x, float factor) after;                                                               \
  before void scale(const Slice& x, const Slice& factor) after;                                                        \
  before void scale_if(const Slice& x, float factor, const Slice& condition) after;                                    \
  before void at_least(const Slice& flag, const Slice& x, float threshold) after;                                      \
  before void add_squares(const Slice& sum, const Slice& x) after;                                                     \
  before void add_sum(const Slice& sum, const Slice& x) after;                                                         \
  before void clip_factor(const Slice& factor, const Slice& sum_of_squares, float max_norm) after;                     \
  before void find_overflow(const Slice& flag, const Slice& x) after;                                                  \
  before void random_normal(const Slice& x, Random key, float mean, float deviation) after;                            \
  before void random_uniform(const Slice& x, Random key, float low, float high) after;                                 \
  before void dropout(const Slice& y, const Slice& x, Random key, float p) after; /* y may be x */                     \
  before void matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) after;           \
  before void add_rows(const Slice& bias_gradient, const Matrix& x) after;                                             \
  before void gelu(const Slice& y, const Slice& x) after;                                                              \
  before void gelu_backward(const Slice& dx, const Slice& dy, const Slice& x) after;                                   \
  before void swiglu(const Slice& y, const Slice& x, std::size_t width) after;                                         \
  before void swiglu_backward(const Slice& dx, const Slice& dy, const Slice& x, std::size_t width) after;              \
  before void layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,                 \
                         const Slice& bias) after;                                                                     \
  before void layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy,          \
                                  const Slice& x, const Slice& weight, const Slice& statistics, Into into) after;      \
  before void rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) after;            \
  before void rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,                \
                                const Slice& weight, const Slice& statistics, Into into) after;                        \
  before void rotate_positions(const Slice& x, RotaryShape shape, float base, Turn way) after;                         \
  before void attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) after;        \
  before void attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv,                 \
                                 const Slice& statistics, AttentionShape shape) after;                                 \
  before void attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) after;       \
  before void attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv, AttentionShape shape)     \
      after;                                                                                                           \
  before void attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y,                     \
                                               const Slice& probabilities, const Slice& qkv, AttentionShape shape)     \
      after;                                                                                                           \
  before void attention_block(const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,                \
                              AttentionBlock block) after;                                                             \
  before void attention_block_backward(const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,             \
                                       const Slice& statistics, const Slice& q, const Slice& kv, AttentionBlock block) \
      after;                                                                                                           \
  before void embedding(const Slice& y, const Slice& tokens, const Slice& table, const Slice& positions,               \
                        std::size_t sequence) after;                                                                   \
  before void embedding_backward(const Slice& dtable, const Slice& dpositions, const Slice& dy, const Slice& tokens,   \
                                 std::size_t sequence) after;                                                          \
  before void cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor,                \
                            const Slice& gradient_scale) after;                                                        \
  before void cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) after;    \
  before void shard_tokens(const Slice& y, const Slice& x, VocabularyShard shard) after;                               \
  before void cross_entropy_statistics(const Slice& statistics, const Slice& logits, const Slice& targets,             \
                                       VocabularyShard shard) after;                                                   \
  before void cross_entropy_shard(const Slice& loss, const Slice& logits, const Slice& statistics,                     \
                                  const Slice& targets, VocabularyShard shard, float factor,                           \
                                  const Slice& gradient_scale) after;                                                  \
  before void top_k(const Slice& values, const Slice& indices, const Slice& x) after;                                  \
  before void scatter_add(const Slice& y, const Slice& values, const Slice& indices, float factor) after;              \
  before void quantise(const Slice& q, const Slice& scales, const Slice& x, std::size_t block, Random key) after;      \
  before void add_dequantised(const Slice& y, const Slice& q, const Slice& scales, std::size_t block, float factor)    \
      after;                                                                                                           \
  before void adamw(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v,                       \
                    const Slice& gradient, AdamW options, const Slice& gradient_factor, const Slice& skip,             \
                    const Slice& skipped) after;
// NOLINTEND(bugprone-macro-parentheses)

class Device {
 public:
  virtual ~Device() = default;

  LOCKSTEP_DEVICE_OPERATIONS(virtual, = 0)

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
