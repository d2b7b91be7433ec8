// Tests of ./lab plan --offload: its price by hand and by its papers, its effect on a plan, and refusals.
#include "labs/trainer/plan/offload.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "tools/calculators/recipes.hpp"
#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

Task offloaded(const std::string& model, const std::string& cluster, int batch, Offload offload) {
  Task task = task_of(model, cluster, batch);
  task.offload = offload;
  return task;
}

TEST(Offload, PriceByHand) {
  const HostMemory host{.memory_bytes = 1e12, .memory_bytes_per_second = 100e9, .gpu_bytes_per_second = 10e9};
  // A billion elements: a gradient takes 0.2 s, a sum 0.1 s, Adam 0.3 s.
  HostWork work{.elements = 1e9, .microbatches = 4, .forward = 1, .backward = 2};
  const HostCost hidden = host_cost(host, Offload::optimizer, work);
  EXPECT_DOUBLE_EQ(hidden.waiting, 0);
  EXPECT_DOUBLE_EQ(hidden.update, 0.3) << "parameters follow it in 0.2 s";
  EXPECT_DOUBLE_EQ(hidden.moved, 10e9) << "4 gradients and a parameter, of 2 bytes";
  EXPECT_DOUBLE_EQ(hidden.bytes, 24e9);
  work.late = 0.5e9;
  EXPECT_DOUBLE_EQ(host_cost(host, Offload::optimizer, work).waiting, 0.1) << "after the last backward";
  work = {.elements = 1e9, .microbatches = 4, .forward = 0.05, .backward = 0.15};
  EXPECT_DOUBLE_EQ(host_cost(host, Offload::optimizer, work).waiting, 4 * 0.05) << "gradients take 0.2 s, not 0.15";
  const HostCost fetching = host_cost(host, Offload::parameters, work);
  EXPECT_DOUBLE_EQ(fetching.waiting, 4 * (0.15 + 0.05)) << "parameters: 0.2 s for a forward, and beside gradients 0.2";
  EXPECT_DOUBLE_EQ(fetching.moved, 24e9) << "4 times two parameters and a gradient";
  EXPECT_DOUBLE_EQ(fetching.bytes, 27e9);
  work.gpus = 8;
  EXPECT_DOUBLE_EQ(host_cost(host, Offload::optimizer, work).update, 2.4) << "eight GPUs share the host";
  EXPECT_DOUBLE_EQ(host_cost(host, Offload::optimizer, work).waiting, 4 * 0.05 + 3 * (0.8 - 0.25))
      << "three sums of 0.8 s, next to 0.25 s of a microbatch";
}

// arXiv 2104.07857, section 4.1: 8 FLOP and four transfers of 2 bytes per parameter and token give seq × bsz FLOP per
// byte, and four times as many bytes for the optimizer's states seq × bsz / 4. We gather once for recomputation and
// backward, which is 6 bytes, and Adam moves 30 of its 32.
TEST(Offload, IntensitiesOfZeroInfinity) {
  const double tokens = 1024, flop = 8 * tokens, peak = 70e12;
  const double parameters = flop / offload_bytes(Offload::parameters).moved(1);
  const double optimizer = flop / adam_seconds({.memory_bytes_per_second = 1}, 1, 1);
  fmt::print(
      "bandwidth for half of 70 TFLOP/s, a sequence of 1,024: parameters {:.1f} GB/s (theirs {:.1f}), optimizer "
      "{:.0f} GB/s (theirs {:.0f})\n",
      peak / parameters / 1e9, peak / tokens / 1e9, peak / optimizer / 1e9, 4 * peak / tokens / 1e9);
  EXPECT_DOUBLE_EQ(parameters / tokens, 8.0 / 6);
  EXPECT_NEAR(optimizer / (tokens / 4), 1, 0.07);
}

TEST(Offload, StatesAreWhatDeepSpeedsEstimatorsCount) {
  const Strategy strategy{.dp = 8, .zero = 3, .recompute = true};
  for (const auto& [offload, recipe] :
       {std::pair{Offload::optimizer, "deepspeed-offload"}, std::pair{Offload::parameters, "deepspeed-infinity"}}) {
    Predictor predictor(offloaded("gpt3-13b", "dgx-a100", 64, offload));
    const double parameters = static_cast<double>(predictor.task().model.parameters());
    const Rated rated = predictor.rate(strategy);
    EXPECT_DOUBLE_EQ(rated.memory.state.total_bytes(),
                     bench::recipe_bytes(bench::find_recipe(recipe), parameters, 3, 8, 0));
    EXPECT_DOUBLE_EQ(predictor.on_host(strategy).bytes,
                     bench::host_bytes(bench::find_recipe(recipe), parameters, 3, 8));
  }
}

TEST(Offload, TakesTheOptimizerOffTheGpuAndNoneChangesNothing) {
  const Strategy strategy{.dp = 8, .microbatch = 2, .zero = 2, .recompute = true};
  Task task = task_of("gpt3-13b", "dgx-a100", 64);
  const Rated plain = Predictor(task).rate(strategy);
  task.cluster.machine.host->gpu_bytes_per_second = 1;  // counts only where something is offloaded
  EXPECT_EQ(Predictor(task).rate(strategy).time.total(), plain.time.total());
  EXPECT_EQ(plain.time.host, 0);
  Predictor predictor(offloaded("gpt3-13b", "dgx-a100", 64, Offload::optimizer));
  const Rated rated = predictor.rate(strategy);
  EXPECT_EQ(rated.time.host, predictor.on_host(strategy).seconds());
  EXPECT_NEAR(rated.time.total(), plain.time.total() - plain.time.update + rated.time.update + rated.time.host, 1e-9);
  EXPECT_LT(rated.time.update, 1e-3) << "only the norm is left";
  EXPECT_DOUBLE_EQ(rated.memory.total_bytes() + plain.memory.state.gradient_bytes + plain.memory.state.optimizer_bytes,
                   plain.memory.total_bytes());
}

TEST(Offload, NoSlowerOnAFasterHost) {
  const Strategy strategy{.dp = 16, .zero = 3};
  for (const Offload offload : {Offload::optimizer, Offload::parameters})
    for (double HostMemory::*field : {&HostMemory::memory_bytes_per_second, &HostMemory::gpu_bytes_per_second}) {
      Task task = offloaded("gpt3-13b", "dgx-a100x2", 64, offload);
      double before = 1e30, first = 0;
      task.cluster.machine.host = {2e12, 1e9, 1e8};
      for (double bandwidth = 1e8; bandwidth < 1e14; bandwidth *= 3) {
        (*task.cluster.machine.host).*field = bandwidth;
        const double seconds = Predictor(task).rate(strategy).time.total();
        EXPECT_LE(seconds, before) << bandwidth;
        before = seconds;
        if (first == 0) first = seconds;
      }
      EXPECT_LT(before, first);
    }
}

TEST(Offload, RefusesWhatCannotBe) {
  const Task task = offloaded("gpt3-13b", "dgx-a100", 64, Offload::optimizer);
  EXPECT_TRUE(contains(why_not(task, {.dp = 8, .zero = 1})->sentence, "use ZeRO-2 or 3"));
  EXPECT_FALSE(why_not(task, {.dp = 8, .zero = 2}));
  EXPECT_TRUE(
      contains(why_not(offloaded("gpt3-13b", "dgx-a100", 64, Offload::parameters), {.dp = 8, .zero = 2})->sentence,
               "only ZeRO-3"));
  Task small = task;
  small.cluster.machine.host->memory_bytes = 256e9;
  Predictor predictor(small);
  const auto refusal = predictor.too_large(predictor.rate({.dp = 8, .zero = 3, .recompute = true}));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, kHostMemory);
  EXPECT_EQ(refusal->sentence, "8 GPUs need 308.5 GB of their host's 256");
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"--model gpt2-1.5b --cluster pcie-box --offload optimizer", "the machine file of pcie-box has no host"},
           {"--model gpt2-1.5b --cluster dgx-a100 --offload optimiser", "did you mean 'optimizer'?"},
           {"--model gpt2-1.5b --cluster dgx-a100 --offload optimizer --simulate 1", "the simulator has no host"},
           {"--model gpt2-1.5b --cluster dgx-a100 --offload optimizer --fp32-gradients", "leave one of them out"},
           {"--model gpt3-175b --cluster dgx-1v --memory 80GB --offload parameters",
            "no strategy can offload to its host: 8 GPUs"}}) {
    const std::string text = said("--global-batch 64 " + arguments);
    EXPECT_TRUE(contains(text, words) && contains(text, "exit 2")) << arguments << " says: " << text;
  }
}

TEST(Offload, TheProgramSaysWhatItCosts) {
  const std::string text =
      said("--model gpt3-13b --cluster dgx-a100 --global-batch 64 --memory 40GB --offload optimizer");
  for (const char* words :
       {"with offload:", "of which host", "the same without:", "more than it has", "+", "the best without offload"})
    EXPECT_TRUE(contains(text, words)) << words << " is not in " << text;
}

TEST(Offload, ItsRowsSayWhatIsOnTheHostAndAddUp) {
  const std::string path = ::testing::TempDir() + "/offloaded.json";
  said("--model gpt3-13b --cluster dgx-a100 --global-batch 64 --memory 40GB --offload parameters --json " + path);
  EXPECT_NE(read_file(path).find("\"command_line\": \"./lab plan --model gpt3-13b"), std::string::npos);
  const Json rows = Json::parse(read_file(path)).at("rows");
  int plans = 0;
  for (const Json& row : rows) {
    if (row.at("kind").get<std::string>() != "plan") continue;
    ++plans;
    EXPECT_EQ(row.at("offload").get<std::string>(), "parameters");
    EXPECT_EQ(row.at("parameter_bytes").get<double>(), 0);
    double sum = row.at("host_seconds").get<double>();
    EXPECT_GT(sum, 0);
    for (const char* part : {"compute", "recompute", "tensor", "bubble", "hop", "data", "update"})
      sum += row.at(fmt::format("{}_seconds", part)).get<double>();
    EXPECT_NEAR(sum, row.at("step_seconds").get<double>(), 1e-9);
  }
  EXPECT_GT(plans, 0);
}

// Published costs ----------------------------------------------------------------------------------------------------

// DeepSpeed's steps take longer with the optimizer on the host than the host's bandwidths explain; both hosts are two
// sockets with 8 channels of DDR4-3200. docs/use/validation.md has the seconds.
TEST(Offload, SoftwareCostsManyTimesWhatTheHostAllows) {
  const HostMemory host = *find_machine("dgx-a100", kMachines).host;
  const struct {
    const char* source;
    double parameters;
    int gpus, microbatches;
    double without, with;  // seconds of a step
    double factor;
  } rows[] = {
      {"Qwen2.5-1.5B, ZeRO-2, 2 A100 (DeepSpeed, blogs/zenflow-corebinding)", 1.54e9, 2, 1, 0.240, 1.365, 8.3},
      {"LLaMA-7B, ZeRO-2, 8 A800 (gist.github.com/chenyaofo)", 6.74e9, 8, 8, 64 / 4.19, 64 / 1.81, 34},
      {"LLaMA-7B, ZeRO-3, 8 A800 (the same)", 6.74e9, 8, 4, 64 / 4.45, 64 / 2.05, 28},
  };
  for (const auto& row : rows) {
    const double microbatch = row.without / row.microbatches;
    const double ours = host_cost(host, Offload::optimizer,
                                  {.elements = row.parameters / row.gpus,
                                   .microbatches = row.microbatches,
                                   .forward = microbatch / 3,
                                   .backward = 2 * microbatch / 3,
                                   .gpus = row.gpus})
                            .seconds();
    const double published = row.with - row.without;
    fmt::print("{}: {:+.2f} s, ours {:+.2f} s, {:.1f} times\n", row.source, published, ours, published / ours);
    EXPECT_NEAR(published / ours, row.factor, 0.05 * row.factor) << row.source;
  }
}

// arXiv 2101.06840: 10 billion parameters train on one V100 of 32 GB at 40 TFLOP/s. DeepSpeed's tutorial
// (zero-offload.md) has the run: 50 layers, 4,096 wide, 10 sequences, recomputation. The host is a DGX-2's: two Xeon
// 8168 with 6 channels of DDR4-2666, at 0.83 of 256 GB/s, and a PCIe 3 x16.
TEST(Offload, TenBillionOnOneV100) {
  Task task = task_of("gpt2-1.5b", "dgx-1v", 10);
  task.cluster.gpus = 1;
  task.cluster.machine.host = {1.5e12, 212e9, 12e9};
  task.model.layers = 50, task.model.d_model = 4096, task.model.heads = 32;
  task.model.storage = DType::f16;
  task.model.attention = AttentionKind::materialised;
  const Strategy strategy{.microbatch = 10, .zero = 2, .recompute = true};
  EXPECT_TRUE(Predictor(task).too_large(Predictor(task).rate(strategy))) << "without offloading";
  task.offload = Offload::optimizer;
  Predictor predictor(task);
  const Rated rated = predictor.rate(strategy);
  EXPECT_FALSE(predictor.too_large(rated));
  const double flop = 10 * task.model.step_flop(task.length);
  fmt::print(
      "{:.2f} billion: {:.1f} GB, {:.2f} s of which host {:.2f}; {:.1f} TFLOP/s, with recomputation {:.1f}; "
      "published 40\n",
      static_cast<double>(task.model.parameters()) / 1e9, rated.memory.total_bytes() / 1e9, rated.time.total(),
      rated.time.host, flop / rated.time.total() / 1e12, flop * 4 / 3 / rated.time.total() / 1e12);
  EXPECT_NEAR(flop / rated.time.total() / 1e12, 60, 1) << "50% more than published: docs/use/validation.md";
}

}  // namespace
}  // namespace lockstep::plan
