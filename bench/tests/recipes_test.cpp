// Tests of ./lab memory --recipe: tools' own totals, as their documents and estimators state them.
#include "tools/calculators/recipes.hpp"

#include <gtest/gtest.h>

#include "common/error.hpp"

namespace lockstep::bench {
namespace {

double bytes(const char* recipe, int stage, int ranks, double largest = 0) {
  return recipe_bytes(find_recipe(recipe), 1, stage, ranks, largest);
}

TEST(Recipes, AddUpToWhatTheToolsSay) {
  for (const int d : {1, 4, 8, 100}) {
    EXPECT_DOUBLE_EQ(bytes("megatron", 0, d), 18) << "Megatron Core, Distributed Optimizer";
    EXPECT_DOUBLE_EQ(bytes("megatron", 1, d), 6 + 12.0 / d);
    EXPECT_DOUBLE_EQ(bytes("deepspeed", 2, d), 2 + 18.0 / d) << "estimate_zero2_model_states_mem_needs";
    EXPECT_DOUBLE_EQ(bytes("deepspeed", 3, d, 0.25), 18.0 / d + 4 * 0.25) << "estimate_zero3_model_states_mem_needs";
    EXPECT_DOUBLE_EQ(bytes("deepspeed-offload", 3, d, 0.25), 2.0 / d + 4 * 0.25) << "the same, offload_optimizer";
    EXPECT_DOUBLE_EQ(bytes("deepspeed-infinity", 3, d, 0.25), 4 * 0.25) << "the same, offload_param";
    EXPECT_DOUBLE_EQ(host_bytes(find_recipe("deepspeed-offload"), 1, 3, d), 16 * 1.5 / d);
    EXPECT_DOUBLE_EQ(host_bytes(find_recipe("deepspeed-infinity"), 1, 3, d), 18 * 1.5 / d);
    EXPECT_DOUBLE_EQ(bytes("fsdp2", 3, d), 16.0 / d);
    EXPECT_DOUBLE_EQ(bytes("nanotron", 0, d), 20) << "while a microbatch is added";
    EXPECT_DOUBLE_EQ(bytes("nanotron", 1, d), 8 + 12.0 / d);
    EXPECT_DOUBLE_EQ(bytes("fp32-grads", 2, d), 2 + 16.0 / d);
  }
}

TEST(Recipes, TheTableHasEveryLineAndItsSum) {
  const std::string text = format_recipe(find_recipe("deepspeed"), "13B", 13e9, 8, 0, {});
  for (const char* part : {"stage 2", "stage 3", "gradients, 16 bits", "3.25 (0.25)", "55.25 (4.25)", "29.25 (2.25)",
                           "Left out, since it depends on the model"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(Recipes, TransfersHaveThePlannersPrice) {
  Machine machine = Machine::uniform(0, 0, 1e-12);
  machine.levels.back().ranks = 8;
  machine.host = {.memory_bytes = 1e12, .memory_bytes_per_second = 100e9, .gpu_bytes_per_second = 10e9};
  for (const auto& [recipe, words] :
       {std::pair{"deepspeed-offload",
                  "moves 1.00 GB between each GPU and its host, 0.10 s at 10 GB/s, and Adam takes "
                  "0.30 s on the host of 4 GPUs."},
        std::pair{"deepspeed-infinity", "moves 1.50 GB between each GPU and its host, 0.15 s"}}) {
    const std::string text = format_recipe(find_recipe(recipe), "1B", 1e9, 4, 0, machine);
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in\n" << text;
  }
}

TEST(Recipes, AnUnknownNameSuggestsTheNearest) {
  try {
    (void)find_recipe("deepsped");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("deepspeed"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::bench
