// Arithmetic on slices: one list of operations, the same on CPU, GPU and in phantom runs.
//
// Every function takes the Rank first, runs in order on its queue and checks shapes (USAGE error otherwise).
// Floating-point operands may be f32, bf16 or f16; sums are kept in f32 whatever the storage type. Matrices are
// row-major. Symbols: B sequences, T positions, C channels (d_model), h heads, V vocabulary, N = B·T rows.
#pragma once

#include <span>

#include "common/rank.hpp"

namespace lockstep {

// Elementwise and reductions ----------------------------------------------------------------------------------------

/// x[i] = value.
void fill(Rank me, Slice x, float value, Location where = Location::current());
/// y[i] = x[i]; same dtype and size.
void copy(Rank me, Slice y, Slice x, Location where = Location::current());
/// y[i] = x[i] converted to y's dtype, rounded to nearest even.
void cast(Rank me, Slice y, Slice x, Location where = Location::current());
/// y[i] += x[i]: the reduction of an all-reduce. Both have the same dtype: f32, a 16-bit type or i32.
void add(Rank me, Slice y, Slice x, Location where = Location::current());
/// z[i] = x[i] + y[i]: a residual connection. All three have the same dtype.
void add(Rank me, Slice z, Slice x, Slice y, Location where = Location::current());
/// x[i] *= factor.
void scale(Rank me, Slice x, float factor, Location where = Location::current());
/// x[i] *= factor[0]; `factor` is one f32 on the device.
void scale(Rank me, Slice x, Slice factor, Location where = Location::current());
/// x[i] *= factor if condition[0] is not 0; otherwise x is unchanged: a branch that never leaves the device.
/// `condition` is one f32. With a factor of 0, x becomes 0 whatever it was (even NaN).
void scale_if(Rank me, Slice x, float factor, Slice condition, Location where = Location::current());
/// flag[0] = 1 if x[0] ≥ threshold, else 0. Both are one f32; flag may be x.
void at_least(Rank me, Slice flag, Slice x, float threshold, Location where = Location::current());
/// sum[0] += Σ x[i]²; `sum` is one f32. The order of summation is fixed, so reruns agree bit for bit.
void add_squares(Rank me, Slice sum, Slice x, Location where = Location::current());
/// sum[0] += Σ x[i].
void add_sum(Rank me, Slice sum, Slice x, Location where = Location::current());
/// factor[0] = min(1, max_norm / (sqrt(sum_of_squares[0]) + 1e-6)): gradient clipping that never leaves the device.
void clip_factor(Rank me, Slice factor, Slice sum_of_squares, float max_norm, Location where = Location::current());
/// flag[0] = 1 if any x[i] is infinite or NaN, else unchanged. `flag` is one f32.
void find_overflow(Rank me, Slice flag, Slice x, Location where = Location::current());

// Key of counter-based random numbers: element i of the slice is global element `first + i` of tensor `tensor`, so
// every sharding of a tensor draws the same values.
struct Random {
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
  std::uint64_t step = 0;
  std::uint64_t first = 0;  // global index of the slice's first element
};
/// x[i] = mean + deviation · N(0, 1).
void random_normal(Rank me, Slice x, Random key, float mean, float deviation, Location where = Location::current());
/// x[i] uniform in [low, high).
void random_uniform(Rank me, Slice x, Random key, float low, float high, Location where = Location::current());
/// y[i] = x[i] / (1 − p), or 0 where random_uniform's draw of that element in [0, 1) is below p; 0 ≤ p < 1. No mask is
/// kept: the backward is the same call on the gradient. y has x's dtype and size, and may be x.
void dropout(Rank me, Slice y, Slice x, Random key, float p, Location where = Location::current());

// Matrix products ---------------------------------------------------------------------------------------------------

/// A slice viewed as rows × columns; `transposed` reads it as columns × rows.
struct Matrix {
  Slice slice;
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool transposed = false;

  Matrix t() const { return {slice, rows, columns, !transposed}; }
  std::size_t m() const { return transposed ? columns : rows; }  ///< rows after transposition
  std::size_t n() const { return transposed ? rows : columns; }  ///< columns after transposition
};
inline Matrix matrix(Slice slice, std::size_t rows, std::size_t columns) { return {std::move(slice), rows, columns}; }

enum class Into { overwrite, accumulate };

/// c = a·b, or c += a·b. c must not be transposed. A `bias` (n elements, or empty for none) is added to each row.
void matmul(Rank me, Matrix c, Matrix a, Matrix b, Into into = Into::overwrite, Slice bias = {},
            Location where = Location::current());
/// bias_gradient[j] += Σ_i x[i][j].
void add_rows(Rank me, Slice bias_gradient, Matrix x, Location where = Location::current());

// The layers of a GPT, each with its backward. Gradients of parameters accumulate (+=); gradients of inputs are
// overwritten unless stated otherwise.

/// y = GELU(x), tanh approximation.
void gelu(Rank me, Slice y, Slice x, Location where = Location::current());
/// dx = dy · GELU'(x).
void gelu_backward(Rank me, Slice dx, Slice dy, Slice x, Location where = Location::current());

/// y[n][i] = silu(x[n][i]) · x[n][width + i] for each of N rows; silu(x) = x · logistic(x). y: N × width; x: N × 2
/// width, first the gate, then up (arXiv 2002.05202).
void swiglu(Rank me, Slice y, Slice x, std::size_t width, Location where = Location::current());
/// Computes dx (N × 2 width) from dy (N × width).
void swiglu_backward(Rank me, Slice dx, Slice dy, Slice x, std::size_t width, Location where = Location::current());

// A linear layer and its GELU: one operation on GPUs that gain from a single pass over memory; elsewhere two, each with
// its own time and cost. With 16-bit storage, GELU may be applied to the sum before or after rounding.

/// x = a·b, plus bias as in matmul, and y = GELU(x), with x's dtype and size. The backward needs x.
void matmul_gelu(Rank me, Slice y, Matrix x, Matrix a, Matrix b, Slice bias = {}, Location where = Location::current());
/// dx = (a·b) · GELU'(x). dx and a·b have x's dtype and size.
void matmul_gelu_backward(Rank me, Matrix dx, Matrix a, Matrix b, Slice x, Location where = Location::current());

/// Layer norm: each row of y is the normalised row of x, times weight, plus bias. x, y: N × C; weight, bias: C;
/// statistics: 2N f32 (mean, then reciprocal standard deviation), kept for the backward. ε = 1e-5.
void layer_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Slice bias,
                Location where = Location::current());
/// dx (+)= …; dweight += …; dbias += …
void layer_norm_backward(Rank me, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x, Slice weight,
                         Slice statistics, Into into, Location where = Location::current());

/// RMS norm: each row of y is the row of x divided by its root mean square, times weight (arXiv 1910.07467). x, y: N ×
/// C; weight: C; statistics: N f32 (the reciprocal root mean square), kept for the backward. ε = 1e-5.
void rms_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Location where = Location::current());
/// dx (+)= …; dweight += …
void rms_norm_backward(Rank me, Slice dx, Slice dweight, Slice dy, Slice x, Slice weight, Slice statistics, Into into,
                       Location where = Location::current());

struct AttentionShape {
  std::size_t batch = 0;      // B
  std::size_t positions = 0;  // T
  std::size_t heads = 0;      // h on this rank
  std::size_t head_size = 0;  // C / h
  std::size_t kv_heads = 0;   // on this rank; 0: as many as heads. See below

  std::size_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};

/// Rotary positions (arXiv 2104.09864), in place: rotates each head of q and k at position t by t times the angles of
/// its channel pairs, forward or back. Channel i of a head's first half and channel i of its second half form a pair
/// with the angle base^(−2i / head_size), as in the Llama of transformers. qkv: as in attention; v is unchanged. The
/// backward rotates the gradient the other way.
enum class Turn { forward, backward };
void rotate_positions(Rank me, Slice qkv, AttentionShape shape, float base, Turn way,
                      Location where = Location::current());

/// Part of qkv, or part of its sequences: consecutive positions from `first`, each with the heads to rotate followed by
/// the heads to leave alone.
struct RotaryShape {
  std::size_t batch = 0;      // B
  std::size_t positions = 0;  // of each sequence, in x
  std::size_t turning = 0;    // heads to rotate
  std::size_t staying = 0;    // heads that stay unchanged
  std::size_t head_size = 0;
  std::size_t first = 0;  // position in the whole sequence
};
/// The same for x: B × positions × (turning + staying) × head_size.
void rotate_positions(Rank me, Slice x, RotaryShape shape, float base, Turn way, Location where = Location::current());

// Grouped-query attention (arXiv 2305.13245): if kv_heads < heads, qkv below is B × T × (h + 2 kv_heads) × head_size,
// and each head of k and v serves heads / kv_heads consecutive heads of q.

/// Causal multi-head attention. qkv: B × T × 3 × h × head_size (all heads of q, then of k, then of v); y: B × T × h ×
/// head_size; statistics: B × h × T f32 (log-sum-exp of each row), kept for the backward, which recomputes the scores.
void attention(Rank me, Slice y, Slice statistics, Slice qkv, AttentionShape shape,
               Location where = Location::current());
void attention_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice qkv, Slice statistics, AttentionShape shape,
                        Location where = Location::current());

// The same attention with materialised probabilities, as before FlashAttention: the caller allocates them, B × h × T ×
// T, and keeps them for the backward.

/// probabilities[b][h][t][u] = softmax over u ≤ t of q·k / √head_size, and 0 for u > t. Same dtype as qkv.
void attention_probabilities(Rank me, Slice probabilities, Slice qkv, AttentionShape shape,
                             Location where = Location::current());
/// y[b][t][h] = Σ_u probabilities[b][h][t][u] · v[b][u][h].
void attention_output(Rank me, Slice y, Slice probabilities, Slice qkv, AttentionShape shape,
                      Location where = Location::current());
/// attention_backward from the probabilities instead of the statistics: recomputes nothing.
void attention_probabilities_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice probabilities, Slice qkv,
                                      AttentionShape shape, Location where = Location::current());

/// A block of queries and a block of keys from B sequences: consecutive positions from first_query and from first_key.
struct AttentionBlock {
  std::size_t batch = 0;    // B
  std::size_t queries = 0;  // positions in the block of queries
  std::size_t keys = 0;     // positions in the block of keys
  std::size_t heads = 0;    // h on this rank
  std::size_t head_size = 0;
  std::size_t first_query = 0;  // position of the first query in the whole sequence
  std::size_t first_key = 0;    // position of the first key in the whole sequence
  std::size_t kv_heads = 0;     // on this rank; 0: as many as heads

  std::size_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};
/// Blockwise causal attention (Liu and Abbeel, arXiv 2305.19370): merges these keys into `y` and `statistics`, which
/// hold the attention over the keys merged so far. A query sees the keys at its own position and before; the softmax is
/// over all keys merged so far. q, y: B × queries × h × head_size; kv: B × keys × 2 × kv_heads × head_size (all heads
/// of k, then of v); statistics: B × h × queries f32 (log-sum-exp of each row). Before the first block, fill y with 0
/// and statistics with −∞, the result over no keys. A block whose keys all come after its queries changes nothing and
/// costs nothing.
void attention_block(Rank me, Slice y, Slice statistics, Slice q, Slice kv, AttentionBlock block,
                     Location where = Location::current());
/// dq += …, dkv += …: what these keys contribute, given dy and the y and statistics of *all* keys. Recomputes scores.
void attention_block_backward(Rank me, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics, Slice q, Slice kv,
                              AttentionBlock block, Location where = Location::current());

/// y[n] = table[tokens[n]] + positions[n mod T]; tokens: N i32; table: V × C; positions: T_max × C or empty. For a
/// token of −1, whose row another shard of the table holds, the row of the table counts as zeros and gets no gradient.
void embedding(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence,
               Location where = Location::current());
/// dtable[tokens[n]] += dy[n]; dpositions[n mod T] += dy[n].
void embedding_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens, std::size_t sequence,
                        Location where = Location::current());

/// loss[0] += factor · Σ_n −log softmax(logits[n])[targets[n]], and logits become the gradient, factor · (softmax −
/// one-hot): forward and backward in one pass over N × V. `factor` is 1/N for a mean. Rows with a target of −1 are
/// ignored. The gradient, not the loss, is multiplied by `gradient_scale` (one f32, or empty for 1) before rounding:
/// loss scaling, arXiv 1710.03740, section 3.2.
void cross_entropy(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale = {},
                   Location where = Location::current());
/// loss[0] += factor · Σ_n −log softmax(logits[n])[targets[n]]; logits are unchanged (validation).
void cross_entropy_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor,
                        Location where = Location::current());

// A vocabulary sharded over ranks (Megatron-LM, arXiv 1909.08053, section 3): rank r's logits are N × v, with columns
// for the tokens [first, first + v). No rank ever holds a whole row.
struct VocabularyShard {
  std::size_t first = 0;  // token of the first column
  std::size_t count = 0;  // columns that hold a token, at most v; the rest are padding and ignored
};
/// y[n] = x[n] − first if that token is in the shard, else −1. Tokens: N i32.
void shard_tokens(Rank me, Slice y, Slice x, VocabularyShard shard, Location where = Location::current());
/// One shard's contribution to the loss of each row. statistics: N × 2 f32: the logarithm of Σ exp(logit) over the
/// shard's columns (−∞ if it has none), and the logit of the target, or 0 if another shard holds it. targets: tokens of
/// the whole vocabulary.
void cross_entropy_statistics(Rank me, Slice statistics, Slice logits, Slice targets, VocabularyShard shard,
                              Location where = Location::current());
/// cross_entropy from the statistics of all shards (p × N × 2, in any order): adds the loss over the whole vocabulary
/// to loss[0] and turns this shard's logits into their gradient, 0 in the padding. With empty logits, computes only the
/// loss.
void cross_entropy_shard(Rank me, Slice loss, Slice logits, Slice statistics, Slice targets, VocabularyShard shard,
                         float factor, Slice gradient_scale = {}, Location where = Location::current());

// Compressed gradients: fewer elements, or fewer bits per element. Sizes never depend on the data.

/// The k elements of x with the largest |x[i]|, in ascending order of i; k is the size of `values` (x's dtype) and of
/// `indices` (i32). Ties go to the lowest i; NaN counts as larger than any number (sparse gradients: arXiv 1704.05021).
void top_k(Rank me, Slice values, Slice indices, Slice x, Location where = Location::current());
/// y[indices[i]] += factor · values[i]. indices: i32, strictly ascending, as top_k returns them. With a factor of −1,
/// the elements that top_k took from y become 0, and what remains in y is the error to feed back.
void scatter_add(Rank me, Slice y, Slice values, Slice indices, float factor = 1, Location where = Location::current());
/// Quantises x in blocks of `block` elements (the last one may be shorter): scales[b] = max |x[i]| / 127 over block b
/// (f32, one per block), q[i] = x[i] / scales[b] rounded up or down at random, so that its expectation is x[i] /
/// scales[b] (i8; QSGD, arXiv 1610.02132). A block of zeros has scale 0; one with an infinity or NaN has scale NaN and
/// zeros in q. `key.first` is the global index of x[0], as in random_uniform.
void quantise(Rank me, Slice q, Slice scales, Slice x, std::size_t block, Random key,
              Location where = Location::current());
/// y[i] += factor · scales[i / block] · q[i].
void add_dequantised(Rank me, Slice y, Slice q, Slice scales, std::size_t block, float factor = 1,
                     Location where = Location::current());

struct AdamW {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;
  int step = 1;  // counts from 1, for the bias correction
};
/// One AdamW step (arXiv 1711.05101) on f32 master weights, m and v. gradient: f32 or 16-bit, multiplied by
/// `gradient_factor` (one f32, or empty for 1: clipping, unscaling). If `skip` (one f32, or empty) is not 0, nothing
/// changes. The bias correction counts options.step − skipped[0] steps, where `skipped` (one f32, or empty for 0) is
/// the number of earlier steps that were skipped, so a skipped step leaves no trace. A `parameter` that is not f32
/// receives the rounded master; an f32 one may be `master` itself.
void adamw(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient, AdamW options,
           Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}, Location where = Location::current());

/// Consecutive elements that either decay by options.weight_decay or do not decay.
struct AdamWPiece {
  std::size_t count = 0;
  bool decays = true;
};
/// adamw on each of the pieces, which follow one another from the first element to the last; the result is
/// bit-identical. One operation on GPUs, where the hundred small pieces of a model would be a hundred launches;
/// elsewhere one per piece.
void adamw_pieces(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient,
                  std::span<const AdamWPiece> pieces, AdamW options, Slice gradient_factor = {}, Slice skip = {},
                  Slice skipped = {}, Location where = Location::current());

}  // namespace lockstep
