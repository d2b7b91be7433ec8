#include "tools/train/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "common/error.hpp"
#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "tools/train/choices.hpp"

namespace lockstep::train {

namespace {

constexpr const char* kEnding = ".safetensors";

/// The prefix in transformers of every tensor's name but the head's.
const char* prefix_of(const GptConfig& model) { return is_llama(model.architecture) ? "model." : "transformer."; }

/// The serial model, in fp32.
GptConfig whole(GptConfig model) {
  model.tensor = {};
  model.storage = DType::f32;
  return model;
}

/// to[column][row] = from[row][column].
void transpose(const float* from, std::size_t rows, std::size_t columns, float* to) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) to[column * rows + row] = from[row * columns + column];
}

/// With its prefix where it is missing.
std::string full_name(const GptConfig& model, const std::string& name) {
  return name.starts_with(prefix_of(model)) || name == "lm_head.weight" ? name : prefix_of(model) + name;
}

/// transformers stores the causal mask with the weights (h.0.attn.bias, 1 × 1 × T × T, and a number), or the speeds at
/// which positions turn.
bool is_constant(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

std::string shape_text(const std::vector<std::size_t>& shape) { return fmt::format("{}", fmt::join(shape, " × ")); }

/// The model that a checkpoint's manifest describes: what describe_model wrote.
GptConfig model_of(const std::string& path, const checkpoint::Manifest& manifest) {
  GptConfig model;
  std::array<char, 8> head{};
  const auto fact = manifest.facts.find("model");
  if (fact == manifest.facts.end() ||
      std::sscanf(fact->second.c_str(), "%zu layers, %zu heads, d_model %zu, vocabulary %zu, context %zu, %7s head",
                  &model.layers, &model.heads, &model.d_model, &model.vocabulary, &model.context, head.data()) != 6)
    refuse(fmt::format("{} does not say which model it holds", path));
  model.tied_head = std::string(head.data()) == "tied";
  const std::string text = fact->second.substr(fact->second.find(" head", fact->second.find("context")) + 5);
  if (!text.empty()) {
    Architecture& a = model.architecture;
    a = {.norm = NormKind::rms_norm, .positions = PositionKind::rotary, .mlp = MlpKind::swiglu, .biases = false};
    if (std::sscanf(text.c_str(), ", RMSNorm, rotary positions of base %f, SwiGLU %zu wide, %zu key-value heads",
                    &a.rope_base, &a.ffn, &a.kv_heads) != 3 ||
        describe_architecture(model) != text)
      refuse(fmt::format("{} holds a model with a block that other programs have no names for", path));
  }
  model.check();
  return model;
}

/// The place in transformers of one of our tensors, or of some of its rows.
struct Theirs {
  std::string name;
  bool transposed = false;
  std::size_t first_row = 0, rows = 0;
};

std::vector<std::size_t> shape_of(const Parameter& ours, const Theirs& theirs) {
  if (ours.name.ends_with("bias") || ours.name.find("norm") != ours.name.npos) return {ours.size};
  return theirs.transposed ? std::vector{ours.columns, theirs.rows} : std::vector{theirs.rows, ours.columns};
}

/// "blocks.3.qkv.weight" in parts: 3, "qkv", ".weight".
struct BlockName {
  std::string layer, part, kind;
};
BlockName block_name(const std::string& ours) {
  const std::size_t number = ours.find('.') + 1, part = ours.find('.', number) + 1, kind = ours.rfind('.');
  return {ours.substr(number, part - 1 - number), ours.substr(part, kind - part), ours.substr(kind)};
}

/// "blocks.3.qkv.weight" is "transformer.h.3.attn.c_attn.weight", transposed, because transformers stores these
/// matrices inputs × outputs.
std::vector<Theirs> gpt2_names(const Parameter& ours) {
  static const std::map<std::string, std::string> outside{{"token_embedding", "transformer.wte.weight"},
                                                          {"position_embedding", "transformer.wpe.weight"},
                                                          {"norm.weight", "transformer.ln_f.weight"},
                                                          {"norm.bias", "transformer.ln_f.bias"},
                                                          {"head", "lm_head.weight"}};
  static const std::map<std::string, std::string> inside{
      {"norm1", "ln_1"}, {"qkv", "attn.c_attn"}, {"projection", "attn.c_proj"},
      {"norm2", "ln_2"}, {"up", "mlp.c_fc"},     {"down", "mlp.c_proj"}};
  if (const auto found = outside.find(ours.name); found != outside.end()) return {{found->second, false, 0, ours.rows}};
  const auto [layer, part, kind] = block_name(ours.name);
  return {{fmt::format("transformer.h.{}.{}{}", layer, inside.at(part), kind), ours.rows > 1, 0, ours.rows}};
}

/// "blocks.3.qkv.weight" is the rows of "model.layers.3.self_attn.q_proj.weight", of k_proj and of v_proj.
std::vector<Theirs> llama_names(const GptConfig& model, const Parameter& ours) {
  static const std::map<std::string, std::string> outside{{"token_embedding", "model.embed_tokens.weight"},
                                                          {"norm.weight", "model.norm.weight"},
                                                          {"head", "lm_head.weight"}};
  static const std::map<std::string, std::string> inside{{"norm1", "input_layernorm"},
                                                         {"projection", "self_attn.o_proj"},
                                                         {"norm2", "post_attention_layernorm"},
                                                         {"down", "mlp.down_proj"}};
  if (const auto found = outside.find(ours.name); found != outside.end()) return {{found->second, false, 0, ours.rows}};
  const BlockName in = block_name(ours.name);
  const auto name = [&](const std::string& theirs) {
    return fmt::format("model.layers.{}.{}{}", in.layer, theirs, in.kind);
  };
  if (in.part == "qkv") {
    const std::size_t q = model.d_model, kv = (ours.rows - q) / 2;
    return {{name("self_attn.q_proj"), false, 0, q},
            {name("self_attn.k_proj"), false, q, kv},
            {name("self_attn.v_proj"), false, q + kv, kv}};
  }
  if (in.part == "up") {
    const std::size_t half = ours.rows / 2;
    return {{name("mlp.gate_proj"), false, 0, half}, {name("mlp.up_proj"), false, half, half}};
  }
  return {{name(inside.at(in.part)), false, 0, ours.rows}};
}

std::vector<Theirs> names_of(const GptConfig& model, const Parameter& ours) {
  return is_llama(model.architecture) ? llama_names(model, ours) : gpt2_names(ours);
}

}  // namespace

std::vector<checkpoint::NamedTensor> exported_tensors(const GptConfig& model, const std::vector<float>& values) {
  std::vector<checkpoint::NamedTensor> tensors;
  for (const Parameter& tensor : gpt_parameter_table(whole(model)))
    for (const Theirs& theirs : names_of(model, tensor)) {
      const float* from = values.data() + tensor.offset + theirs.first_row * tensor.columns;
      std::vector<float> copied(from, from + theirs.rows * tensor.columns);
      if (theirs.transposed) transpose(from, theirs.rows, tensor.columns, copied.data());
      tensors.push_back({theirs.name, shape_of(tensor, theirs), std::move(copied)});
    }
  return tensors;
}

namespace {

using Given = std::map<std::string, const checkpoint::NamedTensor*>;

/// Takes `theirs` out of the given tensors and writes it to `to`.
void take_tensor(Given& given, const GptConfig& model, const Parameter& tensor, const Theirs& theirs,
                 const std::string& path, float* to) {
  const auto found = given.find(theirs.name);
  if (found == given.end())
    refuse(fmt::format("{} has no tensor '{}', which a model of {}{} needs", path, theirs.name,
                       counted(model.layers, "layer"), model.tied_head ? "" : " with a head of its own"));
  const checkpoint::NamedTensor& read = *found->second;
  if (const std::vector<std::size_t> shape = shape_of(tensor, theirs); read.shape != shape)
    refuse(fmt::format("{}: tensor '{}' is {}, but this model's is {}", path, read.name, shape_text(read.shape),
                       shape_text(shape)));
  if (read.values.size() != theirs.rows * tensor.columns)
    refuse(fmt::format("{}: tensor '{}' has a type other than F32, F16 and BF16", path, read.name));
  if (theirs.transposed)
    transpose(read.values.data(), tensor.columns, theirs.rows, to);
  else
    std::copy(read.values.begin(), read.values.end(), to);
  given.erase(found);
}

}  // namespace

std::vector<float> imported_values(const GptConfig& model, const std::vector<checkpoint::NamedTensor>& tensors,
                                   const std::string& path) {
  Given given;
  for (const checkpoint::NamedTensor& tensor : tensors)
    if (!is_constant(tensor.name) && !given.try_emplace(full_name(model, tensor.name), &tensor).second)
      refuse(fmt::format("{} has tensor '{}' twice, with its prefix and without", path, full_name(model, tensor.name)));
  const GptConfig serial = whole(model);
  std::vector<float> values(serial.parameters());
  for (const Parameter& tensor : gpt_parameter_table(serial))
    for (const Theirs& theirs : names_of(model, tensor))
      take_tensor(given, model, tensor, theirs, path,
                  values.data() + tensor.offset + theirs.first_row * tensor.columns);
  if (const auto head = given.find("lm_head.weight"); head != given.end() && model.tied_head) {
    const std::vector<float>& again = head->second->values;
    if (again.size() != serial.vocabulary * serial.d_model || !std::equal(again.begin(), again.end(), values.begin()))
      refuse(fmt::format("{} has a head of its own, 'lm_head.weight': add --untied", path));
    given.erase(head);
  }
  if (!given.empty())
    refuse(fmt::format("{} has tensor '{}', for which a model of {} has no place", path, given.begin()->second->name,
                       counted(model.layers, "layer")));
  return values;
}

std::vector<float> read_weights(const GptConfig& model, const std::string& path) {
  return imported_values(model, checkpoint::parse_safetensors(read_file(path), path), path);
}

std::string export_weights(checkpoint::Files& files, std::string checkpoint, const std::string& out) {
  if (!files.exists(checkpoint::manifest_path(checkpoint))) {
    const std::vector<int> steps = checkpoint::steps_in(files, checkpoint);
    if (steps.empty()) refuse(fmt::format("{} holds no checkpoint", checkpoint));
    checkpoint = checkpoint::step_path(checkpoint, steps.front());
  }
  checkpoint::Manifest manifest = checkpoint::read_manifest(files, checkpoint);
  const GptConfig model = model_of(checkpoint, manifest);
  if (manifest.facts.contains("outer"))  // behind the model of the last outer step are the replicas' own
    manifest.tensors.resize(std::min(manifest.tensors.size(), gpt_parameter_table(model).size()));
  checkpoint::Share share{checkpoint::whole_pieces(manifest.tensors), {}};
  checkpoint::read_share(files, checkpoint, manifest, checkpoint::elements_of(share.pieces), share, 1);
  if (share.arrays[0].size() != model.parameters())
    refuse(fmt::format("{} says that it has {} parameters, but holds {}", checkpoint, model.parameters(),
                       share.arrays[0].size()));
  const bool one_file = out.ends_with(kEnding);
  const std::string file = one_file ? out : out + "/model" + kEnding;
  make_folders_of(file);
  write_atomically(file, checkpoint::safetensors_text(exported_tensors(model, share.arrays[0]),
                                                      {{"format", "pt"}, {"step", std::to_string(manifest.step)}}));
  if (!one_file) write_atomically(out + "/config.json", model_text(model));
  return fmt::format("{}: {} parameters after {}, from {}\n", file, model.parameters(), counted(manifest.step, "step"),
                     checkpoint);
}

}  // namespace lockstep::train
