// Ranks that share sequences (23.6) in ./lab plan: refusals, the predictions against the simulator's steps, and
// sequences that no GPU has room for alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "labs/trainer/plan/simulate.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

/// dp counts replicas here, as on command lines.
Strategy shared(int dp, int cp, int tp, int pp) {
  Strategy strategy{.dp = dp * cp, .tp = tp, .pp = pp};
  strategy.cp = cp;
  return strategy;
}

/// Llama 3's 8B, or a quarter of it, at `length` tokens.
Task long_task(const std::string& cluster, int batch, std::size_t length, std::size_t layers = 8) {
  Task task = task_of("llama3-8b", cluster, batch);
  task.model.layers = layers;
  task.length = length;
  task.model.context = std::max(task.model.context, length);
  return task;
}

TEST(SharedSequences, WhatDoesNotGoTogetherIsSaid) {
  Task task = long_task("dgx-h100-ndrx2", 8, 32768);
  const auto reason = [&](
                          Strategy s, const std::function<void(Strategy&)>& change = [](Strategy&) {}) {
    change(s);
    const auto refusal = why_not(task, s);
    return refusal ? refusal->sentence : "it can be";
  };
  EXPECT_EQ(reason(shared(2, 4, 2, 1)), "it can be");
  EXPECT_EQ(format_strategy(shared(2, 4, 2, 1)), "dp 2 · cp 4 · tp 2 · pp 1 · microbatch 1");
  EXPECT_TRUE(contains(reason(shared(4, 4, 2, 1)), "dp 4 × cp 4 × tp 2 × pp 1 is 32 GPUs"));
  EXPECT_EQ(reason(shared(2, 4, 2, 1), [](Strategy& s) { s.sequence_parallel = true; }), "it can be");
  EXPECT_TRUE(contains(reason(shared(2, 4, 1, 2), [](Strategy& s) { s.schedule = "zb-h1"; }), "that no ranks share"));
  EXPECT_TRUE(contains(reason(shared(1, 1, 1, 1), [](Strategy& s) { s.dp = 16, s.cp = 3; }),
                       "do not divide into replicas of 3"));
  EXPECT_EQ(reason(shared(16, 1, 1, 1)), "8 sequences do not divide over dp 16");
  EXPECT_EQ(reason(shared(8, 2, 1, 1)), "it can be") << "two ranks a sequence: eight replicas";
  task.length = 32776;
  EXPECT_TRUE(contains(reason(shared(1, 16, 1, 1)), "do not divide into 32 chunks"));
  task.length = 32768 + 8;
  EXPECT_TRUE(
      contains(reason(shared(1, 4, 4, 1), [](Strategy& s) { s.sequence_parallel = true; }), "cannot shard 8194"));
  task = long_task("dgx-h100-ndrx2", 8, 32768);
  task.model.attention = AttentionKind::materialised;
  EXPECT_TRUE(contains(reason(shared(2, 4, 2, 1)), "no rank ever has all probabilities"));
}

TEST(SharedSequences, FormulasAgreeWithTheSimulator) {
  struct Row {
    const char* cluster;
    int dp, cp, tp, pp, zero;
    std::size_t length;
    bool recompute = false;
    std::size_t layers = 4;
    bool sequence_parallel = false;
  };
  std::vector<double> off;
  for (const Row& row :
       {Row{"dgx-h100-ndrx1", 1, 8, 1, 1, 0, 32768}, Row{"dgx-h100-ndrx2", 1, 16, 1, 1, 1, 65536},
        Row{"dgx-h100-ndrx2", 2, 4, 2, 1, 1, 32768}, Row{"dgx-h100-ndrx4", 2, 2, 4, 2, 1, 32768},
        Row{"dgx-h100-ndrx4", 1, 4, 8, 1, 1, 131072, true}, Row{"dgx-h100-ndrx8", 4, 4, 4, 1, 3, 131072, false, 32},
        Row{"dgx-a100-hdrx2", 2, 4, 2, 1, 1, 32768, true}, Row{"dgx-a100-hdrx2", 1, 8, 1, 2, 1, 16384},
        Row{"dgx-a100-10gbex2", 1, 16, 1, 1, 1, 65536}, Row{"dgx-1v-edrx2", 2, 4, 2, 1, 1, 8192},
        Row{"pcie-box-100gbex2", 2, 4, 1, 1, 1, 8192}, Row{"pcie-boxx1", 1, 4, 1, 1, 1, 8192},
        Row{"dgx-h100-ndrx2", 2, 4, 2, 1, 1, 32768, false, 4, true},
        Row{"dgx-h100-ndrx4", 1, 4, 8, 1, 1, 131072, true, 4, true},
        Row{"dgx-h100-ndrx4", 2, 2, 4, 2, 1, 32768, false, 4, true},
        Row{"dgx-a100-hdrx2", 2, 4, 2, 1, 1, 32768, false, 4, true}}) {
    const Task task = long_task(row.cluster, 4 * row.dp, row.length, row.layers);
    Strategy s = shared(row.dp, row.cp, row.tp, row.pp);
    s.zero = row.zero;
    s.recompute = row.recompute;
    s.sequence_parallel = row.sequence_parallel;
    const auto refusal = why_not(task, s);
    ASSERT_FALSE(refusal) << refusal->sentence;
    const Rated rated = Predictor(task).rate(s);
    const week25::PhantomStep step = week25::phantom_step(options_of(task, s), task.cluster.machine);
    const double time = rated.time.total() / step.seconds, memory = rated.memory.total_bytes() / step.peak_bytes();
    fmt::print(
        "{:<18} {:>6} tokens: {:>7.3f} s, simulated {:>7.3f} ({:+.1f}%); {:>5.1f} GB, simulated {:>5.1f} "
        "({:+.1f}%): {}\n",
        row.cluster, row.length, rated.time.total(), step.seconds, 100 * (time - 1), rated.memory.total_bytes() / 1e9,
        step.peak_bytes() / 1e9, 100 * (memory - 1), format_strategy(s));
    // Sums of gradients behind the last backward also wait for ports that keys and values hold, on slow links longest.
    EXPECT_NEAR(time, 1, 0.1) << row.cluster << ": " << format_strategy(s);
    EXPECT_NEAR(memory, 1, 0.03) << row.cluster << ": " << format_strategy(s);
    off.push_back(std::abs(time - 1));
  }
  std::sort(off.begin(), off.end());
  EXPECT_LT(off[off.size() / 2], 0.02) << "the median";
  EXPECT_GT(off.back(), 0) << "a formula that asks the simulator";
}

// Each rank has a cp-th of a block's attention, and sends a message per hop for its keys and values. Sequences that are
// twice as long over twice as many ranks leave every rank with the same tokens and twice the attention.
TEST(SharedSequences, ArithmeticGrowsAndMessagesHide) {
  const auto rate = [](const char* cluster, int cp, std::size_t length) {
    return Predictor(long_task(cluster, 16 / cp, length)).rate([&] {
      Strategy s = shared(16 / cp, cp, 1, 1);
      s.zero = 3;
      return s;
    }());
  };
  const Rated short_ones = rate("dgx-h100-ndrx2", 4, 32768), long_ones = rate("dgx-h100-ndrx2", 8, 65536);
  EXPECT_NEAR(long_ones.memory.activation_bytes / short_ones.memory.activation_bytes, 1, 0.01);
  EXPECT_GT(long_ones.time.compute, 1.2 * short_ones.time.compute);
  EXPECT_LT(long_ones.time.tensor, 0.05 * long_ones.time.total()) << "hops behind the attention of 8,192 tokens";
  const Rated across = rate("dgx-h100-10gbex2", 16, 65536);
  EXPECT_GT(across.time.tensor, across.time.compute) << "a hop of 16 MB over 10 GbE is behind nothing";
}

TEST(SharedSequences, LongContextsFitWhereTheyDidNot) {
  const std::string task =
      "--model llama3-8b --cluster dgx-h100-ndrx2 --global-batch 1 --sequence 1048576 --memory 80GB --fast --top 1";
  const std::string alone = said(task), sharing = said(task + " --cp 1,2,4,8,16");
  EXPECT_TRUE(contains(alone, "nothing fits in 80 GB per GPU") && contains(alone, "split sequences over ranks (--cp"))
      << alone;
  EXPECT_TRUE(contains(sharing, "exit 0")) << sharing;
  EXPECT_TRUE(contains(sharing, "sequences of 1048576 tokens")) << sharing;
  EXPECT_TRUE(contains(sharing, "   dp  cp")) << sharing;
  EXPECT_TRUE(contains(said("--model gpt3-13b --cluster dgx-a100x2 --global-batch 8 --sequence 4096"),
                       "has positions for 1 to 2048 tokens"));
  for (const char* wrong : {"0", "1,,2", "two", "32", "2,"})
    EXPECT_TRUE(contains(said(task + " --cp " + wrong), "how many of 16 GPUs share each sequence")) << wrong;
}

}  // namespace
}  // namespace lockstep::plan
