// Tests of ./lab plan: refusals and their words, and the predictions against simulated steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate_testing.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/refine.hpp"
#include "tools/plan/report.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

// Impossible strategies -----------------------------------------------------------------------------------------------

TEST(WhyNot, NamesTheNumbers) {
  const Task task = task_of("gpt3-175b", "dgx-a100x128", 1536);
  const auto reason = [&](const Strategy& s) {
    const auto refusal = why_not(task, s);
    return refusal ? refusal->sentence : "it can be";
  };
  EXPECT_EQ(reason({.dp = 8, .tp = 8, .pp = 16}), "it can be");
  EXPECT_TRUE(contains(reason({.dp = 8, .tp = 8, .pp = 8}), "is 512 GPUs, and dgx-a100x128 has 1024"));
  EXPECT_TRUE(contains(reason({.dp = 1, .tp = 64, .pp = 16}), "96 heads do not divide over tp 64"));
  EXPECT_TRUE(contains(reason({.dp = 1024}), "1536 sequences do not divide over dp 1024"));
  EXPECT_TRUE(contains(reason({.dp = 8, .pp = 128}), "96 layers, embedding and head cannot fill 128 parts"));
  EXPECT_TRUE(contains(reason({.dp = 8, .tp = 8, .pp = 16, .microbatch = 5}), "microbatches of 5 do not divide"));
  EXPECT_TRUE(contains(reason({.dp = 8, .tp = 8, .pp = 16, .microbatch = 8, .schedule = "interleaved", .chunks = 2}),
                       "24 microbatches are not a multiple of pp 16"));
  EXPECT_TRUE(
      contains(reason({.dp = 8, .tp = 8, .pp = 16, .zero = 2}), "ZeRO-2 with a pipeline would reduce all gradients"));
  EXPECT_TRUE(contains(reason({.dp = 8, .tp = 8, .pp = 16, .schedule = "zb-h1"}), "zb-h1 with tp 8"));
  EXPECT_TRUE(contains(reason({.dp = 64, .tp = 1, .pp = 16, .sequence_parallel = true}), "no rows to shard"));
}

TEST(WhyNot, TheSearchCountsWhatItRefuses) {
  const Task task = task_of("gpt3-13b", "dgx-a100x2", 64);
  Predictor predictor(task);
  const std::vector<Strategy> all = strategies(task);
  const Search found = search(predictor, all, 1000);
  std::size_t refused = 0;
  for (const auto& [reason, of] : found.refused) {
    refused += of.count;
    EXPECT_FALSE(of.example.empty() || of.sentence.empty()) << reason;
  }
  EXPECT_EQ(found.candidates, all.size());
  EXPECT_GT(found.refused.count(kMemory), 0u);
  EXPECT_LT(refused, found.candidates);
  std::set<std::tuple<int, int, int>> meshes;
  for (const Rated& rated : found.best) {
    const Strategy& s = rated.strategy;
    EXPECT_TRUE(meshes.insert({s.dp, s.tp, s.pp}).second) << format_strategy(s) << ": its mesh is listed already";
    EXPECT_FALSE(why_not(task, s)) << format_strategy(s);
  }
}

// A thousand GPUs -----------------------------------------------------------------------------------------------------

TEST(Simulated, Gpt3On1024A100IsPredicted) {
  const Task task = task_of("gpt3-175b", "dgx-a100x128", 1536);
  Predictor predictor(task);
  std::vector<Rated> plans = search(predictor, strategies(task), 3).best;
  EXPECT_EQ(format_strategy(plans.front().strategy),
            "dp 32 · tp 4 · pp 8 · microbatch 1 · interleaved, 6 chunks · ZeRO-1")
      << "docs/learn/theory/week25.md names the best plan";
  plans.push_back(predictor.rate({.dp = 8, .tp = 8, .pp = 16, .zero = 1, .recompute = true}));
  plans.push_back(predictor.rate({.dp = 16, .tp = 8, .pp = 8}));  // the course's mesh
  for (const Rated& rated : plans) {
    const week25::PhantomStep step = week25::phantom_step(options_of(task, rated.strategy), task.cluster.machine);
    fmt::print("{:.2f} s, simulated {:.2f}; {:.1f} GB, simulated {:.1f}: {}\n", rated.time.total(), step.seconds,
               rated.memory.total_bytes() / 1e9, step.peak_bytes() / 1e9, format_strategy(rated.strategy));
    EXPECT_NEAR(rated.time.total() / step.seconds, 1, 0.04) << format_strategy(rated.strategy);
    EXPECT_NEAR(rated.memory.total_bytes() / step.peak_bytes(), 1, 0.03) << format_strategy(rated.strategy);
  }
}

/// The fastest way of each mesh as the simulator plays it, fastest first: the first `variants` of each by formula,
/// without a bound.
struct PlayedMesh {
  double seconds = 1e30;
  Strategy strategy;
};
std::vector<PlayedMesh> by_mesh(const Task& task, const std::vector<Rated>& fitting, int variants) {
  std::map<std::tuple<int, int, int>, std::pair<int, PlayedMesh>> meshes;
  for (const Rated& rated : fitting) {
    const Strategy& s = rated.strategy;
    auto& [seen, best] = meshes[{s.dp, s.tp, s.pp}];
    if (seen++ >= variants) continue;
    const week25::PhantomStep step = week25::phantom_step(options_of(task, s), task.cluster.machine);
    if (step.peak_bytes() <= task.memory_bytes && step.seconds < best.seconds) best = {step.seconds, s};
  }
  std::vector<PlayedMesh> all;
  for (const auto& [mesh, known] : meshes) all.push_back(known.second);
  std::sort(all.begin(), all.end(), [](const PlayedMesh& a, const PlayedMesh& b) { return a.seconds < b.seconds; });
  return all;
}

bool same_mesh(const Strategy& a, const Strategy& b) { return a.dp == b.dp && a.tp == b.tp && a.pp == b.pp; }

TEST(Refined, TheFiveBestAreTheSimulatorsOnSixClusters) {
  const struct {
    const char *model, *cluster;
    int batch;
  } tasks[] = {{"gpt2-355m", "pcie-box-10gbex4", 16}, {"gpt2-355m", "pcie-box-100gbex4", 16},
               {"gpt2-1.5b", "dgx-a100-10gbex2", 16}, {"gpt2-355m", "dgx-h100-100gbex2", 16},
               {"gpt2-1.5b", "dgx-1v-edrx2", 16},     {"gpt3-13b", "dgx-a100-hdrx2", 16}};
  for (const auto& [model, cluster, batch] : tasks) {
    const Task task = task_of(model, cluster, batch);
    Predictor predictor(task);
    const Search found = search(predictor, strategies(task), 10);
    const Refinement refined = refine(task, found.fitting, std::min<std::size_t>(10, found.best.size()));
    ASSERT_GE(refined.best.size(), 4u) << cluster;
    const std::vector<PlayedMesh> every = by_mesh(task, found.fitting, 28);
    const std::size_t five = std::min<std::size_t>(5, refined.best.size());
    fmt::print("{} on {}: {} of {} played ({})\n", model, cluster, refined.played, found.fitting.size(),
               refined.all ? "no other can be faster" : "as many as it may");
    for (std::size_t i = 0; i < five; ++i) {
      const Refined& listed = refined.best[i];
      const auto by_formula = std::find_if(found.best.begin(), found.best.end(), [&](const Rated& other) {
        return same_mesh(other.strategy, listed.rated.strategy);
      });
      fmt::print("  {} (by formula {}): {:.4g} s, by formula {:.4g}: {}\n", i + 1, by_formula - found.best.begin() + 1,
                 listed.seconds(), listed.rated.time.total(), format_strategy(listed.rated.strategy));
      EXPECT_TRUE(same_mesh(listed.rated.strategy, every.at(i).strategy) &&
                  listed.seconds() <= 1.005 * every[i].seconds)
          << cluster << ", place " << i + 1 << ": the simulator's is " << format_strategy(every[i].strategy) << ", "
          << every[i].seconds << " s";
    }
  }
}

TEST(Simulated, FormulasAgreeOnEveryMachine) {
  std::size_t machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kMachines)) {
    const std::string name = entry.path().stem().string();
    const bool alone = find_machine(name, kMachines).levels.back().ranks != 0;
    const Task task = task_of("gpt2-355m", name + (name == "uniform" ? "x16" : alone ? "" : "x2"), 64);
    Predictor predictor(task);
    // Known to be wrong: gathers of ZeRO-3 that a port of eight fast GPUs just cannot hide count as hidden, 23 % too
    // fast. The list that ./lab plan prints is refined in virtual time, and does not have it.
    const bool known = name == "jean-zay-a100";
    std::vector<double> off;
    for (const Rated& rated : search(predictor, strategies(task), 5).best) {
      const week25::PhantomStep step = week25::phantom_step(options_of(task, rated.strategy), task.cluster.machine);
      off.push_back(std::abs(rated.time.total() / step.seconds - 1));
      EXPECT_LT(off.back(), known ? 0.24 : 0.2) << name << ": " << format_strategy(rated.strategy);
    }
    EXPECT_LT(off.at(0), known ? 0.24 : 0.065) << name << ": the first choice";
    const double first = off[0], worst = *std::max_element(off.begin(), off.end());
    std::nth_element(off.begin(), off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2), off.end());
    EXPECT_LT(off[off.size() / 2], 0.05) << name << ": the median of the five best";
    fmt::print("{:<22} {:.1f}%, median {:.1f}, worst {:.1f}\n", name, 100 * first, 100 * off[off.size() / 2],
               100 * worst);
    ++machines;
  }
  EXPECT_GE(machines, 20u);
}

TEST(Simulated, UnitsOfALayerFitWhereBlocksDoNot) {
  Task task = task_of("gpt3-13b", "dgx-a100x2", 64);
  const Strategy strategy{.dp = 16, .microbatch = 2, .zero = 3, .recompute = true};
  double memory[2];
  for (const char* units : {"block", "layer"}) {
    task.units = units;
    const Rated rated = Predictor(task).rate(strategy);
    const week25::PhantomStep step = week25::phantom_step(options_of(task, strategy), task.cluster.machine);
    EXPECT_NEAR(rated.memory.total_bytes() / step.peak_bytes(), 1, 0.1) << units;
    memory[units == std::string("layer")] = step.peak_bytes();
  }
  EXPECT_LT(memory[1], memory[0] - 1e9) << "two layers of at most 4 C² whole, not two blocks of 12 C²";
  Task large = task_of("gpt-530b", "dgx-a100x80", 2560);  // ran, says arXiv 2104.04473, Table 2
  const Strategy ran{.dp = 640, .microbatch = 4, .zero = 3, .recompute = true};
  EXPECT_GT(Predictor(large).rate(ran).memory.total_bytes(), 80e9);
  large.units = "layer";
  EXPECT_LT(Predictor(large).rate(ran).memory.total_bytes(), 80e9);
}

// Claims of the course texts: docs/learn/claims.md --------------------------------------------------------------------

TEST(Claims, TheTextsPlanOfGpt3) {
  // 8 stages × 8 tensor-parallel ranks × 16 replicas; the text counts 5.4 GB of values, 16.2 of optimizer, 40 of
  // activations.
  const Task task = task_of("gpt3-175b", "dgx-a100x128", 1536);
  Predictor predictor(task);
  const Rated rated = predictor.rate({.dp = 16, .tp = 8, .pp = 8});
  const week25::PhantomStep step = week25::phantom_step(options_of(task, rated.strategy), task.cluster.machine);
  const auto most = std::max_element(step.memory.begin(), step.memory.end(),
                                     [](const Memory& a, const Memory& b) { return a.peak_total < b.peak_total; });
  const auto gb = [&](Category category) { return static_cast<double>(most->peak_of(category)) / 1e9; };
  const double best = search(predictor, strategies(task), 1).best.front().time.total();
  fmt::print(
      "  measured: {:.2f} GB of values, {:.2f} of gradients, {:.2f} of optimizer, {:.2f} of activations, {:.2f} at the "
      "peak; {:.1f} s a step, the best plan {:.1f}\n",
      gb(Category::parameter), gb(Category::gradient), gb(Category::optimizer), gb(Category::activation),
      step.peak_bytes() / 1e9, step.seconds, best);
  EXPECT_NEAR(gb(Category::parameter), 5.4, 0.3);
  EXPECT_NEAR(gb(Category::gradient), gb(Category::parameter), 0.01) << "the text leaves them out";
  EXPECT_NEAR(gb(Category::optimizer) / gb(Category::parameter), 6, 0.01) << "m, v and fp32 weights: not 3";
  EXPECT_LT(step.peak_bytes(), 80e9) << "it fits, since flash attention keeps less than the text's 40 GB";
  EXPECT_GT(step.peak_bytes() - gb(Category::activation) * 1e9 + 40e9, 80e9) << "with 40 GB it would not";
  EXPECT_NEAR(step.seconds / best, 1.1, 0.04);
}

/// Seconds of the best plan among those that `wanted` accepts.
double best_of(Predictor& predictor, const std::function<bool(const Strategy&)>& wanted) {
  std::vector<Strategy> some = strategies(predictor.task());
  std::erase_if(some, [&](const Strategy& s) { return !wanted(s); });
  return search(predictor, some, 1).best.at(0).time.total();
}

TEST(Claims, LargestModelsNeedAllThreeAxes) {
  struct Row {
    const char *model, *cluster;
    int batch;
    double without_pp, without_tp, without_dp;  // at least: the best such plan over the best of all
  };
  for (const Row& row :
       {Row{"gpt3-175b", "dgx-a100x128", 1536, 1.01, 1.8, 5}, Row{"gpt-1t", "dgx-a100x384", 3072, 1.25, 2.3, 6}}) {
    Predictor predictor(task_of(row.model, row.cluster, row.batch));
    const double all = best_of(predictor, [](const Strategy&) { return true; });
    const double pp = best_of(predictor, [](const Strategy& s) { return s.pp == 1; }) / all;
    const double tp = best_of(predictor, [](const Strategy& s) { return s.tp == 1; }) / all;
    const double dp = best_of(predictor, [](const Strategy& s) { return s.dp == 1; }) / all;
    fmt::print(
        "  measured: {}: the best plan takes {:.1f} s; without pp {:.2f}, without tp {:.2f}, without dp {:.2f} times\n",
        row.model, all, pp, tp, dp);
    EXPECT_GT(pp, row.without_pp) << row.model;
    EXPECT_GT(tp, row.without_tp) << row.model;
    EXPECT_GT(dp, row.without_dp) << row.model;
    EXPECT_LT(pp, 1.35) << row.model;
  }
}

TEST(Claims, SixtyFourStagesForGpt3) {
  Predictor predictor(task_of("gpt3-175b", "dgx-a100x128", 1536));
  const double all = best_of(predictor, [](const Strategy&) { return true; });
  const double deep = best_of(predictor, [](const Strategy& s) { return s.tp == 8 && s.pp == 64; });
  fmt::print("  measured: tp 8 and 64 stages: {:.1f} s, {:.2f} times the best plan\n", deep, deep / all);
  EXPECT_NEAR(deep / all, 1.45, 0.05);
}

/// Weak scaling of data parallelism where rings leave a node through all of its ports, as NCCL's do: the course's own
/// flat ring leaves it through one (suite.claims.strategies).
TEST(Claims, DataParallelismScalesFurtherOnAllPortsOfANode) {
  struct Row {
    int nodes;
    double ddp, fsdp;  // efficiencies
  };
  for (const Row& row : {Row{4, 0.98, 1.04}, Row{64, 0.89, 0.88}}) {
    Task task = task_of("gpt2-1.5b", fmt::format("dgx-a100-hdrx{}", row.nodes), 8 * 8 * row.nodes);
    task.cluster.machine = task.cluster.machine.as_library();
    Predictor predictor(task);
    const week25::StepTime ddp = predictor.rate({.dp = 8 * row.nodes, .microbatch = 8}).time;
    const double alone = ddp.total() - ddp.data;  // of one GPU
    const double fsdp = predictor.rate({.dp = 8 * row.nodes, .microbatch = 8, .zero = 3}).time.total();
    fmt::print("  measured: {} GPUs, library prices: efficiency of DDP {:.2f}, of FSDP {:.2f}\n", 8 * row.nodes,
               alone / ddp.total(), alone / fsdp);
    EXPECT_NEAR(alone / ddp.total(), row.ddp, 0.006);
    EXPECT_NEAR(alone / fsdp, row.fsdp, 0.006);
  }
}

TEST(Claims, FlopOfATrainingRun) {
  // 6ND; the text says 2e23 for 70 billion parameters and 1 T tokens, 2e24 for 280 billion and 10 T.
  const Task task = task_of("gpt3-175b", "dgx-a100x128", 1536);
  const double n = static_cast<double>(task.model.parameters());
  const double a_token = task.model.step_flop(task.length) / static_cast<double>(task.length);
  fmt::print("  measured: {:.2f} N FLOP a token, attention and head included\n", a_token / n);
  EXPECT_NEAR(a_token / n, 6, 0.25);
  EXPECT_NEAR(6 * 70e9 * 1e12 / 2e23, 2.1, 0.01);
  EXPECT_NEAR(6 * 280e9 * 10e12 / 2e24, 8.4, 0.01);
}

// Published steps -----------------------------------------------------------------------------------------------------

// arXiv 2407.21783, Table 4: 405B on 16,384 H100 as dp 128 × tp 8 × pp 16, 16 M tokens a step, without recomputation,
// at 41 % MFU. An H100 has 81,559 MiB.
TEST(Published, Llama3sLayoutIsTheBestOfItsMachine) {
  Task task = task_of("llama3-405b", "dgx-h100-ndrx2048", 2048);
  task.cluster.machine = task.cluster.machine.as_library();
  task.memory_bytes = 81559.0 * (1 << 20);
  ASSERT_EQ(task.length, 8192u);
  Predictor predictor(task);
  const Search found = search(predictor, strategies(task), 10);
  ASSERT_FALSE(found.best.empty());
  const Rated& best = found.best.front();
  EXPECT_EQ(format_strategy(best.strategy),
            "dp 128 · tp 8 · pp 16 · microbatch 1 · interleaved, 8 chunks · ZeRO-1 · sequence parallelism");
  EXPECT_NEAR(figures(task, best).mfu, 0.41, 0.15 * 0.41);
  EXPECT_TRUE(
      contains(why_not(task, {.dp = 64, .tp = 16, .pp = 16})->sentence, "8 key-value heads do not divide over tp 16"));
}

}  // namespace
}  // namespace lockstep::plan
