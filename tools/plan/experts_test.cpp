// Tests of mixtures of experts in ./lab plan: prices of their pieces, ranks that hold them, and refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/run.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/train/expert_layers.hpp"

namespace lockstep::plan {
namespace {

/// Sends equally many bytes from each rank to each, started at once.
double simulated_all_to_all(const Machine& machine, int ranks, std::size_t bytes) {
  const Outcome outcome = run({.ranks = ranks, .machine = machine, .phantom = true}, Program([&](Rank me) -> Values {
                                const std::size_t part = bytes / static_cast<std::size_t>(ranks);
                                const Slice from = me.allocate(bytes, DType::i8, Category::buffer);
                                const Slice to = me.allocate(bytes, DType::i8, Category::buffer);
                                std::vector<Transfer> all;
                                for (int apart = 1; apart < ranks; ++apart) {
                                  const int next = (me.rank() + apart) % ranks,
                                            before = (me.rank() + ranks - apart) % ranks;
                                  all.push_back(send(next, from.cut(static_cast<std::size_t>(next) * part, part)));
                                  all.push_back(receive(before, to.cut(static_cast<std::size_t>(before) * part, part)));
                                }
                                me.wait(me.start(all));
                                return {me.now()};
                              }))
                              .check();
  double end = 0;
  for (const Values& values : outcome.values) end = std::max(end, values[0]);
  return end;
}

TEST(Experts, AllToAllsTakeWhatTheSimulatorSays) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  for (const auto& [name, ranks] : {std::pair{"dgx-h100-ndr", 8},
                                    {"dgx-h100-ndr", 16},
                                    {"dgx-a100-10gbe", 16},
                                    {"pcie-box", 4},
                                    {"pcie-box-100gbe", 8}}) {
    const Machine machine = find_machine(name, kMachines);
    const double ratio = all_to_all_seconds(machine, ranks, kBytes) / simulated_all_to_all(machine, ranks, kBytes);
    const bool inside = ranks <= machine.levels.front().ranks;  // elsewhere messages also wait for each other's ports
    EXPECT_TRUE(ratio > (inside ? 0.99 : 0.85) && ratio < 1.01) << name << ", " << ranks << " ranks: " << ratio;
  }
  EXPECT_EQ(all_to_all_seconds(find_machine("dgx-h100", kMachines), 1, kBytes), 0);
}

Pieces pieces_of(const GptConfig& model, const week25::Strategy& strategy, const PriceOptions& options = {}) {
  return price_pieces(model, find_machine("dgx-h100-ndr", kMachines), 4096, strategy, {}, {}, options);
}

TEST(Experts, OneExpertIsAnMlpWithARouter) {
  GptConfig dense = gpt_preset("llama3-8b"), mixture = dense;
  dense.storage = mixture.storage = DType::bf16;
  mixture.architecture.experts = 1;
  const Pieces plain = pieces_of(dense, {}), routed = pieces_of(mixture, {});
  const double row_bytes = 4096 * 2.0 * 4096, pass = row_bytes / 3.35e12;
  EXPECT_NEAR((routed.block.seconds - plain.block.seconds) / pass, 5, 0.5)
      << "rows are read and written on their way there and back, and read by the router";
  EXPECT_NEAR((routed.block_back.seconds - plain.block_back.seconds) / pass, 7, 0.7)
      << "also by the gradients of the router and of the slots' weights";
  EXPECT_EQ(routed.expert_parameters + routed.block_parameters, plain.block_parameters + 4096);
  EXPECT_EQ(routed.block_bytes - plain.block_bytes, 2 * row_bytes) << "an expert's own input and output";
}

/// Seconds of a block's forward and backward with the layers of 23.7, in the simulator: of the last rank.
Cost simulated_block(const Machine& machine, GptConfig config, int ranks, std::size_t tokens) {
  const Outcome outcome = run({.ranks = ranks, .machine = machine, .phantom = true}, Program([&](Rank me) -> Values {
                                GptConfig own = config;
                                own.expert_rank = me.rank(), own.expert_ranks = me.size();
                                Gpt gpt(me, own, 1);
                                gpt.use(train::even_mixture_code().layers(me, own));
                                Activations saved = gpt.allocate_activations(me, 1, tokens);
                                const double begin = me.now();
                                gpt.forward_block(me, 0, saved);
                                const double between = me.now();
                                gpt.backward_block(me, 0, saved, {});
                                return {between - begin, me.now() - between};
                              }))
                              .check();
  Cost both;  // forward; backward
  for (const Values& values : outcome.values)
    both.seconds = std::max(both.seconds, values[0]), both.waiting = std::max(both.waiting, values[1]);
  return both;
}

/// Seconds of a product of m × k and k × n.
double product_seconds(const Machine& machine, std::size_t m, std::size_t n, std::size_t k) {
  DryRun dry_run(machine);
  Rank me = dry_run.rank();
  const auto part = [&](std::size_t rows, std::size_t columns) {
    return matrix(me.allocate(rows * columns, DType::f32, Category::buffer), rows, columns);
  };
  matmul(me, part(m, n), part(m, k), part(k, n));
  return dry_run.seconds();
}

/// 23.7's answer sums each token's slots by a product, and its backward has two. Thousands of launches are not what the
/// planner prices: it has a pass over all rows.
TEST(Experts, TakeAsLongAsThoseOf23_7InTheSimulator) {
  constexpr std::size_t kTokens = 2048, kChannels = 2048, kSlots = 2;
  GptConfig model{.layers = 1, .heads = 16, .d_model = kChannels, .vocabulary = 256, .context = kTokens};
  model.architecture.experts = 16, model.architecture.top_k = kSlots;
  for (const auto& [name, ranks] :
       {std::pair{"dgx-h100", 8}, {"dgx-a100-hdr", 16}, {"dgx-a100-10gbe", 16}, {"pcie-box", 2}}) {
    const Machine machine = find_machine(name, kMachines);
    const bool ports = machine.levels.back().shared && machine.levels.size() > 1;  // of a node: who waits, differs
    const Cost simulated = simulated_block(machine, model, ranks, kTokens);
    const double sum = product_seconds(machine, 1, kChannels, kSlots);
    const double both = product_seconds(machine, kSlots, kChannels, 1) + product_seconds(machine, 1, kSlots, kChannels);
    const Pieces pieces = price_pieces(model, machine, kTokens, {.dp = ranks, .ep = ranks}, {}, {}, {});
    const double forward = pieces.block.seconds / (simulated.seconds - kTokens * sum);
    const double backward = pieces.block_back.seconds / (simulated.waiting - kTokens * both);
    fmt::print("{}, {} ranks: forward {:+.1f}%, backward {:+.1f}%\n", name, ranks, 100 * (forward - 1),
               100 * (backward - 1));
    EXPECT_NEAR(forward, 1, ports ? 0.12 : 0.04) << name;
    EXPECT_NEAR(backward, 1, ports ? 0.12 : 0.04) << name;
  }
}

TEST(Experts, MoreRowsAndMoreRanksCostMore) {
  GptConfig model = gpt_preset("mixtral-8x7b");
  model.storage = DType::bf16;
  const Pieces alone = pieces_of(model, {.dp = 16}), shared = pieces_of(model, {.dp = 16, .ep = 8});
  EXPECT_EQ(alone.expert_parameters, 8 * shared.expert_parameters);
  EXPECT_EQ(alone.block.waiting, 0);
  const double sent = 2 * all_to_all_seconds(find_machine("dgx-h100-ndr", kMachines), 8, 2 * 4096 * 2.0 * 4096);
  EXPECT_DOUBLE_EQ(shared.block.waiting, sent);
  EXPECT_DOUBLE_EQ(shared.block_back.waiting, sent);
  PriceOptions uneven;
  uneven.imbalance = 1.5;
  const Pieces busiest = pieces_of(model, {.dp = 16, .ep = 8}, uneven);
  EXPECT_NEAR(busiest.block.waiting / sent, 1.5, 0.02);
  EXPECT_GT(busiest.block.seconds, 1.25 * shared.block.seconds) << "experts are most of a block";
  EXPECT_GT(busiest.block_bytes, shared.block_bytes);
  const Pieces quarter = pieces_of(model, {.dp = 4, .tp = 4, .sequence_parallel = true, .ep = 8});
  EXPECT_EQ(quarter.expert_parameters, shared.expert_parameters) << "no expert is divided";
}

TEST(Experts, AreHeldByFewerRanks) {
  Task task = task_of("mixtral-8x7b", "dgx-h100x8", 256);
  task.length = 4096;
  Predictor predictor(task);
  const double experts = 32.0 * 8 * static_cast<double>(task.model.expert_parameters());
  const double others = static_cast<double>(task.model.parameters()) - experts;
  for (const int ep : {1, 2, 8}) {
    const week22::ModelState plain = predictor.rate({.dp = 64, .ep = ep}).memory.state;
    EXPECT_DOUBLE_EQ(plain.parameter_bytes, 2 * (others + experts / ep)) << ep;
    EXPECT_DOUBLE_EQ(plain.optimizer_bytes, 12 * (others + experts / ep)) << ep;
    const week22::ModelState sharded = predictor.rate({.dp = 64, .zero = 1, .ep = ep}).memory.state;
    EXPECT_DOUBLE_EQ(sharded.gradient_bytes, 2 * (others + experts / ep)) << ep;
    EXPECT_DOUBLE_EQ(sharded.optimizer_bytes, 12 * (others + experts) / 64) << "ep " << ep << " · dp / ep is dp";
    const week22::ModelState all = predictor.rate({.dp = 64, .zero = 3, .ep = ep}).memory.state;
    EXPECT_NEAR(all.total_bytes() / (16 * (others + experts) / 64), 1, 1e-12) << ep;
  }
  const auto data = [&](int ep) { return predictor.rate({.dp = 64, .zero = 1, .ep = ep}).time.data; };
  EXPECT_GT(data(1), data(8)) << "gradients of fewer experts are summed, over fewer ranks";
  task.model.fp32_gradients = true;
  EXPECT_DOUBLE_EQ(Predictor(task).rate({.dp = 64, .ep = 8}).memory.state.gradient_bytes, 4 * (others + experts / 8));
}

TEST(Experts, WhatCannotBeIsRefused) {
  const Task task = task_of("mixtral-8x7b", "dgx-h100x8", 256), dense = task_of("llama3-8b", "dgx-h100x8", 256);
  const auto why = [](const Task& asked, const week25::Strategy& strategy) {
    const auto refusal = why_not(asked, strategy);
    return refusal ? refusal->reason : std::string();
  };
  EXPECT_EQ(why(task, {.dp = 64, .ep = 8}), "");
  EXPECT_EQ(why(task, {.dp = 8, .tp = 8, .sequence_parallel = true, .ep = 8}), "");
  EXPECT_TRUE(contains(why(task, {.dp = 64, .ep = 16}), "ep does not divide"));
  EXPECT_TRUE(contains(why(task, {.dp = 4, .pp = 16, .ep = 8}), "ep does not divide"));
  EXPECT_TRUE(contains(why(dense, {.dp = 64, .ep = 8}), "ep does not divide"));
  EXPECT_TRUE(contains(why(task, {.dp = 8, .tp = 8, .ep = 8}), "tensor parallelism alone"));
  EXPECT_TRUE(contains(why(task, {.dp = 32, .pp = 2, .schedule = "zb-h1"}), "zero bubble"));
  for (const week25::Strategy& strategy : strategies(dense)) ASSERT_EQ(strategy.ep, 1);
}

TEST(Experts, TheProgramPlansThem) {
  const std::string task = "--model mixtral-8x7b --cluster dgx-h100x8 --global-batch 256 --sequence 4096 ";
  const std::string plans = said(task + "--top 3 --explain dp=64,ep=8");
  EXPECT_TRUE(contains(plans, "46.7 billion parameters, 12.88 billion of which a token meets")) << plans;
  EXPECT_TRUE(contains(plans, "none is dropped")) << plans;
  EXPECT_TRUE(contains(plans, "experts' all-to-alls")) << plans;
  EXPECT_TRUE(contains(plans, "exit 0")) << plans;
  EXPECT_TRUE(contains(said(task + "--top 3 --imbalance 1.3"), "up to 1.3 times"));
  EXPECT_TRUE(contains(said(task + "--imbalance 9"), "from 1 to the number of experts"));
  EXPECT_TRUE(contains(said(task + "--simulate 1"), "planned by formula"));
  EXPECT_TRUE(contains(said(task + "--offload optimizer"), "planned by formula"));
}

}  // namespace
}  // namespace lockstep::plan
