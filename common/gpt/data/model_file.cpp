#include "common/gpt/data/model_file.hpp"

#include <fmt/format.h>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"

namespace lockstep {

namespace {

constexpr double kEpsilon = 1e-5;

/// Members of a file, which must agree with what this program supports.
class Fields {
 public:
  Fields(const Json& file, const std::string& path) : file_(file), path_(path) {}

  std::size_t count(const char* name) const { return positive(name, file_.at(name)); }
  std::size_t count(const char* name, std::size_t otherwise) const {
    const Json* found = given(name);
    return found ? positive(name, *found) : otherwise;
  }
  double number(const char* name, double otherwise) const {
    const Json* found = given(name);
    return found ? found->get<double>() : otherwise;
  }
  bool truth(const char* name, bool otherwise) const {
    const Json* found = given(name);
    return found ? found->get<bool>() : otherwise;
  }
  /// Rejects a value that is given and is not `wanted`.
  template <class T>
  void only(const char* name, T wanted) const {
    const Json* found = given(name);
    if (found && !(*found == wanted))
      throw Error(Verdict::usage,
                  fmt::format("{}: \"{}\" is {}, and only {} is supported", path_, name, found->quote(), wanted));
  }
  void none(const char* name) const {
    if (const Json* found = given(name))
      throw Error(Verdict::usage, fmt::format("{}: \"{}\" is {}, which is not supported", path_, name, found->quote()));
  }

 private:
  std::size_t positive(const char* name, const Json& value) const {
    const auto count = value.get<std::size_t>();
    if (count == 0) throw Error(Verdict::usage, fmt::format("{}: \"{}\" is 0", path_, name));
    return count;
  }
  const Json* given(const char* name) const {
    const Json* found = file_.find(name);
    return found && !found->is_null() ? found : nullptr;
  }
  const Json& file_;
  const std::string& path_;
};

GptConfig llama_of(const Fields& f) {
  GptConfig model{.layers = f.count("num_hidden_layers"),
                  .heads = f.count("num_attention_heads"),
                  .d_model = f.count("hidden_size"),
                  .vocabulary = f.count("vocab_size"),
                  .context = f.count("max_position_embeddings", 2048),
                  .tied_head = f.truth("tie_word_embeddings", false)};
  model.architecture = {.norm = NormKind::rms_norm,
                        .positions = PositionKind::rotary,
                        .mlp = MlpKind::swiglu,
                        .biases = false,
                        .kv_heads = f.count("num_key_value_heads", model.heads),
                        .ffn = f.count("intermediate_size"),
                        .rope_base = static_cast<float>(f.number("rope_theta", 10000))};
  f.only("hidden_act", "silu");
  f.only("rms_norm_eps", kEpsilon);
  f.only("attention_bias", false);
  f.only("mlp_bias", false);
  f.none("rope_scaling");
  f.none("sliding_window");
  f.only("head_dim", model.head_size());
  return model;
}

GptConfig gpt2_of(const Fields& f) {
  GptConfig model{.layers = f.count("n_layer"),
                  .heads = f.count("n_head"),
                  .d_model = f.count("n_embd"),
                  .vocabulary = f.count("vocab_size"),
                  .context = f.count("n_positions", 1024),
                  .tied_head = f.truth("tie_word_embeddings", true)};
  f.only("activation_function", "gelu_new");
  f.only("layer_norm_epsilon", kEpsilon);
  f.only("n_inner", 4 * model.d_model);
  f.only("scale_attn_by_inverse_layer_idx", false);
  return model;
}

Json word(const char* value) { return Json::of(std::string_view(value)); }

Json llama_members(const GptConfig& model) {
  const Architecture& a = model.architecture;
  return Json::object({{"architectures", Json::list({word("LlamaForCausalLM")})},
                       {"model_type", word("llama")},
                       {"num_hidden_layers", Json::of(model.layers)},
                       {"num_attention_heads", Json::of(model.heads)},
                       {"num_key_value_heads", Json::of(a.key_value_heads(model.heads))},
                       {"hidden_size", Json::of(model.d_model)},
                       {"intermediate_size", Json::of(model.mlp_width())},
                       {"vocab_size", Json::of(model.vocabulary)},
                       {"max_position_embeddings", Json::of(model.context)},
                       {"rope_theta", Json::of(static_cast<double>(a.rope_base))},
                       {"rms_norm_eps", Json::of(kEpsilon)},
                       {"hidden_act", word("silu")},
                       {"attention_bias", Json::of(false)},
                       {"mlp_bias", Json::of(false)},
                       {"attention_dropout", Json::of(0)},
                       {"tie_word_embeddings", Json::of(model.tied_head)},
                       {"bos_token_id", Json()},
                       {"eos_token_id", Json()}});
}

Json gpt2_members(const GptConfig& model) {
  return Json::object({{"architectures", Json::list({word("GPT2LMHeadModel")})},
                       {"model_type", word("gpt2")},
                       {"activation_function", word("gelu_new")},
                       {"layer_norm_epsilon", Json::of(kEpsilon)},
                       {"n_layer", Json::of(model.layers)},
                       {"n_head", Json::of(model.heads)},
                       {"n_embd", Json::of(model.d_model)},
                       {"n_positions", Json::of(model.context)},
                       {"vocab_size", Json::of(model.vocabulary)},
                       {"tie_word_embeddings", Json::of(model.tied_head)},
                       {"bos_token_id", Json()},
                       {"eos_token_id", Json()},
                       {"attn_pdrop", Json::of(0)},
                       {"embd_pdrop", Json::of(0)},
                       {"resid_pdrop", Json::of(0)}});
}

}  // namespace

GptConfig parse_model(const std::string& text, const std::string& path) {
  try {
    const Json file = Json::parse(text);
    const Fields fields(file, path);
    const auto type = file.at("model_type").get<std::string>();
    if (type != "llama" && type != "mixtral" && type != "gpt2")
      throw Error(Verdict::usage,
                  fmt::format("{}: a model of type \"{}\" is not supported; \"llama\", \"mixtral\" and \"gpt2\" are",
                              path, type));
    GptConfig model = type == "gpt2" ? gpt2_of(fields) : llama_of(fields);
    if (type == "mixtral") {
      model.architecture.experts = fields.count("num_local_experts", 8);
      model.architecture.top_k = fields.count("num_experts_per_tok", 2);
    }
    model.check();
    return model;
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{}: {}", path, error.what()));
  }
}

GptConfig find_model(const std::string& name) {
  return name.ends_with(".json") ? parse_model(read_file(name), name) : gpt_preset(name);
}

std::string model_text(const GptConfig& model) {
  if (model.architecture == Architecture()) return gpt2_members(model).dump(2) + "\n";
  if (is_llama(model.architecture)) return llama_members(model).dump(2) + "\n";
  throw Error(Verdict::usage,
              "this block is neither GPT-2's nor Llama's, so other programs have no names for its tensors");
}

std::string describe_architecture(const GptConfig& model) {
  const Architecture& a = model.architecture;
  if (a == Architecture()) return "";
  const std::string mixture =
      a.experts == 0 ? "" : fmt::format(", {} experts of which a token meets {}", a.experts, a.top_k);
  return mixture + fmt::format(", {}, {}, {} {} wide, {} key-value heads, {}biases",
                               a.norm == NormKind::rms_norm ? "RMSNorm" : "LayerNorm",
                               a.positions == PositionKind::rotary
                                   ? fmt::format("rotary positions of base {}", a.rope_base)
                                   : std::string("learned positions"),
                               a.mlp == MlpKind::swiglu ? "SwiGLU" : "GELU", model.mlp_width(),
                               a.key_value_heads(model.heads), a.biases ? "" : "no ");
}

}  // namespace lockstep
