// Tests of products of 8-bit floats: their rate, their casts, and what stays in 16 bits.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <vector>

#include "common/support/json/document.hpp"
#include "common/support/stats/stats.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/software.hpp"

namespace lockstep::plan {
namespace {

using week25::Strategy;

Task fp8_task(const char* model, const char* cluster, const char* scaling, bool gathered) {
  Task task = task_of(model, cluster, 64);
  task.cluster.machine = task.cluster.machine.as_library();
  if (scaling) use_fp8(task, scaling, gathered);
  return task;
}

TEST(Fp8, OurOwnProducts) {  // docs/results/*/rates.jsonl: six on each card, in short runs
  for (const auto& [name, card, short_runs] :
       {std::tuple{"dgx-h100", "nvidia-h100-80gb-hbm3", 709.0 / 698}, {"dgx-h200", "nvidia-h200", 705.0 / 682}}) {
    Machine machine = find_machine(name, kMachines).as_library();
    machine.library->fp8 = true;
    std::vector<double> ratios;
    std::ifstream lines(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/results/" + card + "-2026-11-27/rates.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.value("rate", "") != "product in fp8") continue;
      const auto m = row.at("m").get<std::size_t>(), n = row.at("n").get<std::size_t>(),
                 k = row.at("k").get<std::size_t>();
      const Operation product{.flop = static_cast<double>(2 * m * n * k),
                              .bytes = static_cast<double>(2 * (m * n + m * k + n * k)),
                              .dtype = DType::bf16,
                              .matmul = true,
                              .mnk = {m, n, k}};
      ratios.push_back(machine.seconds(product) / row.at("seconds").get<double>() / short_runs);
      EXPECT_NEAR(ratios.back(), 1, 0.06) << name << ", " << line;
    }
    ASSERT_EQ(ratios.size(), 6u);
    EXPECT_NEAR(median(ratios).value, 1, 0.02) << name;
  }
}

TEST(Fp8, AProductReadsHalfAndWritesAsMuch) {
  Machine machine = find_machine("dgx-h100", kMachines).as_library();
  const LibraryPrices& prices = *machine.library;
  const double m = 64, n = 4096, k = 65536;  // its operands decide
  const Operation product{.flop = 2 * m * n * k,
                          .bytes = 2 * (m * n + m * k + n * k),
                          .dtype = DType::bf16,
                          .matmul = true,
                          .mnk = {64, 4096, 65536}};
  const double rest = prices.matmul_seconds + machine.launch;
  EXPECT_NEAR(machine.seconds(product), product.bytes / prices.memory_bytes_per_second + rest, 1e-12);
  machine.library->fp8 = true;
  EXPECT_NEAR(machine.seconds(product), (2 * m * n + m * k + n * k) / prices.memory_bytes_per_second + rest, 1e-12);
}

TEST(Fp8, CastsOfALayerByHand) {
  const Machine machine = find_machine("dgx-h100", kMachines).as_library();
  GptConfig config{.layers = 1, .heads = 16, .d_model = 1024, .vocabulary = 51200, .context = 2048};
  config.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, 8, 3584};
  const double rows = 8192, values = rows * 1024, rate = machine.memory_bytes_per_second;
  const double weights = 1024.0 * (1024 + 2 * 512 + 1024 + 3 * 3584);  // q, k and v, projection, and the MLP's three
  const auto bytes = [&](const char* scaling, bool gathered, int tp) {
    config.tensor = {0, tp, tp > 1};
    Pieces added;
    const Unfused all = casts(scaling, gathered, config);
    add_unfused(machine, all, config, rows, added);
    EXPECT_EQ(added.rebuilt, added.block.seconds) << "made again where a block is recomputed";
    const auto passes = [](const std::vector<Pass>& of) {
      return static_cast<double>(std::count_if(of.begin(), of.end(), [](const Pass& pass) { return pass.bytes > 0; }));
    };
    return std::array{(added.block.seconds - passes(all.forward) * machine.launch) * rate,
                      (added.block_back.seconds - passes(all.backward) * machine.launch) * rate};
  };
  // Inputs of qkv, projection, up, and down, which is 3.5 wide; gradients of q, k, v (2), projection, gate, up and
  // down.
  const double inputs = (3 + 3.5) * values, outputs = (2 + 1 + 2 * 3.5 + 1) * values;
  const auto expect = [](const std::array<double, 2>& is, double forward, double backward) {
    EXPECT_NEAR(is[0] / forward, 1, 1e-9);
    EXPECT_NEAR(is[1] / backward, 1, 1e-9);
  };
  expect(bytes("tensorwise", false, 1), 6 * inputs + 5 * weights, 6 * outputs + 3 * weights);
  expect(bytes("tensorwise", true, 1), 6 * inputs, 6 * outputs + 2 * weights);
  expect(bytes("rowwise", false, 1), 8 * inputs + 3 * weights, 8 * outputs + 7 * weights);
  expect(bytes("transformer-engine", false, 1), 6 * inputs, 6 * outputs);
  expect(bytes("delayed", false, 1), 4 * inputs, 4 * outputs);
  EXPECT_TRUE(contains(refusal([&] { (void)casts("rowise", false, config); }), "did you mean 'rowwise'?"));
  // Each of 4 ranks casts its part, but by rows only where its operand is not gathered before.
  config.tensor = {0, 4, true};
  EXPECT_TRUE(casts("tensorwise", false, config).narrow);
  EXPECT_FALSE(casts("rowwise", false, config).narrow);
}

TEST(Fp8, TheHeadStaysIn16Bits) {
  const Task wide = fp8_task("llama3-8b", "dgx-h100", nullptr, false),
             narrow = fp8_task("llama3-8b", "dgx-h100", "tensorwise", true);
  const auto pieces = [](const Task& task) {
    const Strategy strategy{.dp = 8, .zero = 3};
    return price_pieces(task.model, task.cluster.machine, 8192, strategy, {}, {}, {.unfused = task.unfused});
  };
  const Pieces a = pieces(wide), b = pieces(narrow);
  EXPECT_EQ(a.head.seconds, b.head.seconds);
  EXPECT_EQ(a.head_back.seconds, b.head_back.seconds);
  EXPECT_EQ(a.embed.seconds, b.embed.seconds);
  EXPECT_LT(b.block.seconds, 0.85 * a.block.seconds);
  EXPECT_GT(b.block.seconds, 0.5 * a.block.seconds) << "attention, norms and casts are not halved";
}

TEST(Fp8, SequenceParallelismGathersHalf) {
  const Task task = fp8_task("llama3-70b", "dgx-h100", "tensorwise", false);
  GptConfig config = task.model;
  config.tensor = {0, 8, true};
  const double bytes = 2.0 * 8192 * 8192;
  const auto less = [&](int parts) { return library_gather_seconds(task.cluster.machine, 8, bytes / parts); };
  Pieces exposed, hidden;
  exposed.block = {1, 0.5}, exposed.rebuilt = 1;
  hidden.block = {1, 0}, hidden.rebuilt = 1;
  add_unfused(task.cluster.machine, {{}, {}, 0, true}, config, 8192, exposed);
  add_unfused(task.cluster.machine, {{}, {}, 0, true}, config, 8192, hidden);
  EXPECT_NEAR(1 - exposed.block.seconds, 2 * (less(1) - less(2)), 1e-12);
  EXPECT_NEAR(0.5 - exposed.block.waiting, 2 * (less(1) - less(2)), 1e-12);
  EXPECT_EQ(exposed.rebuilt, exposed.block.seconds);
  EXPECT_EQ(hidden.block.seconds, 1) << "what computation hides does not get shorter";
}

TEST(Fp8, ThePlannerSaysWhatItNeeds) {
  const std::string task = "--model llama3-8b --cluster dgx-h100x1 --global-batch 16 --fast --top 1 ";
  EXPECT_TRUE(contains(said(task + "--precision fp8"), "add --prices library"));
  EXPECT_TRUE(contains(said(task + "--prices library --precision fp9"), "did you mean 'fp8'?"));
  EXPECT_TRUE(
      contains(said("--model llama3-8b --cluster dgx-a100x1 --global-batch 16 --prices library --precision fp8"),
               "has no fp8_flop_per_second"));
  EXPECT_TRUE(contains(said(task + "--prices library --precision fp8"), "exit 0"));
}

}  // namespace
}  // namespace lockstep::plan
