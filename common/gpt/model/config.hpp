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

/// Sizes of a GPT: token and position embedding, pre-norm blocks (causal multi-head attention, GELU MLP of width
/// 4 C), final norm, head. Symbols: L layers, h heads, C d_model, V vocabulary.
struct GptConfig {
  std::size_t layers = 2;
  std::size_t heads = 2;
  std::size_t d_model = 64;
  std::size_t vocabulary = 256;
  std::size_t context = 64;    // positions that can be learned: the longest sequence
  bool tied_head = true;       // the head uses the token embedding
  DType storage = DType::f32;  // of values, gradients and activations: f32, bf16 or f16; sums are f32 anyhow
  AttentionKind attention = AttentionKind::flash;
  TensorShard tensor;  // the sizes above are the whole model's

  std::size_t head_size() const { return d_model / heads; }
  /// Tokens of this rank's part of the vocabulary: V/ranks, rounded up; the last parts are padded.
  std::size_t own_vocabulary() const;
  /// On this rank. Alone: V·C + context·C + L (12 C² + 13 C) + 2 C, and V·C more with a head of its own. Of p ranks
  /// each has 1/p of matrices, of qkv's and up's biases and of the vocabulary; the rest is on all.
  std::size_t parameters() const;
  /// FLOP of one forward and backward of one sequence of `length`: 6 a matrix parameter and token, and 12 C a layer,
  /// token and earlier token for attention scores and sums, half of which the causal mask leaves.
  double step_flop(std::size_t length) const;
  /// Throws Error(usage) with one sentence when a size is 0 or too large to count, or heads do not divide d_model, or
  /// tensor.ranks the heads.
  void check() const;
};

/// Bytes that `Activations` of this model hold for a microbatch; see gpt.hpp.
std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length);

/// "tiny", "small", "gpt2-124m", …; an unknown name is an Error(usage) that lists the known ones.
GptConfig gpt_preset(std::string_view name);
std::vector<std::string> gpt_preset_names();

}  // namespace lockstep
