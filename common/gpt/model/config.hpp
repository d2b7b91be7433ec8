// The shape of a GPT: its sizes, named presets, and what follows from them by formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.hpp"

namespace lockstep {

/// How attention works: `flash` keeps one number a row and recomputes its scores in the backward; `materialised` keeps
/// all probabilities, B × h × T × T of them, as was usual before FlashAttention (arXiv 2205.14135).
enum class AttentionKind : std::uint8_t { flash, materialised };

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { learned, rotary };
enum class MlpKind : std::uint8_t { gelu, swiglu };

/// What a block is made of. As it begins it is GPT-2's; Llama's is {rms_norm, rotary, swiglu, no biases, kv_heads, ffn}
/// (arXiv 2302.13971, 2305.13245). qkv is the rows of q of all heads, then those of k and of v of all key-value heads;
/// with SwiGLU the layer "up" is the gate's rows, then up's.
struct Architecture {
  NormKind norm = NormKind::layer_norm;
  PositionKind positions = PositionKind::learned;
  MlpKind mlp = MlpKind::gelu;
  bool biases = true;        // of linear layers
  std::size_t kv_heads = 0;  // 0: as many as heads. Fewer: each is that of heads / kv_heads neighbouring heads
  std::size_t ffn = 0;       // inner width of the MLP; 0: 4 C
  float rope_base = 10000;   // of rotary positions

  std::size_t key_value_heads(std::size_t heads) const { return kv_heads == 0 ? heads : kv_heads; }
  /// Outputs of the layer qkv, of the layer up, and inputs of the layer down.
  std::size_t qkv_width(std::size_t heads, std::size_t d_model) const {
    return (heads + 2 * key_value_heads(heads)) * (d_model / heads);
  }
  std::size_t mlp_width(std::size_t d_model) const { return ffn == 0 ? 4 * d_model : ffn; }
  std::size_t up_width(std::size_t d_model) const { return (mlp == MlpKind::swiglu ? 2 : 1) * mlp_width(d_model); }
  /// Scratch of a block's backward: gradients of qkv and of attention's output, or of what down reads and up writes,
  /// which GELU's has in one place.
  std::size_t scratch_width(std::size_t heads, std::size_t d_model) const {
    const std::size_t attention = qkv_width(heads, d_model) + d_model;
    const std::size_t wide = mlp_width(d_model) + (mlp == MlpKind::swiglu ? up_width(d_model) : 0);
    return attention > wide ? attention : wide;
  }
  bool operator==(const Architecture&) const = default;
};
/// RMSNorm, rotary positions, SwiGLU and no biases.
bool is_llama(const Architecture& architecture);

struct GptConfig;
struct Parameter;
struct TensorRun;

/// Which elements of the serial model's tensor a rank's tensor `own` is; see tensor_runs.
using CutTensor = std::vector<TensorRun> (*)(const GptConfig& config, const Parameter& own);

/// Which part of a model is on this rank: one of `ranks` that share every layer (week 23). Alone, the whole.
struct TensorShard {
  int rank = 0;
  int ranks = 1;
  bool sequence_parallel = false;  // norms and residuals work on 1/ranks of the rows each
  CutTensor cut = nullptr;         // who says how the tensors are cut; nobody: tensor_runs itself
};

/// Sizes of a GPT: token and position embedding, pre-norm blocks (causal multi-head attention, MLP of width 4 C), final
/// norm, head; what of it is otherwise says `architecture`. Symbols: L layers, h heads, C d_model, V vocabulary.
struct GptConfig {
  std::size_t layers = 2;
  std::size_t heads = 2;
  std::size_t d_model = 64;
  std::size_t vocabulary = 256;
  std::size_t context = 64;    // positions that can be learned, if they are: the longest sequence
  bool tied_head = true;       // the head uses the token embedding
  DType storage = DType::f32;  // of values, gradients and activations: f32, bf16 or f16; sums are f32 anyhow
  AttentionKind attention = AttentionKind::flash;
  TensorShard tensor;  // the sizes above are the whole model's
  Architecture architecture;

  std::size_t head_size() const { return d_model / heads; }
  std::size_t qkv_width() const { return architecture.qkv_width(heads, d_model); }
  std::size_t mlp_width() const { return architecture.mlp_width(d_model); }
  std::size_t up_width() const { return architecture.up_width(d_model); }
  std::size_t scratch_width() const { return architecture.scratch_width(heads, d_model); }
  /// Elements of a block's matrices, of the whole model.
  std::size_t block_matrices() const { return (qkv_width() + d_model + up_width() + mlp_width()) * d_model; }
  /// Tokens of this rank's part of the vocabulary: V/ranks, rounded up; the last parts are padded.
  std::size_t own_vocabulary() const;
  /// On this rank. Of GPT-2 alone: V·C + context·C + L (12 C² + 13 C) + 2 C, and V·C more with a head of its own. Of p
  /// ranks each has 1/p of matrices, of qkv's and up's biases and of the vocabulary; the rest is on all.
  std::size_t parameters() const;
  /// FLOP of one forward and backward of one sequence of `length`: 6 a matrix parameter and token, and 12 C a layer,
  /// token and earlier token for attention scores and sums, half of which the causal mask leaves.
  double step_flop(std::size_t length) const;
  /// Throws Error(usage) with one sentence when a size is 0 or too large to count, or heads do not divide d_model, or
  /// tensor.ranks the heads or key-value heads.
  void check() const;

 private:
  void check_architecture() const;
};

/// Bytes that `Activations` of this model hold for a microbatch; see gpt.hpp.
std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length);

/// "tiny", "small", "gpt2-124m", …; an unknown name is an Error(usage) that lists the known ones.
GptConfig gpt_preset(std::string_view name);
std::vector<std::string> gpt_preset_names();

}  // namespace lockstep
