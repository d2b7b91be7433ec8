// Groups of ranks that hold ZeRO-3's state once (22.8) in ./lab plan: the predictions against the simulator's steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "labs/trainer/plan/simulate.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

TEST(HybridSharding, FormulasAgreeWithTheSimulator) {
  struct Row {
    const char *model, *cluster;
    int batch, group, dp, tp = 1, microbatch = 1;
    bool recompute = false;
  };
  for (const Row& row :
       {Row{"gpt2-1.5b", "dgx-a100-hdrx2", 32, 8, 16}, Row{"gpt2-1.5b", "dgx-a100-hdrx4", 128, 8, 32, 1, 2, true},
        Row{"gpt2-1.5b", "dgx-a100-10gbex2", 64, 8, 16, 1, 2, true}, Row{"gpt2-355m", "pcie-box-100gbex4", 64, 4, 16},
        Row{"gpt3-13b", "dgx-h100-ndrx4", 64, 8, 32, 1, 2, true}, Row{"gpt3-13b", "dgx-h100-ndrx4", 32, 4, 8, 4, 2},
        Row{"gpt2-355m", "dgx-1v-edrx2", 64, 8, 16, 1, 2}}) {
    Task task = task_of(row.model, row.cluster, row.batch);
    const Strategy s{.dp = row.dp, .tp = row.tp, .microbatch = row.microbatch, .zero = 3, .recompute = row.recompute};
    const double full = phantom_step(options_of(task, s), task.cluster.machine).seconds;
    task.shard_group = row.group;
    const Rated rated = Predictor(task).rate(s);
    const week25::PhantomStep step = phantom_step(options_of(task, s), task.cluster.machine);
    const double time = rated.time.total() / step.seconds, memory = rated.memory.total_bytes() / step.peak_bytes();
    fmt::print(
        "{:<18} {:<9} groups of {}: {:>7.3f} s, simulated {:>7.3f} ({:+.1f}%), all as one {:>7.3f}; {:>5.1f} GB, "
        "simulated {:>5.1f} ({:+.1f}%)\n",
        row.cluster, row.model, row.group, rated.time.total(), step.seconds, 100 * (time - 1), full,
        rated.memory.total_bytes() / 1e9, step.peak_bytes() / 1e9, 100 * (memory - 1));
    EXPECT_LT(step.seconds, full) << row.cluster << ": gathers across nodes would hide as well";
    EXPECT_NEAR(time, 1, 0.1) << row.cluster << ": " << format_strategy(s);
    EXPECT_NEAR(memory, 1, 0.03) << row.cluster << ": " << format_strategy(s);
  }
}

TEST(HybridSharding, OnlyDivisorsAndOnlyZeRO3) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 32);
  task.shard_group = 5;
  EXPECT_TRUE(contains(why_not(task, {.dp = 16, .zero = 3})->sentence, "do not divide into groups of 5"));
  EXPECT_FALSE(why_not(task, {.dp = 16, .zero = 2}));
  task.shard_group = 8;
  const auto rate = [&](int zero, int dp) {
    return Predictor(task).rate({.dp = dp, .tp = 16 / dp, .zero = zero}).time.total();
  };
  Task all = task;
  all.shard_group = 0;
  EXPECT_EQ(rate(2, 16), Predictor(all).rate({.dp = 16, .zero = 2}).time.total());
  EXPECT_EQ(rate(3, 8), Predictor(all).rate({.dp = 8, .tp = 2, .zero = 3}).time.total()) << "one group";
  EXPECT_NE(rate(3, 16), Predictor(all).rate({.dp = 16, .zero = 3}).time.total());
  EXPECT_TRUE(contains(said("--model gpt2-1.5b --cluster dgx-a100-hdrx2 --global-batch 32 --shard-group 17"),
                       "how many of 16 GPUs hold the state"));
}

}  // namespace
}  // namespace lockstep::plan
