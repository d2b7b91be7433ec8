// ./lab flops against what others published of their own trainings.
#include "tools/plan/flops.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

TEST(Flops, OfTrainingsThatWerePublished) {
  const struct {
    const char* what;
    double parameters, tokens, flop;
  } runs[] = {
      {"GPT-3 175B, arXiv 2005.14165, Table D.1", 174.6e9, 300e9, 3.14e23},
      {"GPT-3 13B, there", 12.85e9, 300e9, 2.31e22},
      {"Llama 3 405B, arXiv 2407.21783, section 3.2", 405e9, 15.6e12, 3.8e25},
  };
  for (const auto& run : runs) EXPECT_NEAR(rule_of_six(run.parameters, run.tokens) / run.flop, 1, 0.005) << run.what;
}

TEST(Flops, ChinchillasTableByTheRuleOfTwentyTokens) {
  // arXiv 2203.15556, Table 3: parameters, FLOP and tokens of the best training.
  const double table[][3] = {{400e6, 1.92e19, 8.0e9},   {1e9, 1.21e20, 20.2e9},   {10e9, 1.23e22, 205.1e9},
                             {67e9, 5.76e23, 1.5e12},   {175e9, 3.85e24, 3.7e12}, {280e9, 9.90e24, 5.9e12},
                             {520e9, 3.43e25, 11.0e12}, {1e12, 1.27e26, 21.2e12}, {10e12, 1.30e28, 216.2e12}};
  for (const auto& [parameters, flop, tokens] : table) {
    EXPECT_NEAR(rule_of_six(parameters, tokens) / flop, 1, 0.06) << parameters;  // tokens are rounded there
    EXPECT_NEAR(best_parameters(flop) / parameters, 1, 0.05) << parameters;
    EXPECT_NEAR(kTokensPerParameter * parameters / tokens, 1, 0.12) << parameters;
  }
}

TEST(Flops, OfATokenByPartAreThoseOfAStepAndOfMegatronsFormula) {
  for (const char* name : {"tiny", "gpt2-124m", "gpt3-175b", "gpt-1t", "tiny-llama", "llama3-70b"}) {
    const GptConfig model = gpt_preset(name);
    for (const std::size_t length : {std::size_t{1}, std::size_t{77}, model.context}) {
      const TokenFlop token = token_flop(model, length);
      const double tokens = static_cast<double>(length);
      EXPECT_NEAR(token.sum() * tokens / model.step_flop(length), 1, 1e-12) << name;
      if (model.architecture != Architecture()) continue;
      // arXiv 2104.04473, section 3.3, without its recomputation: 72 l h² (1 + s/6h) + 6 V h a token.
      const double l = static_cast<double>(model.layers), h = static_cast<double>(model.d_model);
      const double megatron = 72 * l * h * h * (1 + tokens / (6 * h)) + 6 * static_cast<double>(model.vocabulary) * h;
      EXPECT_NEAR(token.palm() / megatron, 1, 1e-12) << name;
    }
  }
}

std::string told(const std::string& arguments) { return said("--flops " + arguments); }

TEST(Flops, DaysOfMegatronsTrainings) {
  // arXiv 2104.04473, section 5.1: 34 days for 300 G tokens at 140 TFLOP/s a GPU, and 84 days for 450 G at 163; a
  // quarter of these FLOP recompute, which is no useful work.
  const std::string gpt3 = told("--params 175e9 --tokens 300e9 --machine dgx-a100 --ranks 1024 --mfu 0.3365");
  EXPECT_TRUE(contains(gpt3, "33.9 days at 33.7% MFU")) << gpt3;
  const std::string trillion = told("--params 1.008e12 --tokens 450e9 --machine dgx-a100 --ranks 3072 --mfu 0.3918");
  EXPECT_TRUE(contains(trillion, "83.9 days")) << trillion;
}

TEST(Flops, WhatIsToldOfAModel) {
  const std::string text = told("--model gpt2-124m --tokens 10e9");
  EXPECT_TRUE(contains(text, "7.47e+18 FLOP by 6 N D, 7.98e+18 by the table")) << text;
  EXPECT_TRUE(contains(text, "80.4 per parameter")) << text;
  EXPECT_TRUE(contains(text, "gpt2-124m")) << text;
  const std::string measured = told("--model gpt2-124m --machine dgx-a100 --ranks 8 --tokens-per-second 1.4e6");
  EXPECT_TRUE(contains(measured, "% MFU") && contains(measured, "as PaLM counts")) << measured;
  const std::string cost = told("--params 1e9 --tokens 1e9 --machine dgx-a100 --ranks 8 --mfu 0.5 --price 2.50/h");
  EXPECT_TRUE(contains(cost, "10.7 GPU-hours, 26.7 at 2.5 per GPU-hour")) << cost;
  const std::string best = told("--budget 5.76e23");
  EXPECT_TRUE(contains(best, "6.93e+10 parameters")) << best;
}

TEST(Flops, WhatMeansNothingIsRefused) {
  const struct {
    const char *arguments, *says;
  } cases[] = {{"", "give --model gpt2-124m"},
               {"--model gpt2-124m --machine laptop", "is not an MFU"},
               {"--model gpt2-124m --mfu 0.5", "--mfu needs --machine"},
               {"--params 1e9 --machine dgx-a100 --price cheap", "--price needs numbers"},
               {"--params 1e9 --price 2", "--price needs --machine"},
               {"--params 1e9 --sequence 5", "--sequence needs --model"},
               {"--params 1e9 --tokens 1e9 --budget 1e20", "--budget"},
               {"--model gpt3-175b --machine dgx-a100 --tokens-per-second 1e6", "more than the hardware has"}};
  for (const auto& one : cases) {
    const std::string text = told(one.arguments);
    EXPECT_TRUE(contains(text, one.says) && contains(text, "exit 2")) << text;
  }
}

}  // namespace
}  // namespace lockstep::plan
