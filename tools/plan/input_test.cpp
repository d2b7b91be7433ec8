// --load-rate: a step lasts at least as long as loading the next batch, and the report says which of the two it is.
#include <gtest/gtest.h>

#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

TEST(Input, AStepLastsAtLeastAsLongAsLoading) {
  Task task = task_of("gpt2-355m", "dgx-a100x1", 64);
  const week25::Strategy strategy{.dp = 4, .tp = 2, .microbatch = 16};
  const double alone = Predictor(task).rate(strategy).time.total();
  const double tokens = 64 / 4 * static_cast<double>(task.length);  // of a replica; its two ranks load the same
  EXPECT_EQ(loaded_tokens(task, strategy), tokens);
  for (const double load : {alone / 2, 0.999 * alone, 1.5 * alone, 10 * alone}) {
    task.load_rate = tokens / load;
    const week25::StepTime time = Predictor(task).rate(strategy).time;
    EXPECT_NEAR(time.total(), std::max(alone, load), 1e-12 * load);
    EXPECT_NEAR(time.input, std::max(0.0, load - alone), 1e-12 * load);
    EXPECT_EQ(week25::limit(time).name == "input", load > 5 * alone);
  }
}

TEST(Input, MoreReplicasLoadMoreTogether) {
  Task task = task_of("gpt2-355m", "dgx-a100x1", 64);
  task.load_rate = 100;
  Predictor predictor(task);
  const double two = predictor.rate({.dp = 2, .tp = 4, .microbatch = 16}).time.total();
  EXPECT_NEAR(predictor.rate({.dp = 8, .microbatch = 8}).time.total(), two / 4, 1e-9 * two);
}

TEST(Input, TheProgramSaysWhichBoundsTheStep) {
  const std::string plan = "--model gpt2-355m --cluster dgx-a100x1 --global-batch 64 --explain dp=8 --load-rate ";
  const std::string slow = said(plan + "1000"), fast = said(plan + "1e7");
  EXPECT_TRUE(contains(slow, "and gets up to 1000, so")) << slow;
  EXPECT_TRUE(contains(slow, "limited by input")) << slow;
  EXPECT_TRUE(contains(fast, "gets up to 10000000, so loading is")) << fast;
  EXPECT_FALSE(contains(said("--model gpt2-355m --cluster dgx-a100x1 --global-batch 64 --fast"), "input"));
  EXPECT_TRUE(contains(said(plan + "1000 --simulate 1"), "the simulated step loads nothing"));
}

}  // namespace
}  // namespace lockstep::plan
