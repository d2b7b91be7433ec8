#include "common/gpt/model/config.hpp"

#include <fmt/format.h>

#include <array>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep {

namespace {

struct Preset {
  std::string_view name;
  GptConfig config;
};

// layers, heads, d_model, vocabulary, context. tiny and small are for one laptop; the GPT-2 sizes are those of Radford
// et al. 2019, the GPT-3 sizes those of arXiv 2005.14165, Table 2.1, gpt-22b, gpt-530b and gpt-1t those of arXiv
// 2205.05198, Table 3.
constexpr std::array<Preset, 11> kPresets = {{
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
}};

}  // namespace

std::size_t GptConfig::parameters() const {
  const std::size_t p = static_cast<std::size_t>(tensor.ranks);
  // qkv and up: matrices and biases; projection and down: matrices; their biases and the norms are whole.
  const std::size_t block = (12 * d_model * d_model + 7 * d_model) / p + 6 * d_model;
  const std::size_t embeddings = (own_vocabulary() + context) * d_model;
  return embeddings + layers * block + 2 * d_model + (tied_head ? 0 : own_vocabulary() * d_model);
}

std::size_t GptConfig::own_vocabulary() const {
  const std::size_t p = static_cast<std::size_t>(tensor.ranks);
  return (vocabulary + p - 1) / p;
}

double GptConfig::step_flop(std::size_t length) const {
  const double channels = static_cast<double>(d_model), tokens = static_cast<double>(length);
  const double matrices =
      static_cast<double>(layers) * 12 * channels * channels + static_cast<double>(vocabulary) * channels;
  return 6 * matrices * tokens + static_cast<double>(layers) * 6 * channels * tokens * tokens;
}

void GptConfig::check() const {
  if (layers == 0 || heads == 0 || d_model == 0 || vocabulary == 0 || context == 0)
    throw Error(Verdict::usage, fmt::format("a model needs at least one of each: {} layers, {} heads, d_model {}, "
                                            "vocabulary {}, context {}",
                                            layers, heads, d_model, vocabulary, context));
  constexpr std::size_t kMost = std::size_t{1} << 24;
  if (layers > kMost || d_model > kMost || vocabulary > kMost || context > kMost ||
      layers > (kMost << 24) / (d_model * d_model))
    throw Error(Verdict::usage,
                fmt::format("a model of {} layers, d_model {}, vocabulary {} and context {} is absurdly large", layers,
                            d_model, vocabulary, context));
  if (d_model % heads != 0)
    throw Error(
        Verdict::usage,
        fmt::format("{} heads do not divide d_model {}: every head needs d_model / heads channels", heads, d_model));
  if (tensor.ranks < 1 || heads % static_cast<std::size_t>(tensor.ranks) != 0)
    throw Error(Verdict::usage,
                fmt::format("{} heads do not divide over {} tensor-parallel ranks: a head is never split", heads,
                            tensor.ranks));
  if (storage != DType::f32 && storage != DType::bf16 && storage != DType::f16)
    throw Error(Verdict::usage, fmt::format("a model cannot be stored in {}", to_string(storage)));
}

std::size_t activation_bytes(const GptConfig& config, std::size_t sequences, std::size_t length) {
  const std::size_t p = static_cast<std::size_t>(config.tensor.ranks);
  const std::size_t rows = sequences * length, norm_rows = config.tensor.sequence_parallel ? rows / p : rows;
  const std::size_t element = bytes_of(config.storage), c = config.d_model;
  // whole rows: input, norm, residual, norm; this rank's part: qkv (3), attention, up (4), gelu (4); two norms'
  // statistics; attention's own
  const bool flash = config.attention == AttentionKind::flash;
  const std::size_t attention = rows * (config.heads / p) * (flash ? 4 : length * element);
  const std::size_t block = (4 * norm_rows * c + 12 * rows * c / p) * element + 2 * 2 * norm_rows * 4 + attention;
  const std::size_t head = (2 * norm_rows * c + config.own_vocabulary() * rows) * element + 2 * norm_rows * 4;
  // gradients: residual, narrow, wide (4)
  const std::size_t workspace = (2 * norm_rows * c + 4 * rows * c / p) * element;
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
