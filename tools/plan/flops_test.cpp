// ./lab flops against what others published of their own trainings.
#include "tools/plan/flops.hpp"

#include <gtest/gtest.h>

#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

TEST(Flops, OfATokenByPartAreThoseOfAStepAndOfMegatronsFormula) {
  for (const char* name : {"tiny", "gpt2-124m", "gpt3-175b", "gpt-1t", "tiny-llama", "llama3-70b", "mixtral-8x7b"}) {
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

TEST(Flops, OfAMixtureCountWhatATokenMeets) {
  const std::string text = told("--model mixtral-8x7b --sequence 4096 --tokens 1e12");
  EXPECT_TRUE(contains(text, "N = 12.88 G parameters that a token meets, of 46.7 G")) << text;
  EXPECT_TRUE(contains(text, "7.73e+22 FLOP by 6 N D")) << text;
}

TEST(Flops, EightBitsDoubleThePeakWhereThereAreAny) {
  const std::string text = told("--params 8e9 --tokens 1e12 --machine dgx-h100 --ranks 8 --dtype fp8");
  EXPECT_TRUE(contains(text, "each 1.979 PFLOP/s") || contains(text, "each 1979 TFLOP/s")) << text;
  EXPECT_TRUE(contains(told("--params 8e9 --machine dgx-a100 --dtype fp8"), "has no such products")) << "A100";
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
  const std::string half = told("--params 70e9 --tokens 1.4e12 --unique 0.35e12");
  EXPECT_TRUE(contains(half, "4 epochs of 350 G different tokens, worth 1.304 T new ones")) << half;
  EXPECT_TRUE(
      contains(told("--params 70e9 --tokens 1.4e12"),
               "loss, 1.974 by Chinchilla's law, after 3.647 T new tokens and 1.3 times the FLOP; served 2.542 T"));
  EXPECT_TRUE(contains(told("--params 70e9 --tokens 1e14"), "never have the same loss"));
  const std::string few = "--params 1e9 --machine dgx-a100 --serial-fraction 0.01 --price 2 ";
  const std::string both = told(few + "--within 1 --spend 800");
  EXPECT_TRUE(contains(both, "fewest in time: 16 GPUs, 0.8 days, 307 GPU-hours, 614")) << both;
  EXPECT_TRUE(contains(both, "most for the money: 48 GPUs, 0.341 days, 393 GPU-hours, 785")) << both;
  EXPECT_TRUE(contains(told(few + "--within 0.1"), "no number of GPUs up to 131072, in nodes of 8, will do"));
}

TEST(Flops, WhatMeansNothingIsRefused) {
  const struct {
    const char *arguments, *says;
  } cases[] = {{"", "give --model gpt2-124m"},
               {"--model gpt2-124m --machine laptop", "is not an MFU"},
               {"--model gpt2-124m --mfu 0.5", "--mfu needs --machine"},
               {"--params 1e9 --machine dgx-a100 --price cheap", "--price needs numbers"},
               {"--params 1e9 --price 2", "--price needs --machine"},
               {"--params 1e9 --within 3", "--within needs --machine"},
               {"--params 1e9 --machine dgx-a100 --spend 5", "--spend needs --price"},
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
