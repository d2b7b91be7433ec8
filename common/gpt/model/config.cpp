#include "common/gpt/model/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep {

namespace {

struct Preset {
  std::string_view name;
  GptConfig config;
};

// layers, heads, d_model, vocabulary, context. tiny and small fit on a laptop; the GPT-2 sizes are those of Radford et
// al. 2019, the GPT-3 sizes those of arXiv 2005.14165, Table 2.1, gpt-22b, gpt-530b and gpt-1t those of arXiv
// 2205.05198, Table 3; the Llama 3 sizes those of arXiv 2407.21783, Table 3.
/// Llama's block: RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases and an untied head.
constexpr GptConfig llama(std::size_t layers, std::size_t heads, std::size_t d_model, std::size_t vocabulary,
                          std::size_t context, std::size_t kv_heads, std::size_t ffn) {
  return {.layers = layers,
          .heads = heads,
          .d_model = d_model,
          .vocabulary = vocabulary,
          .context = context,
          .tied_head = false,
          .architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, kv_heads, ffn, 500000}};
}

/// Mistral's mixtures (arXiv 2401.04088; mistral.ai/news/mixtral-8x22b): two of eight experts instead of Llama's MLP.
constexpr GptConfig mixtral(std::size_t layers, std::size_t heads, std::size_t d_model, std::size_t context,
                            std::size_t ffn) {
  GptConfig model = llama(layers, heads, d_model, 32000, context, 8, ffn);
  model.architecture.rope_base = 1e6f;
  model.architecture.experts = 8, model.architecture.top_k = 2;
  return model;
}

constexpr std::array<Preset, 17> kPresets = {{
    {"tiny", {2, 2, 64, 256, 32}},
    {"small", {4, 6, 192, 256, 64}},
    {"gpt2-124m", {12, 12, 768, 50257, 1024}},
    {"gpt2-355m", {24, 16, 1024, 50257, 1024}},
    {"gpt2-774m", {36, 20, 1280, 50257, 1024}},
    {"gpt2-1.5b", {48, 25, 1600, 50257, 1024}},
    {"gpt3-13b", {40, 40, 5120, 50257, 2048}},
    {"gpt-22b", {48, 64, 6144, 51200, 2048}},
    {"gpt3-175b", {96, 96, 12288, 50257, 2048}},
    {"gpt-530b", {105, 128, 20480, 51200, 2048}},
    {"gpt-1t", {128, 160, 25600, 51200, 2048}},
    {"tiny-llama", llama(2, 4, 64, 256, 32, 2, 176)},
    {"llama3-8b", llama(32, 32, 4096, 128256, 8192, 8, 14336)},
    {"llama3-70b", llama(80, 64, 8192, 128256, 8192, 8, 28672)},
    {"llama3-405b", llama(126, 128, 16384, 128256, 8192, 8, 53248)},
    {"mixtral-8x7b", mixtral(32, 32, 4096, 32768, 14336)},
    {"mixtral-8x22b", mixtral(56, 48, 6144, 65536, 16384)},
}};

}  // namespace

bool is_llama(const Architecture& a) {
  return a.norm == NormKind::rms_norm && a.positions == PositionKind::rotary && a.mlp == MlpKind::swiglu && !a.biases &&
         a.experts == 0;
}

std::size_t GptConfig::parameters() const {
  const std::size_t p = static_cast<std::size_t>(tensor.ranks);
  // Sharded: matrices and biases of qkv and up, matrices of projection and down. Replicated: biases of the latter, and
  // norms.
  const bool layer_norm = architecture.norm == NormKind::layer_norm;
  const std::size_t norm = layer_norm ? 2 * d_model : d_model;
  const bool mixture = architecture.experts > 0;
  const std::size_t biases = architecture.biases ? qkv_width() + (mixture ? 0 : up_width()) : 0;
  const std::size_t matrices = (qkv_width() + d_model) * d_model + (mixture ? 0 : expert_parameters());
  std::size_t block = (matrices + biases) / p + 2 * norm;
  if (architecture.biases) block += (mixture ? 1 : 2) * d_model;
  if (mixture) block += own_experts() * expert_parameters() + architecture.experts * d_model;
  const std::size_t positions = architecture.positions == PositionKind::learned ? context : 0;
  const std::size_t embeddings = (own_vocabulary() + positions) * d_model;
  return embeddings + layers * block + norm + (tied_head ? 0 : own_vocabulary() * d_model);
}

std::size_t GptConfig::own_vocabulary() const {
  const std::size_t p = static_cast<std::size_t>(tensor.ranks);
  return (vocabulary + p - 1) / p;
}

double GptConfig::step_flop(std::size_t length) const {
  const double channels = static_cast<double>(d_model), tokens = static_cast<double>(length);
  const double matrices = static_cast<double>(layers * block_matrices()) + static_cast<double>(vocabulary) * channels;
  return 6 * matrices * tokens + static_cast<double>(layers) * 6 * channels * tokens * tokens;
}

void GptConfig::check() const {
  if (layers == 0 || heads == 0 || d_model == 0 || vocabulary == 0 || context == 0)
    throw Error(Verdict::usage, fmt::format("a model needs at least one of each: {} layers, {} heads, d_model {}, "
                                            "vocabulary {}, context {}",
                                            layers, heads, d_model, vocabulary, context));
  constexpr std::size_t kMost = std::size_t{1} << 24;
  const std::size_t widest = std::max(d_model, architecture.ffn);
  if (layers > kMost || widest > kMost || vocabulary > kMost || context > kMost || architecture.experts > 4096 ||
      layers > (kMost << 24) / (d_model * widest))
    throw Error(Verdict::usage,
                fmt::format("a model of {} layers, d_model {}, vocabulary {}, context {}, {} experts is too large",
                            layers, d_model, vocabulary, context, architecture.experts));
  if (d_model % heads != 0)
    throw Error(
        Verdict::usage,
        fmt::format("{} heads do not divide d_model {}: every head needs d_model / heads channels", heads, d_model));
  check_architecture();
  if (tensor.ranks < 1 || heads % static_cast<std::size_t>(tensor.ranks) != 0)
    throw Error(Verdict::usage,
                fmt::format("{} heads do not divide over {} tensor-parallel ranks: a head is never split", heads,
                            tensor.ranks));
  const auto p = static_cast<std::size_t>(tensor.ranks);
  if (const std::size_t kv_heads = architecture.key_value_heads(heads); kv_heads % p != 0)
    throw Error(
        Verdict::usage,
        fmt::format("{} key-value heads do not divide over {} tensor-parallel ranks: a head is never split or copied",
                    kv_heads, p));
  if (mlp_width() % p != 0)
    throw Error(Verdict::usage,
                fmt::format("an MLP {} wide does not divide over {} tensor-parallel ranks", mlp_width(), p));
  if (storage != DType::f32 && storage != DType::bf16 && storage != DType::f16)
    throw Error(Verdict::usage, fmt::format("a model cannot be stored in {}", to_string(storage)));
}

void GptConfig::check_architecture() const {
  const std::size_t kv_heads = architecture.key_value_heads(heads);
  if (heads % kv_heads != 0)
    throw Error(Verdict::usage, fmt::format("{} key-value heads do not divide {} heads: each serves a group of equal "
                                            "size",
                                            kv_heads, heads));
  if (architecture.experts > 0 &&
      (architecture.top_k < 1 || architecture.top_k > architecture.experts || own_experts() == 0))
    throw Error(Verdict::usage, fmt::format("a mixture of {} experts, {} for each token, on {} ranks: a token needs as "
                                            "many experts, and a rank one",
                                            architecture.experts, architecture.top_k, expert_ranks));
  if (architecture.positions == PositionKind::rotary && head_size() % 2 != 0)
    throw Error(Verdict::usage,
                fmt::format("rotary positions rotate pairs of channels, and a head has {} channels", head_size()));
  if (!(architecture.rope_base > 1) || !std::isfinite(architecture.rope_base))
    throw Error(Verdict::usage,
                fmt::format("the base of rotary positions must be greater than 1, not {}", architecture.rope_base));
}

std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length) {
  const std::size_t p = static_cast<std::size_t>(config.tensor.ranks);
  const std::size_t rows = sequences * length, norm_rows = config.tensor.sequence_parallel ? rows / p : rows;
  const std::size_t element = bytes_of(config.storage), c = config.d_model;
  const std::size_t statistics = (config.architecture.norm == NormKind::layer_norm ? 2 : 1) * norm_rows * 4;
  // All channels: input, norm, residual, norm. This rank's channels: qkv, attention, up, and down's input. Also the
  // statistics of two norms and attention's own.
  const std::size_t mlp = config.architecture.experts > 0 ? 0 : config.up_width() + config.mlp_width();
  const std::size_t own = config.qkv_width() + c + mlp;  // without a mixture's rows, which depend on its router
  const bool flash = config.attention == AttentionKind::flash;
  const std::size_t attention = rows * (config.heads / p) * (flash ? 4 : length * element);
  const std::size_t block = (4 * norm_rows * c + own * rows / p) * element + 2 * statistics + attention;
  const std::size_t head = (2 * norm_rows * c + config.own_vocabulary() * rows) * element + statistics;
  // Gradients: residual, narrow, wide.
  const std::size_t workspace = (2 * norm_rows * c + config.scratch_width() * rows / p) * element;
  return config.layers * block + head + workspace;
}

GptConfig gpt_preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return preset.config;
  throw Error(Verdict::usage, unknown_name("model", name, gpt_preset_names()));
}

std::vector<std::string> gpt_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace lockstep
