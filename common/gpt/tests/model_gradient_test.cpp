// The GPT's gradients, compared with golden values from PyTorch and with finite differences.
#include <gtest/gtest.h>

#include "common/gpt/tests/model_support.hpp"

namespace lockstep {
namespace {

using namespace model_tests;

// Golden values ------------------------------------------------------------------------------------------------------

struct GoldenModel {
  const char* name;
  GptConfig config;
};

class Golden : public testing::TestWithParam<GoldenModel> {
 protected:
  static constexpr std::size_t kSequences = 3, kLength = 8;
  GptConfig config() const { return GetParam().config; }
  const std::vector<double>& golden(const std::string& key) const {
    static const auto values = [] {
      auto both = read_golden(LOCKSTEP_SOURCE_DIR "/common/gpt/model/golden/golden.txt");
      both.merge(read_golden(LOCKSTEP_SOURCE_DIR "/common/gpt/model/golden/llama.txt"));
      return both;
    }();
    return values.at(std::string(GetParam().name) + "." + key);
  }
  void expect_near(const Values& got, const std::string& key, double relative, double absolute) const {
    const std::vector<double>& want = golden(key);
    ASSERT_EQ(got.size(), want.size()) << key;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], relative * std::abs(want[i]) + absolute) << key << "[" << i << "]";
  }
  // Runs `f` with the model and its initial values by formula, its batch, and the scalars of a step.
  Values with_model(const std::function<Values(Rank, Gpt&, const Batch&, Activations&)>& f) const {
    return run_one([&](Rank me) {
      Gpt gpt(me, config(), 1);
      formula_values(me, gpt);
      Batch batch = formula_batch(me, kSequences, kLength, config().vocabulary);
      Activations saved = gpt.allocate_activations(me, kSequences, kLength);
      return f(me, gpt, batch, saved);
    });
  }
};

Values samples_of(Rank me, const Parameters& parameters, const Slice& flat) {
  Values samples;
  const std::vector<float> values = to_host(me, flat);
  for (const Parameter& parameter : parameters.list)
    for (std::size_t k = 0; k < 4; ++k) samples.push_back(values[parameter.offset + k * (parameter.size - 1) / 3]);
  return samples;
}

TEST_P(Golden, Sizes) {
  Values sizes;
  double total = 0;
  for (const Parameter& parameter : gpt_parameter_table(config())) {
    EXPECT_EQ(parameter.size, parameter.rows * parameter.columns) << parameter.name;
    EXPECT_EQ(parameter.offset, total) << parameter.name;
    total += sizes.emplace_back(parameter.size);
  }
  EXPECT_EQ(sizes, golden("sizes"));
  EXPECT_EQ(total, config().parameters());
}

TEST_P(Golden, Logits) {
  const Values logits = with_model([](Rank me, Gpt& gpt, const Batch& batch, Activations& saved) {
    gpt.forward(me, batch, saved);
    const std::vector<float> all = to_host(me, saved.logits);
    return Values(all.begin(), all.begin() + 64);
  });
  expect_near(logits, "logits", 1e-5, 1e-5);
}

TEST_P(Golden, Gradients) {
  Values samples;
  Values norms = with_model([&](Rank me, Gpt& gpt, const Batch& batch, Activations& saved) {
    Slice loss = me.allocate(1, DType::f32, Category::buffer);
    fill(me, loss, 0);
    accumulate_gradients(me, gpt, std::span(&batch, 1), saved, loss, factor_of(kSequences * kLength - 1));
    samples = samples_of(me, gpt.parameters(), gpt.parameters().gradients);
    Values values{read(me, loss, 0)};
    for (std::size_t i = 0; i < gpt.parameters().list.size(); ++i)
      values.push_back(norm_of(to_host(me, gpt.parameters().gradient(i))));
    return values;
  });
  EXPECT_NEAR(norms.front(), golden("losses").front(), 1e-5);
  norms.erase(norms.begin());
  expect_near(norms, "gradient_norms", 2e-5, 1e-7);
  expect_near(samples, "gradient_samples", 1e-4, 2e-6);
}

TEST_P(Golden, AdamWSteps) {
  Values samples, norms;
  const Values losses = with_model([&](Rank me, Gpt& gpt, const Batch& batch, Activations& saved) {
    Optimizer optimizer(me, gpt.parameters(), {});
    StepScalars scalars = allocate_step_scalars(me);
    Values seen;
    for (std::size_t step = 0; step < golden("losses").size(); ++step) {
      // Like serial_step, which averages over all tokens; here one target is masked.
      fill(me, scalars.loss, 0);
      accumulate_gradients(me, gpt, std::span(&batch, 1), saved, scalars.loss, factor_of(kSequences * kLength - 1));
      finish_step(me, gpt, optimizer, scalars, {.learning_rate = 1e-2f, .max_norm = 1});
      seen.push_back(read(me, scalars.loss, 0));
      norms.push_back(std::sqrt(read(me, scalars.squares, 0)));
    }
    samples = samples_of(me, gpt.parameters(), gpt.parameters().values);
    return seen;
  });
  EXPECT_NEAR(norms.front(), golden("total_norm").front(), 1e-4);
  expect_near(losses, "losses", 2e-4, 0);
  // The bias of the keys has no effect on the loss. Its gradient is rounding error, which AdamW amplifies to full
  // steps.
  Values want = golden("final_samples");
  const std::vector<Parameter> table = gpt_parameter_table(config());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Parameter& parameter = table[i / 4];
    if (parameter.name.ends_with("qkv.bias")) continue;
    EXPECT_NEAR(samples[i], want[i], 1e-3) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Golden,
                         testing::Values(GoldenModel{"tied", {2, 3, 24, 29, 10, true}},
                                         GoldenModel{"untied", {2, 3, 24, 29, 10, false}},
                                         GoldenModel{"llama", llama({2, 6, 24, 29, 10, false}, 2, 40, 500)},
                                         GoldenModel{"llama_tied", llama({2, 3, 24, 29, 10, true}, 3, 40, 500)}),
                         [](const auto& info) { return info.param.name; });

// Finite differences --------------------------------------------------------------------------------------------------

class FiniteDifferences : public testing::TestWithParam<GoldenModel> {};

// Moves each tensor by ±ε along its own gradient g/|g|: the loss must change by 2 ε |g|. Along a random direction d it
// must change by 2 ε (g·d). Together they catch a wrong length and a wrong direction.
TEST_P(FiniteDifferences, EveryParameter) {
  const GptConfig config = GetParam().config;
  struct Row {
    std::string name;
    double expected, measured;
  };
  std::vector<Row> rows;
  run_one([&](Rank me) {
    Gpt gpt(me, config, 1);
    formula_values(me, gpt);
    Batch batch = formula_batch(me, 2, 8, config.vocabulary);
    Activations saved = gpt.allocate_activations(me, 2, 8);
    Slice loss = me.allocate(1, DType::f32, Category::buffer);
    auto loss_with = [&](std::size_t i, const std::vector<float>& start, const std::vector<float>& direction,
                         double by) {
      std::vector<float> moved = start;
      for (std::size_t k = 0; k < moved.size(); ++k) moved[k] += static_cast<float>(by * direction[k]);
      upload(me, gpt.parameters().value(i), moved);
      fill(me, loss, 0);
      add_validation_loss(me, gpt, batch, saved, loss, factor_of(15));
      return static_cast<double>(read(me, loss, 0));
    };
    fill(me, loss, 0);
    accumulate_gradients(me, gpt, std::span(&batch, 1), saved, loss, factor_of(15));
    for (std::size_t i = 0; i < gpt.parameters().list.size(); ++i) {
      const std::vector<float> start = to_host(me, gpt.parameters().value(i));
      const std::vector<float> gradient = to_host(me, gpt.parameters().gradient(i));
      std::vector<float> along = gradient, other(gradient.size());
      for (std::size_t k = 0; k < other.size(); ++k)
        other[k] = static_cast<float>((7919 * (k + 1) * (k + 3)) % 101) - 50;
      for (std::vector<float>* direction : {&along, &other}) {
        const double length = norm_of(*direction);
        if (length == 0) continue;
        double expected = 0;
        for (std::size_t k = 0; k < direction->size(); ++k) {
          (*direction)[k] = static_cast<float>((*direction)[k] / length);
          expected += static_cast<double>((*direction)[k]) * gradient[k];
        }
        // Five points, so that curvature cancels. The fp32 loss has an error of about 3e-7, so the quotient has ± 5e-5.
        constexpr double kStep = 1e-2;
        auto slope = [&](double step) {
          return (loss_with(i, start, *direction, step) - loss_with(i, start, *direction, -step)) / (2 * step);
        };
        rows.push_back({gpt.parameters().list[i].name, expected, (4 * slope(kStep) - slope(2 * kStep)) / 3});
      }
      upload(me, gpt.parameters().value(i), start);
    }
    return Values{};
  });
  EXPECT_GE(rows.size(), 2 * gpt_parameter_table(config).size() - 1);
  for (const Row& row : rows) EXPECT_NEAR(row.measured, row.expected, 1e-3 * std::abs(row.expected) + 1e-4) << row.name;
}

/// Mixes parts of both blocks: biases with SwiGLU, a LayerNorm with rotary positions, one key-value head for all heads.
GptConfig mixed() {
  GptConfig config{2, 4, 16, 13, 8, true};
  config.architecture = {NormKind::layer_norm, PositionKind::rotary, MlpKind::swiglu, true, 1, 20, 500};
  return config;
}

/// Llama's block with materialised attention.
GptConfig materialised_llama() {
  GptConfig config = llama({2, 4, 16, 13, 8, false}, 2, 20, 500);
  config.attention = AttentionKind::materialised;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Model, FiniteDifferences,
                         testing::Values(GoldenModel{"tied", {2, 2, 16, 13, 8, true}},
                                         GoldenModel{"untied", {2, 2, 16, 13, 8, false}},
                                         GoldenModel{"llama", llama({2, 4, 16, 13, 8, false}, 2, 20, 500)},
                                         GoldenModel{"llama_materialised", materialised_llama()},
                                         GoldenModel{"mixed", mixed()}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
