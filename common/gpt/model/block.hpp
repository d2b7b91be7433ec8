// One transformer block, forward and hand-written backward: a = x + attention(norm(x)), then a + MLP(norm(a)). Free
// functions on slices, so that pipelines, recomputation and sharded units can run one block at a time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/config.hpp"

namespace lockstep {

/// Sizes of a block's input: B sequences of T positions, h heads, C channels; N = B·T rows.
struct BlockShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t heads = 0;
  std::size_t d_model = 0;
  AttentionKind kind = AttentionKind::flash;
  TensorShard tensor;  // the sizes above are those of the whole block
  Architecture architecture;

  std::size_t rows() const { return sequences * length; }
  /// Rows that this rank's norms and residuals process.
  std::size_t norm_rows() const { return tensor.sequence_parallel ? rows() / ranks() : rows(); }
  std::size_t own_width() const { return d_model / ranks(); }  ///< channels of this rank's heads
  // Channels on this rank: outputs of qkv, outputs of the layer up, inputs of down, and width of the backward's wide
  // scratch.
  std::size_t qkv_width() const { return architecture.qkv_width(heads, d_model) / ranks(); }
  std::size_t up_width() const { return architecture.up_width(d_model) / ranks(); }
  std::size_t mlp_width() const { return architecture.mlp_width(d_model) / ranks(); }
  std::size_t scratch_width() const { return architecture.scratch_width(heads, d_model) / ranks(); }
  /// Elements of one norm's statistics.
  std::size_t statistics() const { return (architecture.norm == NormKind::layer_norm ? 2 : 1) * norm_rows(); }
  AttentionShape attention() const {
    return {sequences, length, heads / ranks(), d_model / heads, architecture.key_value_heads(heads) / ranks()};
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(tensor.ranks); }
};

/// The parameters of a block in forward order. Matrices are out × in, as in PyTorch: y = x·Wᵀ + bias. With p ranks per
/// block, each has 1/p of the rows of qkv and up, and 1/p of the columns of projection and down. RMSNorm has no bias,
/// and linear layers may have none. Sizes are GPT-2's; see Architecture for others.
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
    router_weight,      // E × C, of a mixture; its up is E × 4C × C and its down E × C × 4C, without biases
    count
  };
};

/// Values or gradients of one block, indexed by BlockPart::Index.
using BlockTensors = std::array<Slice, BlockPart::count>;

/// Returns the parts that a block of this architecture has, in order.
std::vector<BlockPart::Index> block_parts(const Architecture& architecture);

using BlockPartReady = std::function<void(BlockPart::Index)>;

class Layers;

/// Activations that a block's forward pass keeps for its backward: in GPT-2 16 N·C elements and the statistics, plus
/// the probabilities with materialised attention. With p ranks per block, each has C/p for C in qkv, attention, up and
/// gelu, h/p heads, and with sequence parallelism N/p rows of the others.
struct BlockActivations {
  Slice input;                 // N × C
  Slice norm1;                 // N × C
  Slice norm1_statistics;      // 2N f32; N with RMSNorm
  Slice qkv;                   // N × 3C; with rotary positions q and k are already rotated
  Slice attention;             // N × C
  Slice attention_statistics;  // B × h × T f32, for flash attention
  Slice probabilities;         // B × h × T × T, for materialised attention
  Slice residual;              // N × C: input + attention
  Slice norm2;                 // N × C
  Slice norm2_statistics;      // 2N f32
  Slice up;                    // N × 4C
  Slice gelu;                  // N × 4C; with SwiGLU silu(gate) · up
  std::shared_ptr<void> more;  // a mixture's layers keep this instead of the last two
};
/// Allocates memory for the probabilities only if `probabilities` is empty.
BlockActivations allocate_block_activations(Rank me, const BlockShape& shape, DType dtype, Slice probabilities = {},
                                            Location where = Location::current());

/// Scratch of the backward pass, shared by all blocks of one rank.
struct BackwardScratch {
  Slice narrow;  // N × C
  Slice wide;    // N × 4C
};

/// y = norm of each row of x; only LayerNorm uses `bias`. The backward overwrites dx, or adds to it.
void block_norm(Rank me, const BlockShape& shape, Slice y, Slice statistics, Slice x, Slice weight, Slice bias,
                Location where = Location::current());
void block_norm_backward(Rank me, const BlockShape& shape, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x,
                         Slice weight, Slice statistics, Into into, Location where = Location::current());

/// Computes saved.attention from saved.qkv, and keeps what the backward needs. With rotary positions it first rotates q
/// and k in place.
void block_attention(Rank me, const BlockShape& shape, BlockActivations& saved, Location where = Location::current());
/// Computes dqkv from the gradient of saved.attention.
void block_attention_backward(Rank me, const BlockShape& shape, Slice dqkv, Slice dattention,
                              const BlockActivations& saved, Location where = Location::current());

/// Computes saved.gelu from saved.up: GELU, or SwiGLU.
void block_activation(Rank me, const BlockShape& shape, BlockActivations& saved, Location where = Location::current());
/// Computes the gradient of saved.up from that of saved.gelu, both in a backward's wide scratch. dgelu is its first N ·
/// mlp_width() elements; GELU works in place. Returns the slice with the result.
Slice block_activation_backward(Rank me, const BlockShape& shape, const Slice& wide, const BlockActivations& saved,
                                Location where = Location::current());

/// Outputs that may be dropped before they are added to the residual stream, or begin it.
enum class Dropped : std::uint8_t { embedding, attention, mlp };
/// y = dropout of x, both N × C: of a block's output in its forward pass, and of its gradient in the backward. y may be
/// x. Empty: nothing is dropped.
using BlockDropout = std::function<void(Dropped output, Slice y, Slice x)>;

/// y = block(saved.input), N × C; fills the rest of `saved`. y may be the next block's input, but not saved.input.
void block_forward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                   BlockActivations& saved, Slice y, const BlockDropout& drop = {});

/// Turns `dy` (N × C, the gradient of the block's output) into the gradient of its input; gradients of parameters
/// accumulate. Calls `ready(part)` as soon as one is final, from the last part to the first.
void block_backward(Rank me, const Layers& layers, const BlockShape& shape, const BlockTensors& values,
                    const BlockTensors& gradients, const BlockActivations& saved, BackwardScratch& scratch, Slice dy,
                    const BlockPartReady& ready, const BlockDropout& drop = {});

/// A linear layer, y (N × out) = x (N × in) · Wᵀ + bias; a bias may be empty.
void linear(Rank me, Slice y, Slice x, Slice weight, Slice bias, std::size_t rows,
            Location where = Location::current());
/// dx = dy · W.
void linear_backward_input(Rank me, Slice dx, Slice dy, Slice weight, std::size_t rows,
                           Location where = Location::current());
/// linear_gelu: a linear layer and its GELU, x (N × out) = in (N × in) · Wᵀ + bias and y = GELU(x).
/// linear_gelu_backward: dx = (dy · W) · GELU'(x), where dy is the gradient of the output of a linear layer whose input
/// was y. Fused where the device is faster that way.
void linear_gelu(Rank me, Slice y, Slice x, Slice in, Slice weight, Slice bias, std::size_t rows,
                 Location where = Location::current());
void linear_gelu_backward_input(Rank me, Slice dx, Slice dy, Slice weight, Slice x, std::size_t rows,
                                Location where = Location::current());
/// dW += dyᵀ · x and, unless empty, dbias += column sums of dy.
void linear_backward_weight(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows,
                            Location where = Location::current());

}  // namespace lockstep
