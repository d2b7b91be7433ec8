// FLOP and bytes of a plan's operations: by formula, and how sharding and recomputation change them.
#include "tools/plan/operations.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

using week25::Strategy;

OperationTotal total(const Task& task, const Strategy& strategy, const std::string& name) {
  const std::vector<OperationTotal> all = operations_of_microbatch(task, strategy);
  const auto found = std::find_if(all.begin(), all.end(), [&](const OperationTotal& one) { return one.name == name; });
  return found == all.end() ? OperationTotal{} : *found;
}

TEST(Operations, MatmulsAreSixFlopAParameterAndToken) {
  Task task = task_of("gpt2-355m", "dgx-a100x1", 8);
  task.model.layers = 3;
  const double h = static_cast<double>(task.model.d_model), v = static_cast<double>(task.model.vocabulary);
  const double tokens = 2 * static_cast<double>(task.length), blocks = 3 * 12 * h * h, head = v * h;
  const auto matmul = [&](const Strategy& strategy) { return total(task, strategy, "matmul"); };
  const OperationTotal one = matmul({.dp = 8, .microbatch = 2});
  EXPECT_NEAR(one.flop / (6 * tokens * (blocks + head)), 1, 0.01);
  EXPECT_EQ(one.calls, 3 * (3 * 4 + 1)) << "forward, and two in the backward, of four a block and the head";
  EXPECT_GT(one.flop / one.seconds, 0.5 * 312e12) << "bf16 on an A100";
  const OperationTotal again = matmul({.dp = 8, .microbatch = 2, .recompute = true});
  EXPECT_NEAR((again.flop - one.flop) / (2 * tokens * blocks), 1, 0.3) << "a block's forward once more";
  const OperationTotal half = matmul({.dp = 4, .tp = 2, .microbatch = 2});
  EXPECT_NEAR(half.flop / one.flop, 0.5, 0.01);
  EXPECT_GT(half.bytes, 0.5 * one.bytes) << "both ranks read the whole input";
  Strategy stages{.dp = 4, .pp = 2, .microbatch = 2, .zero = 1};
  EXPECT_EQ(matmul(stages).flop, one.flop) << "all stages together";
}

TEST(Operations, NormalisationMovesMoreThanItComputes) {
  const Task task = task_of("gpt2-355m", "dgx-a100x1", 8);
  const OperationTotal norm = total(task, {.dp = 8}, "layer_norm"), matmul = total(task, {.dp = 8}, "matmul");
  const double ridge = 312e12 / 2e12;
  EXPECT_LT(norm.flop / norm.bytes, 0.1 * ridge);
  EXPECT_GT(matmul.flop / matmul.bytes, ridge);
  EXPECT_GT(norm.seconds, norm.bytes / 2e12) << "memory, and a launch each";
}

}  // namespace
}  // namespace lockstep::plan
