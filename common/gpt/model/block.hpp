// One transformer block, forward and hand-written backward: x + attention(norm(x)), then that + MLP(norm(that)).
// Free functions on slices, so that pipelines, recomputation and sharded units can call them a block at a time.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/config.hpp"

namespace lockstep {

/// Sizes that a block sees: B sequences of T positions, h heads, C channels; N = B·T rows.
struct BlockShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t heads = 0;
  std::size_t d_model = 0;
  AttentionKind kind = AttentionKind::flash;
  TensorShard tensor;  // the sizes above are the whole block's
  Architecture architecture;

  std::size_t rows() const { return sequences * length; }
  /// Rows that norms and residuals of this rank work on.
  std::size_t norm_rows() const { return tensor.sequence_parallel ? rows() / ranks() : rows(); }
  std::size_t own_width() const { return d_model / ranks(); }  ///< channels of this rank's heads
  // Channels of this rank: of qkv, of what the layer up writes and down reads, and of the backward's wide scratch.
  std::size_t qkv_width() const { return architecture.qkv_width(heads, d_model) / ranks(); }
  std::size_t up_width() const { return architecture.up_width(d_model) / ranks(); }
  std::size_t mlp_width() const { return architecture.mlp_width(d_model) / ranks(); }
  std::size_t scratch_width() const { return architecture.scratch_width(heads, d_model) / ranks(); }
  /// Elements of a norm's statistics.
  std::size_t statistics() const { return (architecture.norm == NormKind::layer_norm ? 2 : 1) * norm_rows(); }
  AttentionShape attention() const {
    return {sequences, length, heads / ranks(), d_model / heads, architecture.key_value_heads(heads) / ranks()};
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(tensor.ranks); }
};

/// The parameters of a block in forward order. Matrices are out × in, as in PyTorch: y = x·Wᵀ + bias. Of p ranks that
/// share the block each has 1/p of the rows of qkv and up, and 1/p of the columns of projection and down. RMSNorm has
/// no bias, nor need linear layers have one. Sizes are GPT-2's; see Architecture for others.
struct BlockPart {
  enum Index : std::size_t {
    norm1_weight,       // C
    norm1_bias,         // C
    qkv_weight,         // 3C × C: q, k, v of all heads
    qkv_bias,           // 3C
    projection_weight,  // C × C
    projection_bias,    // C
    norm2_weight,       // C
    norm2_bias,         // C
    up_weight,          // 4C × C
    up_bias,            // 4C
    down_weight,        // C × 4C
    down_bias,          // C
    count
  };
};

/// Values, or gradients, of one block, by BlockPart::Index.
using BlockTensors = std::array<Slice, BlockPart::count>;

/// The parts that a block of this architecture has, in order.
std::vector<BlockPart::Index> block_parts(const Architecture& architecture);

using BlockPartReady = std::function<void(BlockPart::Index)>;

class Layers;

/// What the forward pass of one block leaves for its backward: of GPT-2 16 N·C elements, the statistics, and with
/// materialised attention its probabilities. Of p ranks each has C/p for C in qkv, attention, up and gelu, h/p heads,
/// and with sequence parallelism N/p rows of the others.
struct BlockActivations {
  Slice input;                 // N × C
  Slice norm1;                 // N × C
  Slice norm1_statistics;      // 2N f32; of RMSNorm N
  Slice qkv;                   // N × 3C; q and k turned, with rotary positions
  Slice attention;             // N × C
  Slice attention_statistics;  // B × h × T f32, of flash attention
  Slice probabilities;         // B × h × T × T, of materialised attention
  Slice residual;              // N × C: input + attention
  Slice norm2;                 // N × C
  Slice norm2_statistics;      // 2N f32
  Slice up;                    // N × 4C
  Slice gelu;                  // N × 4C; of SwiGLU silu(gate) · up
};
/// Unless empty, `probabilities` are used instead of memory of its own.
BlockActivations allocate_block_activations(Rank me, const BlockShape& shape, DType dtype, Slice probabilities = {});

/// Scratch of the backward pass, shared by all blocks of one rank.
struct BackwardScratch {
  Slice narrow;  // N × C
  Slice wide;    // N × 4C
};

/// y, a norm of x's rows; bias is of LayerNorm. And its backward: dx is overwritten, or added to.
void block_norm(Rank me, const BlockShape& shape, Slice y, Slice statistics, Slice x, Slice weight, Slice bias);
void block_norm_backward(Rank me, const BlockShape& shape, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x,
                         Slice weight, Slice statistics, Into into);

/// saved.attention from saved.qkv, whose q and k it first turns where positions are rotary, and what its backward
/// needs.
void block_attention(Rank me, const BlockShape& shape, BlockActivations& saved);
/// dqkv from the gradient of saved.attention.
void block_attention_backward(Rank me, const BlockShape& shape, Slice dqkv, Slice dattention,
                              const BlockActivations& saved);

/// saved.gelu from saved.up: GELU, or SwiGLU.
void block_activation(Rank me, const BlockShape& shape, BlockActivations& saved);
/// The gradient of saved.up from that of saved.gelu, both in a backward's wide scratch: dgelu is its first N ·
/// mlp_width() elements, and GELU works in place. Returns where it is.
Slice block_activation_backward(Rank me, const BlockShape& shape, const Slice& wide, const BlockActivations& saved);

/// y = block(saved.input), N × C; fills the rest of `saved`. y may be the next block's input; not saved.input.
void block_forward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                   BlockActivations& saved, Slice y);

/// `dy` (N × C, the gradient of the block's output) becomes the gradient of its input; gradients of parameters
/// accumulate. `ready(part)` is called as soon as one is final, from the last part to the first.
void block_backward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                    const BlockTensors& gradients, const BlockActivations& saved, BackwardScratch& scratch, Slice dy,
                    const BlockPartReady& ready);

/// A linear layer, y (N × out) = x (N × in) · Wᵀ + bias; a bias may be empty.
void linear(Rank me, Slice y, Slice x, Slice weight, Slice bias, std::size_t rows);
/// dx = dy · W.
void linear_backward_input(Rank me, Slice dx, Slice dy, Slice weight, std::size_t rows);
/// A linear layer and its GELU: x (N × out) = in (N × in) · Wᵀ + bias, and y = GELU(x). And from dy, the gradient of a
/// linear layer's output whose input was y: dx = (dy · W) · GELU'(x). In one operation where the device gains by it.
void linear_gelu(Rank me, Slice y, Slice x, Slice in, Slice weight, Slice bias, std::size_t rows);
void linear_gelu_backward_input(Rank me, Slice dx, Slice dy, Slice weight, Slice x, std::size_t rows);
/// dW += dyᵀ · x and, unless empty, dbias += column sums of dy.
void linear_backward_weight(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows);

}  // namespace lockstep
