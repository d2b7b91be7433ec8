// ZB-V (24.8) in ./lab plan: refusals, and the predictions against the simulator's steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "labs/trainer/plan/simulate.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/strategy_file.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

struct Row {
  const char *model, *cluster;
  int batch, dp, pp, microbatch = 1, zero = 0;
  bool overlap_gather = false;
};

Strategy strategy_of(const Row& row, const std::string& schedule = "zb-v") {
  Strategy s{.dp = row.dp, .pp = row.pp, .microbatch = row.microbatch, .schedule = schedule, .zero = row.zero};
  if (schedule == "zb-v") s.chunks = 2;
  return s;
}

/// Ratios of formula to simulator, for time and memory; prints a line of a table.
struct Ratios {
  double time = 0, memory = 0;
};
Ratios compare(const Row& row, const Strategy& s) {
  Task task = task_of(row.model, row.cluster, row.batch);
  task.overlap_gather = row.overlap_gather;
  const auto refusal = why_not(task, s);
  EXPECT_FALSE(refusal) << refusal->sentence;
  const Rated rated = Predictor(task).rate(s);
  const week25::PhantomStep step = week25::phantom_step(options_of(task, s), task.cluster.machine);
  const Ratios ratios{rated.time.total() / step.seconds, rated.memory.total_bytes() / step.peak_bytes()};
  fmt::print(
      "{:<18} {:<9}: {:>6.3f} s, simulated {:>6.3f} ({:+.1f}%); {:>5.1f} GB, simulated {:>5.1f} ({:+.1f}%): {}\n",
      row.cluster, row.model, rated.time.total(), step.seconds, 100 * (ratios.time - 1),
      rated.memory.total_bytes() / 1e9, step.peak_bytes() / 1e9, 100 * (ratios.memory - 1), format_strategy(s));
  return ratios;
}

TEST(Vee, FormulasAgreeWithTheSimulator) {
  double most = 0;
  for (const Row& row :
       {Row{"gpt2-1.5b", "dgx-a100-hdrx1", 64, 1, 8, 2}, Row{"gpt2-1.5b", "dgx-a100-hdrx2", 64, 4, 4, 2},
        Row{"gpt2-1.5b", "dgx-a100-10gbex2", 64, 4, 4, 2, 1}, Row{"gpt3-13b", "dgx-h100-ndrx2", 64, 1, 16, 2},
        Row{"gpt3-13b", "dgx-h100-ndrx4", 128, 4, 8, 1, 1}, Row{"gpt3-13b", "dgx-h100-ndrx2", 6, 1, 16},
        Row{"gpt2-355m", "pcie-box-100gbex2", 32, 2, 4}, Row{"gpt2-355m", "pcie-boxx1", 16, 1, 4},
        Row{"gpt2-355m", "dgx-1v-edrx2", 256, 4, 4, 2}, Row{"llama3-8b", "dgx-h100-ndrx1", 32, 2, 4},
        Row{"gpt2-1.5b", "dgx-a100-hdrx2", 64, 4, 4, 2, 1, true},
        Row{"gpt2-355m", "dgx-h100-100gbex2", 64, 4, 4, 2, 1, true}}) {
    const Ratios ratios = compare(row, strategy_of(row));
    EXPECT_NEAR(ratios.time, 1, 0.05) << row.cluster;
    EXPECT_NEAR(ratios.memory, 1, 0.02) << row.cluster;
    most = std::max(most, std::abs(ratios.time - 1));
  }
  EXPECT_GT(most, 0) << "a formula that asks the simulator";
}

// All gradients of a chunk are final with its last second half: nothing of zb-h1's hides sums.
TEST(Vee, NothingHidesTheSumsOfHalvesOfOneChunk) {
  for (const Row& row :
       {Row{"gpt2-1.5b", "dgx-a100-hdrx2", 64, 4, 4, 2}, Row{"gpt2-355m", "pcie-box-100gbex2", 32, 2, 4}})
    EXPECT_NEAR(compare(row, strategy_of(row, "zb-h1")).time, 1, 0.015) << row.cluster;
}

TEST(Vee, ItTakesLessTimeInNoMoreThanHalvesMemory) {
  const Row row{"gpt3-13b", "dgx-h100-ndrx2", 64, 1, 16, 2};
  Predictor predictor(task_of(row.model, row.cluster, row.batch));
  const Rated plain = predictor.rate(strategy_of(row, "1f1b")), halves = predictor.rate(strategy_of(row, "zb-h1")),
              vee = predictor.rate(strategy_of(row));
  EXPECT_LT(vee.time.total(), halves.time.total());
  EXPECT_LT(halves.time.total(), plain.time.total());
  // 1F1B's activations; what is more, gradients that wait for second halves, zb-h1 has as well.
  EXPECT_NEAR(vee.memory.total_bytes() / halves.memory.total_bytes(), 1, 0.05);
}

TEST(Vee, WhatDoesNotGoTogetherIsSaid) {
  const Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  const auto reason = [&](const std::function<void(Strategy&)>& change) {
    Strategy s = strategy_of({"", "", 0, 4, 4});
    change(s);
    const auto refusal = why_not(task, s);
    return refusal ? refusal->sentence : "it can be";
  };
  EXPECT_EQ(reason([](Strategy&) {}), "it can be");
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.chunks = 1; }), "zb-v has two chunks per stage"));
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.chunks = 3; }), "on each leg of the V, not 3"));
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.dp = 16, s.pp = 1; }), "zb-v with pp 1"));
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.dp = 2, s.tp = 2; }), "with tp 2"));
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.cp = 2; }), "zb-v with cp 2"));
  EXPECT_TRUE(contains(reason([](Strategy& s) { s.recompute = true; }), "zb-v with recomputation"));
}

TEST(Vee, ItIsACandidateAndCanBeAskedFor) {
  const std::string task = "--model gpt2-1.5b --cluster dgx-a100-hdrx2 --global-batch 64 --fast --top 1 --explain ";
  const std::string text = said(task + "dp=4,pp=4,schedule=zb-v");
  EXPECT_TRUE(contains(text, "exit 0") && contains(text, "zb-v, 2 chunks")) << text;
  EXPECT_TRUE(contains(said(task + "schedule=zb-v,chunks=3"), "has these")) << "none of the strategies";
  EXPECT_EQ(parse_strategy(R"({"dp": 4, "pp": 4, "schedule": "zb-v"})", "mine").chunks, 2);
}

}  // namespace
}  // namespace lockstep::plan
