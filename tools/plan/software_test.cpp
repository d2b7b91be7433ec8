// Tests what published software changes in ./lab plan: fp32 gradients, recomputation that stops early, and hosts that
// issue operations one by one. Formulas are compared with the simulator's step.
#include "tools/plan/software.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

const Strategy kWays[] = {{.dp = 16},
                          {.dp = 16, .zero = 1},
                          {.dp = 4, .tp = 4, .zero = 1, .recompute = true},
                          {.dp = 2, .tp = 2, .pp = 4, .recompute = true, .sequence_parallel = true},
                          {.dp = 4, .pp = 4, .microbatch = 2, .zero = 1, .recompute = true}};

/// The predicted and the simulated step of each way; they must agree about as well as for any other plan.
std::vector<std::pair<Rated, week25::PhantomStep>> both(const Task& task) {
  std::vector<std::pair<Rated, week25::PhantomStep>> all;
  for (const Strategy& strategy : kWays) {
    const Rated rated = Predictor(task).rate(strategy);
    week25::PhantomStep step = week25::phantom_step(options_of(task, strategy), task.cluster.machine);
    fmt::print("{:.4f} s, simulated {:.4f}; {:.2f} GB, simulated {:.2f}: {}\n", rated.time.total(), step.seconds,
               rated.memory.total_bytes() / 1e9, step.peak_bytes() / 1e9, format_strategy(strategy));
    EXPECT_NEAR(rated.time.total() / step.seconds, 1, 0.15) << format_strategy(strategy);
    EXPECT_NEAR(rated.memory.total_bytes() / step.peak_bytes(), 1, 0.03) << format_strategy(strategy);
    all.emplace_back(rated, std::move(step));
  }
  return all;
}

TEST(Fp32Gradients, AreHeldSentAndAddedAsTheSimulatorDoes) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  const auto sixteen = both(task);
  task.model.fp32_gradients = true;
  const auto fp32 = both(task);
  for (std::size_t i = 0; i < sixteen.size(); ++i) {
    const auto& [before, step_before] = sixteen[i];
    const auto& [after, step_after] = fp32[i];
    EXPECT_DOUBLE_EQ(after.memory.state.gradient_bytes, 2 * before.memory.state.gradient_bytes);
    EXPECT_DOUBLE_EQ(after.memory.state.parameter_bytes, before.memory.state.parameter_bytes);
    // There are more buckets of 25 MiB in fp32, whose latencies the formula leaves out.
    const double longer = after.time.total() / before.time.total(),
                 simulated = step_after.seconds / step_before.seconds;
    EXPECT_GT(longer, 1);
    EXPECT_NEAR(longer / simulated, 1, 0.05) << format_strategy(kWays[i]);
    double sent_before = 0, sent_after = 0;
    for (const auto& level : step_before.levels) sent_before += level.all;
    for (const auto& level : step_after.levels) sent_after += level.all;
    EXPECT_GT(sent_after, 1.001 * sent_before) << format_strategy(kWays[i]);
  }
}

TEST(Fp32Gradients, AreRefusedWhereUnitsShareTheirType) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  task.model.fp32_gradients = true;
  for (const int zero : {2, 3}) {
    const auto refusal = why_not(task, {.dp = 16, .zero = zero});
    ASSERT_TRUE(refusal) << zero;
    EXPECT_TRUE(contains(refusal->sentence, "fp32 gradients"));
  }
}

TEST(Host, TakesTheSlowerOfTheTwoOrTheirSum) {
  Machine machine = find_machine("dgx-a100", kMachines).as_library(AttentionKernel::materialised);
  LibraryPrices& prices = *machine.library;
  const double host = prices.host_seconds;
  ASSERT_GT(host, 0);
  const Operation small{.name = "add", .bytes = 3e5}, large{.name = "add", .bytes = 3e9};
  const Operation scores{"attention_backward", 1e12, 1e9, DType::bf16, {}, {}, true, {2048, 2048, 128}};
  for (const auto& [operation, issued] : {std::pair{small, 1}, {large, 1}, {scores, 7}}) {
    prices.host = HostMode::ignored;
    const double gpu = machine.seconds(operation);
    prices.host = HostMode::ahead;
    EXPECT_DOUBLE_EQ(machine.seconds(operation), std::max(gpu, issued * host)) << operation.name;
    prices.host = HostMode::waits;
    EXPECT_DOUBLE_EQ(machine.seconds(operation), gpu + issued * host) << operation.name;
  }
}

// The simulator and the formulas take operations' times from one place.
TEST(Host, FormulasAndSimulatorAgree) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  task.cluster.machine = task.cluster.machine.as_library();
  const Strategy strategy{.dp = 2, .tp = 2, .pp = 4};
  double before = 0;
  for (const HostMode host : {HostMode::ignored, HostMode::ahead, HostMode::waits}) {
    task.cluster.machine.library->host = host;
    const double seconds = Predictor(task).rate(strategy).time.total();
    const double simulated = week25::phantom_step(options_of(task, strategy), task.cluster.machine).seconds;
    EXPECT_NEAR(seconds / simulated, 1, 0.05);
    EXPECT_GE(seconds, before);
    before = seconds;
  }
}

TEST(Unfused, PassesOfALayerByHand) {
  const Machine machine = find_machine("dgx-a100", kMachines).as_library();
  GptConfig config{.layers = 1, .heads = 16, .d_model = 1024, .vocabulary = 51200, .context = 2048};
  const double rows = 8192, values = rows * 1024, launch = machine.launch, rate = machine.memory_bytes_per_second;
  const auto pieces = [&](const char* software, int tp, bool sequence_parallel) {
    config.tensor = {0, tp, sequence_parallel};
    Pieces added;
    add_unfused(machine, unfused(software, config), config, rows, added);
    EXPECT_EQ(added.rebuilt, added.block.seconds);
    return std::array{added.block.seconds, added.block_back.seconds, added.head.seconds};
  };
  const auto expect = [&](const std::array<double, 3>& seconds, double forward, int passes, double backward,
                          int passes_back, double logit) {
    EXPECT_NEAR(seconds[0], forward * values / rate + passes * launch, 1e-12);
    EXPECT_NEAR(seconds[1], backward * values / rate + passes_back * launch, 1e-12);
    EXPECT_NEAR(seconds[2], logit > 0 ? logit * rows * 51200 / rate + launch : 0, 1e-12);
  };
  // A bias of 3 channels is added to a product, read and written in 2 bytes: 12. A copy: 4. GELU reads 4 channels: 8.
  expect(pieces("megatron", 1, false), 12 + 4 + 8, 3, 2 * 6 + 4 + 16 + 12 + 2 * 8, 7, 48);
  // Each of 4 tensor-parallel ranks does all of the norms and dropouts, unless it has its tokens of the sequence.
  expect(pieces("megatron", 4, false), (12 + 4 + 8) / 4.0, 3, 2 * 6 + (4 + 16 + 12) / 4.0 + 2 * 8, 7, 48 / 4.0);
  expect(pieces("megatron", 4, true), (12 + 4 + 8) / 4.0, 3, (2 * 6 + 4 + 16 + 12 + 2 * 8) / 4.0, 7, 48 / 4.0);
  expect(pieces("eager", 1, false), 8, 1, 16 + 12 + 2 * 8, 4, 0);
  expect(pieces("autocast", 1, false), 2 * (4 + 6 + 4) + 8, 7, 4 * 6 + 2 * 24 + 16 + 12, 8, 22);
  EXPECT_TRUE(contains(refusal([] { (void)unfused("megatorn", {}); }), "did you mean 'megatron'?"));
  // Llama, an MLP of 3.5 d_model, and two heads for each k and v: q and k are 1.5 values, copies write 2 and read 1.
  config.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, 8, 3584};
  expect(pieces("torchtitan", 1, false), 2 * 32 + 16 * 1.5 + 2 * 3 + 4 * 3.5, 5,
         2 * 90 + 16 * 1.5 + 2 * 3 + 8 * 3.5 + 12 + 6, 7, 32);
  expect(pieces("torchtitan-compiled", 1, false), 0, 0, 0, 0, 32);
  config.architecture.kv_heads = 0;  // as many as heads: no copies
  expect(pieces("fms", 1, false), 2 * 32 + 32 * 2 + 4 * 3.5, 4, 2 * 90 + 32 * 2 + 8 * 3.5 + 12 + 6, 6, 8);
}

TEST(Unfused, EveryBlockMakesItsPassesAgainWhenItIsRecomputed) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  task.cluster.machine = task.cluster.machine.as_library();
  const Strategy strategy{.dp = 16, .recompute = true};
  const auto stage = [&](const char* software) {
    Pricer pricer(task.model, task.cluster.machine, task.length, {.unfused = unfused(software, task.model)});
    return pricer.work(strategy, 4).stages[0];
  };
  const week25::StageWork fused = stage(""), eager = stage("eager");
  const double pass = 1024.0 * 1024 / task.cluster.machine.memory_bytes_per_second,
               launch = task.cluster.machine.launch;
  EXPECT_NEAR(eager.forward - fused.forward, 24 * (8 * pass + launch), 1e-9);
  EXPECT_NEAR(eager.backward - fused.backward, 24 * ((44 + 8) * pass + 5 * launch), 1e-9);
}

TEST(Slowest, OfNormallyDistributedCards) {
  // Expected largest of n standard normal numbers (Harter 1961): 1.4236 of 8, 1.8675 of 20, 2.5076 of 100. The fastest
  // and the slowest card that is no outlier differ by 8%, 2 × 2.698 deviations.
  EXPECT_NEAR(slowest_of(1), 1, 1e-6);
  for (const auto& [gpus, largest] : {std::pair{8, 1.4236}, {20, 1.8675}, {100, 2.5076}})
    EXPECT_NEAR(slowest_of(gpus), 1 + 0.08 / 5.396 * largest, 3e-4) << gpus;
  const Machine one = find_machine("dgx-h100", kMachines).as_library();
  Machine many = one;
  wait_for_slowest(many, 64);
  const Operation product{
      .flop = 2e12, .bytes = 6e6, .dtype = DType::bf16, .matmul = true, .mnk = {10000, 10000, 10000}};
  const double rest = one.library->matmul_seconds + one.launch;
  EXPECT_NEAR((many.seconds(product) - rest) / (one.seconds(product) - rest), slowest_of(64), 1e-9);
  const Operation copy{.name = "copy", .bytes = 1e9};
  EXPECT_EQ(many.seconds(copy), one.seconds(copy)) << "the power limit does not slow memory";
}

TEST(Unfused, AnOptimizerThatIsNotFusedMovesMore) {
  EXPECT_EQ(update_bytes("megatron"), 0);  // Apex
  EXPECT_EQ(update_bytes(""), 0);
  EXPECT_EQ(update_bytes("torchtitan-compiled"), 52);
}

/// The values that a block's backward reads, except its input: after a forward and, from nothing, after rebuild_block.
std::vector<std::vector<float>> rebuilt(Rank me, const Architecture& architecture, bool sequence_parallel) {
  GptConfig config{.layers = 2, .heads = 4, .d_model = 32, .vocabulary = 64, .context = 8};
  config.architecture = architecture;
  config.tensor = {me.rank(), me.size(), sequence_parallel};
  Gpt gpt(me, config, /*seed=*/1);
  if (me.size() > 1) gpt.use(week25::make_layers(week23::make_tensor_parallel(me), config, false));
  Activations saved = gpt.allocate_activations(me, 2, 8);
  BlockActivations& block = saved.blocks[0];
  const std::vector<Slice> all{block.norm1, block.qkv, block.attention, block.residual,
                               block.norm2, block.up,  block.gelu};
  random_normal(me, block.input, {.seed = 2}, 0, 1);
  gpt.forward_block(me, 0, saved);
  std::vector<std::vector<float>> values;
  for (const Slice& slice : all) values.push_back(to_host(me, slice));
  for (const Slice& slice : all) fill(me, slice, 0);
  fill(me, saved.blocks[1].input, 7);
  gpt.rebuild_block(me, 0, saved);
  for (const Slice& slice : all) values.push_back(to_host(me, slice));
  values.push_back(to_host(me, saved.blocks[1].input));
  return values;
}

TEST(StopsEarly, RebuildsAllThatABackwardReadsAndNoMore) {
  Architecture llama;
  llama.norm = NormKind::rms_norm, llama.positions = PositionKind::rotary, llama.mlp = MlpKind::swiglu;
  llama.biases = false;
  for (const Architecture& architecture : {Architecture(), llama})
    for (const int ranks : {1, 2})
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && ranks == 1) continue;
        RunOptions options;
        options.ranks = ranks;
        std::vector<std::vector<std::vector<float>>> of(static_cast<std::size_t>(ranks));
        run(options, [&](Rank me) {
          of[static_cast<std::size_t>(me.rank())] = rebuilt(me, architecture, sequence_parallel);
        }).check();
        for (const auto& values : of) {
          const std::size_t slices = values.size() / 2;
          for (std::size_t i = 0; i < slices; ++i) EXPECT_EQ(values[i], values[slices + i]) << ranks << ", slice " << i;
          EXPECT_EQ(values.back(), std::vector<float>(values.back().size(), 7)) << "the next block's input is written";
        }
      }
}

TEST(StopsEarly, SavesTheLastProductInFormulasAndSimulator) {
  Task task = task_of("gpt2-355m", "dgx-a100-hdrx2", 64);
  const auto whole = both(task);
  task.stops_early = true;
  const auto early = both(task);
  for (std::size_t i = 0; i < early.size(); ++i) {
    const double saved = whole[i].first.time.recomputed - early[i].first.time.recomputed;
    if (!kWays[i].recompute) {
      EXPECT_EQ(early[i].second.seconds, whole[i].second.seconds);
      continue;
    }
    // One of the block's four products, with 4 of their 12 C², and its sum over tp.
    EXPECT_GT(saved, 0.2 * whole[i].first.time.recomputed);
    EXPECT_LT(saved, 0.6 * whole[i].first.time.recomputed);
    EXPECT_LT(early[i].second.seconds, whole[i].second.seconds - 0.8 * saved);
  }
}

TEST(Unfused, MegatronsMixtureMovesRowsOncePerExpert) {
  const Machine machine = find_machine("dgx-h100", kMachines).as_library();
  GptConfig config{.layers = 1, .heads = 48, .d_model = 6144, .vocabulary = 32000, .context = 4096};
  config.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, 8, 2048};
  config.architecture.experts = 64, config.architecture.top_k = 8;
  config.tensor = {0, 4, true};
  Pieces added;
  add_unfused(machine, unfused("megatron-core", config), config, 4096, added);
  const double rows = 4096 / 4 * 8, rate = machine.library->memory_bytes_per_second;
  EXPECT_NEAR(added.block.seconds - machine.launch, 8 * rows * 6144 / rate, 1e-12);
  EXPECT_NEAR(added.block_back.seconds - machine.launch, 14 * rows * 6144 / rate, 1e-12);
  config.architecture.experts = 0;
  EXPECT_TRUE(contains(refusal([&] { (void)unfused("megatron-core", config); }), "a mixture's"));
}

}  // namespace
}  // namespace lockstep::plan
