// The shape of a GPT: its sizes, named presets, and the quantities that follow from them by formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.hpp"

namespace lockstep {

/// Implementations of attention: `flash` keeps one number per row and recomputes its scores in the backward;
/// `materialised` keeps all probabilities, B × h × T × T of them, as was usual before FlashAttention (arXiv
/// 2205.14135).
enum class AttentionKind : std::uint8_t { flash, materialised };

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { learned, rotary };
enum class MlpKind : std::uint8_t { gelu, swiglu };

/// The components of a block. The defaults are GPT-2's; Llama's are {rms_norm, rotary, swiglu, no biases, kv_heads,
/// ffn} (arXiv 2302.13971, 2305.13245). The rows of qkv are q of all heads, then k and v of all key-value heads; with
/// SwiGLU the rows of the layer "up" are the gate's, then up's.
struct Architecture {
  NormKind norm = NormKind::layer_norm;
  PositionKind positions = PositionKind::learned;
  MlpKind mlp = MlpKind::gelu;
  bool biases = true;        // in linear layers
  std::size_t kv_heads = 0;  // 0: as many as heads; otherwise heads / kv_heads neighbouring heads share one
  std::size_t ffn = 0;       // inner width of the MLP; 0: 4 C
  float rope_base = 10000;   // base of the rotary positions
  std::size_t experts = 0;   // E > 0: a mixture of experts in place of the MLP, without biases (23.7)
  std::size_t top_k = 1;     // experts that a token meets

  std::size_t key_value_heads(std::size_t heads) const { return kv_heads == 0 ? heads : kv_heads; }
  /// Outputs of the layer qkv, outputs of the layer up, and inputs of the layer down.
  std::size_t qkv_width(std::size_t heads, std::size_t d_model) const {
    return (heads + 2 * key_value_heads(heads)) * (d_model / heads);
  }
  std::size_t mlp_width(std::size_t d_model) const { return ffn == 0 ? 4 * d_model : ffn; }
  std::size_t up_width(std::size_t d_model) const { return (mlp == MlpKind::swiglu ? 2 : 1) * mlp_width(d_model); }
  /// Scratch of a block's backward per row: the gradients of qkv and of attention's output, or those of down's input
  /// and up's output, which share their place with GELU.
  std::size_t scratch_width(std::size_t heads, std::size_t d_model) const {
    const std::size_t attention = qkv_width(heads, d_model) + d_model;
    const std::size_t wide = mlp_width(d_model) + (mlp == MlpKind::swiglu ? up_width(d_model) : 0);
    return attention > wide || experts > 0 ? attention : wide;  // experts have their own
  }
  bool operator==(const Architecture&) const = default;
};
/// True if the block has RMSNorm, rotary positions, SwiGLU and no biases.
bool is_llama(const Architecture& architecture);

struct GptConfig;
struct Parameter;
struct TensorRun;

/// Function that maps a rank's tensor `own` to elements of the serial model's tensor; see tensor_runs.
using CutTensor = std::vector<TensorRun> (*)(const GptConfig& config, const Parameter& own);

/// The part of a model on this rank, which is one of `ranks` that share every layer (week 23). With one rank, the whole
/// model.
struct TensorShard {
  int rank = 0;
  int ranks = 1;
  bool sequence_parallel = false;  // norms and residuals process 1/ranks of the rows each
  CutTensor cut = nullptr;         // maps the sharded tensors; null: tensor_runs does it itself
};

/// Sizes of a GPT: token and position embedding, pre-norm blocks (causal multi-head attention, MLP of width 4 C), final
/// norm, head; `architecture` lists the differences from that. Symbols: L layers, h heads, C d_model, V vocabulary.
struct GptConfig {
  std::size_t layers = 2;
  std::size_t heads = 2;
  std::size_t d_model = 64;
  std::size_t vocabulary = 256;
  std::size_t context = 64;     // longest sequence, if positions are learned
  bool tied_head = true;        // the head uses the token embedding
  DType storage = DType::f32;   // dtype of values, gradients and activations: f32, bf16 or f16; sums are always f32
  bool fp32_gradients = false;  // gradients of parameters are held and summed in fp32, whatever the storage
  AttentionKind attention = AttentionKind::flash;
  TensorShard tensor;  // the sizes above are those of the whole model
  Architecture architecture;
  int expert_rank = 0, expert_ranks = 1;  // of the ranks that share the experts of every mixture

  DType gradients() const { return fp32_gradients ? DType::f32 : storage; }  // of parameters
  std::size_t head_size() const { return d_model / heads; }
  std::size_t qkv_width() const { return architecture.qkv_width(heads, d_model); }
  std::size_t mlp_width() const { return architecture.mlp_width(d_model); }
  std::size_t up_width() const { return architecture.up_width(d_model); }
  std::size_t scratch_width() const { return architecture.scratch_width(heads, d_model); }
  std::size_t own_experts() const { return architecture.experts / static_cast<std::size_t>(expert_ranks); }
  std::size_t expert_parameters() const { return (up_width() + mlp_width()) * d_model; }  // of one expert
  /// Elements of the matrices that a token meets in a block of the whole model; in a mixture those of k experts.
  std::size_t block_matrices() const {
    const std::size_t met = architecture.experts > 0 ? architecture.top_k : 1;
    return (qkv_width() + d_model + met * (up_width() + mlp_width()) + architecture.experts) * d_model;
  }
  /// Tokens in this rank's part of the vocabulary: V/ranks, rounded up; the last parts are padded.
  std::size_t own_vocabulary() const;
  /// Parameters on this rank. GPT-2 on one rank: V·C + context·C + L (12 C² + 13 C) + 2 C, plus V·C if the head is
  /// untied. Each of p ranks has 1/p of the matrices, of qkv's and up's biases and of the vocabulary; the rest is
  /// replicated. Experts are shared by expert_ranks instead, and never sharded.
  std::size_t parameters() const;
  /// Parameters of the whole model that a token meets: of its experts k.
  std::size_t active_parameters() const {
    const std::size_t others = architecture.experts > 0 ? architecture.experts - architecture.top_k : 0;
    return parameters() - layers * others * expert_parameters();
  }
  /// FLOP of one forward and backward of one sequence of `length`: 6 per matrix parameter and token, plus 12 C per
  /// layer, token and earlier token for attention scores and sums. The causal mask leaves half of the latter.
  double step_flop(std::size_t length) const;
  /// Throws Error(usage) with one sentence if a size is 0 or too large to count, if heads does not divide d_model, or
  /// if tensor.ranks does not divide the heads or the key-value heads.
  void check() const;

 private:
  void check_architecture() const;
};

/// Bytes of this model's `Activations` for one microbatch; see gpt.hpp.
std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length);

/// Returns the preset "tiny", "small", "gpt2-124m", …; an unknown name throws Error(usage) that lists the known ones.
GptConfig gpt_preset(std::string_view name);
std::vector<std::string> gpt_preset_names();

}  // namespace lockstep
