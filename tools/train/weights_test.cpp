// Weights in and out: what Hugging Face's transformers saved is read, trained on any ranks and written again, and gives
// the losses and logits that transformers computes (common/gpt/model/golden/make_gpt2_golden.py).
#include "tools/train/weights.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/gpt/tests/model_support.hpp"
#include "common/support/json/document.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/files.hpp"
#include "tools/train/checkpoint_testing.hpp"

namespace lockstep::train {
namespace {

const std::string kGolden = LOCKSTEP_SOURCE_DIR "/common/gpt/model/golden/gpt2";
const std::string kLlama = LOCKSTEP_SOURCE_DIR "/common/gpt/model/golden/llama";
constexpr std::size_t kVocabulary = 256, kLength = 16;

const std::vector<double>& golden(const std::string& key) {
  static const auto values = [] {
    auto both = model_tests::read_golden(kGolden + ".txt");
    both.merge(model_tests::read_golden(kLlama + "_trained.txt", "llama."));
    return both;
  }();
  return values.at(key);
}

void expect_near(const std::vector<double>& got, const std::string& key) {
  const std::vector<double>& want = golden(key);
  ASSERT_EQ(got.size(), want.size()) << key;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << key << "[" << i << "]";
}

const GptConfig kModel{2, 4, 24, kVocabulary, 32};

class Weights : public Saved {
 protected:
  Weights() {
    std::string text(2000, '\0');
    for (std::size_t n = 0; n < text.size(); ++n) text[n] = static_cast<char>((31 * n * n + 7 * n + 3) % 251);
    std::ofstream(path("bytes"), std::ios::binary) << text;
  }
  TrainRequest run_of(const Layout& layout) const {
    TrainRequest options = run_in(layout, 5);
    options.data = path("bytes");
    options.tokens = "byte";
    options.d_model = kModel.d_model;
    options.learning_rate = 0.03;
    options.warmup = 10;
    options.log_every = 1;
    options.init = kGolden + ".safetensors";
    return options;
  }
  /// Logits of the last two tokens of a sequence, by formula.
  static std::vector<double> logits_of(const std::vector<float>& values, const GptConfig& model = kModel) {
    std::vector<double> logits;
    RunOptions one;
    one.threads = 1;
    run(one, [&](Rank me) {
      const Gpt gpt(me, model, 1, Owns::values);
      upload(me, gpt.parameters().values, values);
      std::vector<std::int32_t> tokens(kLength);
      for (std::size_t n = 0; n < kLength; ++n) tokens[n] = static_cast<std::int32_t>((17 * n + 5) % kVocabulary);
      const Batch batch{me.allocate(kLength, DType::i32, Category::buffer), {}, 1, kLength};
      upload(me, batch.tokens, tokens);
      Activations saved = gpt.allocate_activations(me, 1, kLength);
      gpt.forward(me, batch, saved);
      const std::vector<float> all = to_host(me, saved.logits);
      logits.assign(all.end() - static_cast<std::ptrdiff_t>(2 * kVocabulary), all.end());
      return Values{};
    }).check();
    return logits;
  }
  /// The sentence with which a file of these tensors is refused.
  static std::string refusal(const std::vector<checkpoint::NamedTensor>& tensors, const GptConfig& model = kModel) {
    return lockstep::refusal([&] { imported_values(model, tensors, "FILE"); });
  }
  static std::vector<checkpoint::NamedTensor> some_tensors() {
    return checkpoint::parse_safetensors(read_file(kGolden + ".safetensors"), "FILE");
  }
};

TEST_F(Weights, OfTransformersGiveItsLogits) {
  expect_near(logits_of(read_weights(kModel, kGolden + ".safetensors")), "logits");
}

TEST_F(Weights, TrainToItsLossesOnAnyRanksAndAreWrittenAsItKnowsThem) {
  for (const Layout& layout : {kSerial, kMesh, Layout{1, 4, 1}, Layout{2, 1, 2, 0, "block", "interleaved"},
                               Layout{4, 1, 1, 1}, Layout{2, 2, 1, 2, "5000"}, Layout{4, 1, 1, 3}}) {
    SCOPED_TRACE(layout.name());
    checkpoint::MemoryFiles files;
    TrainRequest options = run_of(layout);
    options.checkpoint = path("run");
    expect_near(train_with(options, files).losses, "losses");
    export_weights(files, path("run"), path("out.safetensors"));
    expect_near(logits_of(read_weights(kModel, path("out.safetensors"))), "trained_logits");
  }
}

// The same of a Llama, whose q, k and v, and gate and up, are tensors of their own with transformers. Its weights are
// by formula (make_llama_golden.py).
TEST_F(Weights, OfALlamaTrainToPyTorchsLossesOnAnyRanks) {
  const GptConfig model = find_model(kLlama + ".json");
  std::vector<float> values(model.parameters());
  RunOptions one;
  one.threads = 1;
  run(one, [&](Rank me) {
    Gpt gpt(me, model, 1);
    model_tests::formula_values(me, gpt);
    values = to_host(me, gpt.parameters().values);
    return Values{};
  }).check();
  expect_near(logits_of(values, model), "llama.logits");
  write_atomically(path("llama.safetensors"), checkpoint::safetensors_text(exported_tensors(model, values), {}));
  EXPECT_EQ(read_weights(model, path("llama.safetensors")), values);
  for (const Layout& layout : {kSerial, kMesh, Layout{2, 2, 1, 2, "5000"}, Layout{4, 1, 1, 3, "layer"},
                               Layout{2, 1, 2, 0, "block", "interleaved"}}) {
    SCOPED_TRACE(layout.name());
    checkpoint::MemoryFiles files;
    TrainRequest options = run_of(layout);
    options.model = kLlama + ".json";
    options.heads = options.d_model = options.layers = 0;
    options.learning_rate = 0.01;
    options.init = path("llama.safetensors");
    options.checkpoint = path("run");
    expect_near(train_with(options, files).losses, "llama.losses");
    export_weights(files, path("run"), path("out"));
    const GptConfig exported = find_model(path("out/config.json"));
    EXPECT_EQ(model_text(exported), model_text(model));
    expect_near(logits_of(read_weights(exported, path("out/model.safetensors")), exported), "llama.trained_logits");
  }
}

TEST_F(Weights, OfALlamaHaveItsNamesAndShapes) {
  GptConfig model = find_model(kLlama + ".json");
  const std::vector<float> zeros(model.parameters());
  std::map<std::string, std::vector<std::size_t>> shapes;
  for (const auto& tensor : exported_tensors(model, zeros)) shapes[tensor.name] = tensor.shape;
  using Shape = std::vector<std::size_t>;
  EXPECT_EQ(shapes.size(), 3 + 2 * 9u);
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (Shape{256, 24}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (Shape{24, 24}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.k_proj.weight"), (Shape{12, 24}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.v_proj.weight"), (Shape{12, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.o_proj.weight"), (Shape{24, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.gate_proj.weight"), (Shape{40, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.up_proj.weight"), (Shape{40, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.down_proj.weight"), (Shape{24, 40}));
  EXPECT_EQ(shapes.at("model.layers.0.input_layernorm.weight"), Shape{24});
  EXPECT_EQ(shapes.at("model.layers.0.post_attention_layernorm.weight"), Shape{24});
  EXPECT_EQ(shapes.at("lm_head.weight"), (Shape{256, 24}));
  std::vector<checkpoint::NamedTensor> tensors = exported_tensors(model, zeros);
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {3}, {1, 1, 1}});
  EXPECT_EQ(refusal(tensors, model), "");
  EXPECT_EQ(refusal(some_tensors(), model),
            "FILE has no tensor 'model.embed_tokens.weight', which a model of 2 layers with a head of its own needs");
}

TEST_F(Weights, AreWrittenAsTheyWereRead) {
  const std::vector<float> values = read_weights(kModel, kGolden + ".safetensors");
  const std::string text = checkpoint::safetensors_text(exported_tensors(kModel, values), {{"step", "5"}});
  std::map<std::string, checkpoint::NamedTensor> written;
  for (checkpoint::NamedTensor& tensor : checkpoint::parse_safetensors(text, "TEXT")) written[tensor.name] = tensor;
  for (const checkpoint::NamedTensor& tensor : some_tensors()) {
    ASSERT_TRUE(written.count(tensor.name)) << tensor.name;
    EXPECT_EQ(written[tensor.name].shape, tensor.shape) << tensor.name;
    EXPECT_EQ(written[tensor.name].values, tensor.values) << tensor.name;
  }
  EXPECT_EQ(written.size(), some_tensors().size());
}

TEST_F(Weights, AFolderHasWhatTransformersLoads) {
  checkpoint::MemoryFiles files;
  TrainRequest options = run_of(kSerial);
  options.init.clear();
  options.untied = true;
  options.checkpoint = path("run");
  train_with(options, files);
  export_weights(files, path("run") + "/step-00000005", path("folder"));
  const Json config = Json::parse(read_file(path("folder/config.json")));
  EXPECT_EQ(config.at("n_embd").get<std::size_t>(), 24u);
  EXPECT_FALSE(config.at("tie_word_embeddings").get<bool>());
  std::size_t heads = 0;
  for (const auto& tensor : checkpoint::parse_safetensors(read_file(path("folder/model.safetensors")), "FILE"))
    heads += tensor.name == "lm_head.weight" && tensor.shape == std::vector<std::size_t>{kVocabulary, 24};
  EXPECT_EQ(heads, 1u);
  options.init = path("folder/model.safetensors");
  options.checkpoint = path("again");
  EXPECT_LT(train_with(options, files).losses.front(), 6);
}

TEST_F(Weights, WithoutAPrefixWithMasksAndWithARepeatedHeadAreReadToo) {
  std::vector<checkpoint::NamedTensor> tensors = some_tensors();
  const std::vector<float> expected = imported_values(kModel, tensors, "FILE");
  for (checkpoint::NamedTensor& tensor : tensors) tensor.name = tensor.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", {1, 1, 32, 32}, {}});
  tensors.push_back({"h.1.attn.masked_bias", {}, {0}});
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](auto& t) { return t.name == "wte.weight"; });
  tensors.push_back({"lm_head.weight", embedding->shape, embedding->values});
  EXPECT_EQ(imported_values(kModel, tensors, "FILE"), expected);
  tensors.back().values[7] += 1;
  EXPECT_EQ(refusal(tensors), "FILE has a head of its own, 'lm_head.weight': add --untied");
}

TEST_F(Weights, OfAnotherModelAreRefusedInASentence) {
  GptConfig model = kModel;
  model.layers = 3;
  EXPECT_EQ(refusal(some_tensors(), model),
            "FILE has no tensor 'transformer.h.2.ln_1.weight', which a model of 3 layers needs");
  model.layers = 1;
  EXPECT_EQ(refusal(some_tensors(), model),
            "FILE has tensor 'transformer.h.1.attn.c_attn.bias', for which a model of 1 layer has no place");
  model = kModel;
  model.context = 16;
  EXPECT_EQ(refusal(some_tensors(), model),
            "FILE: tensor 'transformer.wpe.weight' is 32 × 24, but this model's is 16 × 24");
  std::vector<checkpoint::NamedTensor> twice = some_tensors();
  twice.push_back({"wpe.weight", {32, 24}, std::vector<float>(32 * 24)});
  EXPECT_EQ(refusal(twice), "FILE has tensor 'transformer.wpe.weight' twice, with its prefix and without");
  TrainRequest phantom = run_of(kSerial);
  phantom.phantom = true;
  EXPECT_THROW(make_plan(phantom, 0), Error);
}

TEST_F(Weights, ACheckpointGoesBeforeThem) {
  checkpoint::MemoryFiles files;
  TrainRequest options = run_of(kSerial);
  options.steps = 3;
  options.checkpoint = options.resume = path("run");
  const std::vector<double> first = train_with(options, files).losses;
  options.steps = 5;
  std::vector<double> all = first;
  for (const double loss : train_with(options, files).losses) all.push_back(loss);
  expect_near(all, "losses");
}

TEST(Safetensors, WhatIsDamagedIsRefusedByName) {
  const std::string good = checkpoint::safetensors_text({{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"b", {}, {7}}}, {});
  ASSERT_EQ(checkpoint::parse_safetensors(good, "FILE").size(), 2u);
  const auto refused = [](const std::string& text) {
    return refusal([&] { checkpoint::parse_safetensors(text, "FILE"); }).starts_with("FILE ");
  };
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_TRUE(refused(good.substr(0, size))) << size;
  EXPECT_TRUE(refused(good + '\0'));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_TRUE(refused(with("[2,3]", "[2,4]")));      // more elements than bytes
  EXPECT_TRUE(refused(with("[24,28]", "[20,24]")));  // they overlap
  EXPECT_TRUE(refused(with("\"F32\"", "\"F3x\"")));
  EXPECT_TRUE(refused(with("\"b\"", "\"a\"")));  // twice
  EXPECT_TRUE(refused(with("[0,24]", "[0,-1]")));
  EXPECT_TRUE(refused(with("\"shape\"", "\"sHape\"")));
}

TEST(Safetensors, SixteenBitsBecomeFp32) {
  std::string header = R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
                       R"("c":{"dtype":"I64","shape":[1],"data_offsets":[6,14]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  text += header + std::string("\x80\x3f\x00\xc0\x00\x3e", 6) + std::string(8, '\1');
  const auto tensors = checkpoint::parse_safetensors(text, "FILE");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].values, (std::vector<float>{1, -2}));
  EXPECT_EQ(tensors[1].values, (std::vector<float>{1.5}));
  EXPECT_TRUE(tensors[2].values.empty());
}

}  // namespace
}  // namespace lockstep::train
