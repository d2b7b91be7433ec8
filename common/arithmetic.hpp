// Arithmetic on slices: one list of operations, the same on CPU, GPU and in phantom runs.
//
// Every function takes the Rank first, works in order on its queue, checks the shapes (USAGE error otherwise) and
// takes its floating-point operands in f32, bf16 or f16; sums are kept in f32 whatever the storage. Matrices are
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
/// y[i] = x[i] converted to y's dtype, to nearest even.
void cast(Rank me, Slice y, Slice x, Location where = Location::current());
/// y[i] += x[i]; the reduction of an all-reduce. Same dtype; f32 and 16-bit types, and i32.
void add(Rank me, Slice y, Slice x, Location where = Location::current());
/// z[i] = x[i] + y[i]: a residual connection. All three of one dtype.
void add(Rank me, Slice z, Slice x, Slice y, Location where = Location::current());
/// x[i] *= factor.
void scale(Rank me, Slice x, float factor, Location where = Location::current());
/// x[i] *= factor[0]; `factor` is one f32 on the device.
void scale(Rank me, Slice x, Slice factor, Location where = Location::current());
/// x[i] *= factor where condition[0] is not 0, else x stays as it is: a branch that never leaves the device.
/// `condition` is one f32; with a factor of 0, x becomes 0 whatever it was.
void scale_if(Rank me, Slice x, float factor, Slice condition, Location where = Location::current());
/// flag[0] = 1 if x[0] ≥ threshold, else 0. Both one f32; flag may be x.
void at_least(Rank me, Slice flag, Slice x, float threshold, Location where = Location::current());
/// sum[0] += Σ x[i]²; `sum` is one f32. The order of summation is fixed, so reruns agree bit for bit.
void add_squares(Rank me, Slice sum, Slice x, Location where = Location::current());
/// sum[0] += Σ x[i].
void add_sum(Rank me, Slice sum, Slice x, Location where = Location::current());
/// factor[0] = min(1, max_norm / (sqrt(sum_of_squares[0]) + 1e-6)): gradient clipping without leaving the device.
void clip_factor(Rank me, Slice factor, Slice sum_of_squares, float max_norm, Location where = Location::current());
/// flag[0] = 1 if any x[i] is infinite or not a number, else unchanged. `flag` is one f32.
void find_overflow(Rank me, Slice flag, Slice x, Location where = Location::current());

// Random numbers are counter-based: element i of the slice is global element `first + i` of tensor `tensor`, so every
// sharding of a tensor draws the same values.
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

// Matrix products ---------------------------------------------------------------------------------------------------

/// A slice seen as rows × columns; `transposed` reads it as columns × rows.
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

/// c = a·b, or c += a·b. c is not transposed. An empty `bias` adds nothing; else bias (n elements) is added to each
/// row.
void matmul(Rank me, Matrix c, Matrix a, Matrix b, Into into = Into::overwrite, Slice bias = {},
            Location where = Location::current());
/// bias_gradient[j] += Σ_i x[i][j].
void add_rows(Rank me, Slice bias_gradient, Matrix x, Location where = Location::current());

// The layers of a GPT, each with its backward. Gradients of parameters accumulate (+=); gradients of inputs are
// overwritten, except where said.

/// y = GELU(x), the tanh form.
void gelu(Rank me, Slice y, Slice x, Location where = Location::current());
/// dx = dy · GELU'(x).
void gelu_backward(Rank me, Slice dx, Slice dy, Slice x, Location where = Location::current());

/// y[n][i] = silu(x[n][i]) · x[n][width + i], of N rows; silu(x) = x · logistic(x). y: N × width; x: N × 2 width, the
/// gate and then up (arXiv 2002.05202).
void swiglu(Rank me, Slice y, Slice x, std::size_t width, Location where = Location::current());
/// dx, N × 2 width, from dy, N × width.
void swiglu_backward(Rank me, Slice dx, Slice dy, Slice x, std::size_t width, Location where = Location::current());

// A linear layer and its GELU: one operation on GPUs that gain by a single pass over memory, elsewhere two, each with
// its own time and price. Of a 16-bit sum, its GELU may be taken before it is rounded or after.

/// x = a·b, plus bias as in matmul, and y = GELU(x), of x's type and size. x is what the backward needs.
void matmul_gelu(Rank me, Slice y, Matrix x, Matrix a, Matrix b, Slice bias = {}, Location where = Location::current());
/// dx = (a·b) · GELU'(x), all of x's type and size.
void matmul_gelu_backward(Rank me, Matrix dx, Matrix a, Matrix b, Slice x, Location where = Location::current());

/// Each row of y is the normalised row of x, times weight, plus bias. x, y: N × C; weight, bias: C;
/// statistics: 2N f32 (mean, then reciprocal standard deviation), kept for the backward. ε = 1e-5.
void layer_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Slice bias,
                Location where = Location::current());
/// dx (+)= …; dweight += …; dbias += …
void layer_norm_backward(Rank me, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x, Slice weight,
                         Slice statistics, Into into, Location where = Location::current());

/// Each row of y is the row of x divided by its root mean square, times weight (arXiv 1910.07467). x, y: N × C; weight:
/// C; statistics: N f32 (the reciprocal root mean square), kept for the backward. ε = 1e-5.
void rms_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Location where = Location::current());
/// dx (+)= …; dweight += …
void rms_norm_backward(Rank me, Slice dx, Slice dweight, Slice dy, Slice x, Slice weight, Slice statistics, Into into,
                       Location where = Location::current());

struct AttentionShape {
  std::size_t batch = 0;      // B
  std::size_t positions = 0;  // T
  std::size_t heads = 0;      // h of this rank
  std::size_t head_size = 0;  // C / h
  std::size_t kv_heads = 0;   // of this rank; 0: as many as heads. See below

  std::size_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};

/// Rotary positions (arXiv 2104.09864): in place, each head of q and of k at position t is turned by t times its pairs'
/// angles, or back. Channel i of the first half of a head and channel i of the second are a pair, and its angle is
/// base^(−2i / head_size), as in transformers' Llama. qkv: as attention's; v stays as it is. The backward of a turn is
/// to turn the gradient back.
enum class Turn { forward, backward };
void rotate_positions(Rank me, Slice qkv, AttentionShape shape, float base, Turn way,
                      Location where = Location::current());

/// What a part of qkv is, or a part of its sequences: neighbouring positions from `first` on, of each the heads that
/// turn and behind them those that stay.
struct RotaryShape {
  std::size_t batch = 0;      // B
  std::size_t positions = 0;  // of each sequence, here
  std::size_t turning = 0;    // heads
  std::size_t staying = 0;    // heads
  std::size_t head_size = 0;
  std::size_t first = 0;  // position in the whole sequence
};
/// The same of x: B × positions × (turning + staying) × head_size.
void rotate_positions(Rank me, Slice x, RotaryShape shape, float base, Turn way, Location where = Location::current());

// Grouped-query attention (arXiv 2305.13245): with kv_heads < heads, in all that follows, qkv is B × T × (h + 2
// kv_heads) × head_size, and each head of k and v serves heads / kv_heads neighbouring heads of q.

/// Causal multi-head attention. qkv: B × T × 3 × h × head_size (q, then k, then v, of all heads); y: B × T × h ×
/// head_size; statistics: B × h × T f32 (log-sum-exp of each row), kept for the backward, which recomputes the scores.
void attention(Rank me, Slice y, Slice statistics, Slice qkv, AttentionShape shape,
               Location where = Location::current());
void attention_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice qkv, Slice statistics, AttentionShape shape,
                        Location where = Location::current());

// The same attention with its probabilities materialised, as before FlashAttention: they are memory of the caller's,
// B × h × T × T, which the backward needs again.

/// probabilities[b][h][t][u] = softmax over u ≤ t of q·k / √head_size, and 0 for u > t. Of qkv's dtype.
void attention_probabilities(Rank me, Slice probabilities, Slice qkv, AttentionShape shape,
                             Location where = Location::current());
/// y[b][t][h] = Σ_u probabilities[b][h][t][u] · v[b][u][h].
void attention_output(Rank me, Slice y, Slice probabilities, Slice qkv, AttentionShape shape,
                      Location where = Location::current());
/// attention_backward, from the probabilities instead of the statistics: it recomputes nothing.
void attention_probabilities_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice probabilities, Slice qkv,
                                      AttentionShape shape, Location where = Location::current());

/// A block of queries and a block of keys of B sequences: neighbouring positions, from first_query and first_key on.
struct AttentionBlock {
  std::size_t batch = 0;    // B
  std::size_t queries = 0;  // positions in the block of queries
  std::size_t keys = 0;     // positions in the block of keys
  std::size_t heads = 0;    // h of this rank
  std::size_t head_size = 0;
  std::size_t first_query = 0;  // its position in the whole sequence
  std::size_t first_key = 0;    // its position in the whole sequence
  std::size_t kv_heads = 0;     // of this rank; 0: as many as heads

  std::size_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};
/// Blockwise causal attention (Liu and Abbeel, arXiv 2305.19370): what `y` and `statistics` hold for attention over
/// other keys becomes that over these keys as well. A query sees the keys at its own position and before; the softmax
/// is over all keys merged so far. q, y: B × queries × h × head_size; kv: B × keys × 2 × kv_heads × head_size (k, then
/// v, of all its heads); statistics: B × h × queries f32 (log-sum-exp of each row). Of no keys, y is 0 and the
/// statistics −∞: fill them so before the first block. A block whose keys are all after its queries changes nothing and
/// costs nothing.
void attention_block(Rank me, Slice y, Slice statistics, Slice q, Slice kv, AttentionBlock block,
                     Location where = Location::current());
/// dq += …, dkv += …: what these keys contribute, given y and the statistics of *all* keys, and dy. Scores are computed
/// again.
void attention_block_backward(Rank me, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics, Slice q, Slice kv,
                              AttentionBlock block, Location where = Location::current());

/// y[n] = table[tokens[n]] + positions[n mod T]; tokens: N i32; table: V × C; positions: T_max × C or empty. A token of
/// −1 reads zeros for its row, which another shard of the table holds, and has no gradient here.
void embedding(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence,
               Location where = Location::current());
/// dtable[tokens[n]] += dy[n]; dpositions[n mod T] += dy[n].
void embedding_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens, std::size_t sequence,
                        Location where = Location::current());

/// loss[0] += factor · Σ_n −log softmax(logits[n])[targets[n]], and logits become its gradient, factor · (softmax −
/// one-hot): forward and backward in one pass over N × V. `factor` is 1/N for a mean. A target of −1 counts nothing.
/// The gradient, not the loss, is multiplied by `gradient_scale` (one f32, or empty for 1) before it is rounded: loss
/// scaling, arXiv 1710.03740, section 3.2.
void cross_entropy(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale = {},
                   Location where = Location::current());
/// loss[0] += factor · Σ_n −log softmax(logits[n])[targets[n]]; logits are untouched (validation).
void cross_entropy_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor,
                        Location where = Location::current());

// A vocabulary cut over ranks (Megatron-LM, arXiv 1909.08053, section 3): rank r's logits are N × v, its columns those
// of the tokens [first, first + v). Nobody ever holds a whole row.
struct VocabularyShard {
  std::size_t first = 0;  // the token of the first column
  std::size_t count = 0;  // columns that stand for a token: at most v, the others pad it and count nothing
};
/// y[n] = x[n] − first where that token is in the shard, else −1. Tokens: N i32.
void shard_tokens(Rank me, Slice y, Slice x, VocabularyShard shard, Location where = Location::current());
/// What one shard knows of each row's loss. statistics: N × 2 f32: the logarithm of Σ exp(logit) over the shard's
/// columns (−∞ where it has none), and the logit of the target, or 0 where that is in another shard. targets: of the
/// whole vocabulary.
void cross_entropy_statistics(Rank me, Slice statistics, Slice logits, Slice targets, VocabularyShard shard,
                              Location where = Location::current());
/// cross_entropy, from the statistics of all shards (p × N × 2, in any order): loss[0] gains the loss of the whole
/// vocabulary, this shard's logits become their gradient, 0 in the padding. With empty logits only the loss.
void cross_entropy_shard(Rank me, Slice loss, Slice logits, Slice statistics, Slice targets, VocabularyShard shard,
                         float factor, Slice gradient_scale = {}, Location where = Location::current());

// Compressed gradients: fewer elements, or fewer bits of each. Sizes never depend on data.

/// The k elements of x with the largest |x[i]|, where k is the size of `values` (x's dtype) and of `indices` (i32), in
/// ascending order of i. Of equal ones the first are taken; NaN counts as larger than any number (sparse gradients:
/// arXiv 1704.05021).
void top_k(Rank me, Slice values, Slice indices, Slice x, Location where = Location::current());
/// y[indices[i]] += factor · values[i]. Indices: i32, strictly ascending, as top_k leaves them. With a factor of −1 the
/// elements that top_k took from y become 0, and what is left in y is the error to feed back.
void scatter_add(Rank me, Slice y, Slice values, Slice indices, float factor = 1, Location where = Location::current());
/// x in blocks of `block` elements, the last one shorter where that does not divide: scales[b] = max |x[i]| / 127 over
/// block b (f32, one a block), q[i] = x[i] / scales[b] rounded up or down at random, so that its expectation is x[i] /
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
/// `gradient_factor` (one f32, or empty for 1: clipping, unscaling). With a `skip` (one f32, or empty) that is not 0
/// nothing changes. The bias correction counts options.step − skipped[0] steps, where `skipped` (one f32, or empty for
/// 0) is how many of those before this one were skipped: so a skipped step leaves no trace. `parameter`, where its
/// dtype is not f32, receives the master rounded; else it may be `master`.
void adamw(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient, AdamW options,
           Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}, Location where = Location::current());

/// Neighbouring elements that decay by options.weight_decay, or not at all.
struct AdamWPiece {
  std::size_t count = 0;
  bool decays = true;
};
/// adamw on each of the pieces that follow one another from the first element to the last, bit for bit: one operation
/// on GPUs, where a model's hundred small pieces would be a hundred launches, elsewhere one for each piece.
void adamw_pieces(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient,
                  std::span<const AdamWPiece> pieces, AdamW options, Slice gradient_factor = {}, Slice skip = {},
                  Slice skipped = {}, Location where = Location::current());

}  // namespace lockstep
