// Tests of the prices that ./lab plan adds up: a block on a dry run as in the simulator, and transfers on shared ports.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/run.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

/// Forward and backward of one block of a model that `ranks` share: seconds from begin to end.
double block_seconds(Rank me, GptConfig config, bool sequence_parallel) {
  config.tensor = {me.rank(), me.size(), sequence_parallel};
  Gpt gpt(me, config, 1);
  const week23::TensorParallel tp = week23::make_tensor_parallel(me);
  gpt.use(sequence_parallel ? week23::make_sequence_layers(tp, config.vocabulary)
                            : week23::make_tensor_layers(tp, config.vocabulary));
  Activations saved = gpt.allocate_activations(me, 2, config.context);
  const double begin = me.now();
  gpt.forward_block(me, 0, saved);
  gpt.backward_block(me, 0, saved, {});
  return me.now() - begin;
}

TEST(DryRun, TakesAsLongAsInTheSimulator) {
  const Machine machine = find_machine("dgx-a100", kMachines);
  const GptConfig config{.layers = 1, .heads = 16, .d_model = 2048, .vocabulary = 50257, .context = 1024};
  for (const int ranks : {2, 4, 8})
    for (const bool sequence_parallel : {false, true}) {
      RunOptions options{.ranks = ranks, .machine = machine, .phantom = true, .check_races = false};
      const Outcome outcome =
          run(options, Program([&](Rank me) { return Values{block_seconds(me, config, sequence_parallel)}; }));
      outcome.check();
      DryRun dry_run(machine, {.ranks = ranks, .alpha = machine.alpha(0), .beta = machine.beta(0)});
      const double dry = block_seconds(dry_run.rank(), config, sequence_parallel);
      EXPECT_NEAR(dry / outcome.values[0][0], 1,
                  2e-3)  // ranks begin additions beside main at slightly different moments
          << ranks << " ranks" << (sequence_parallel ? ", sequence parallelism" : "");
    }
}

TEST(DryRun, CountsWhatLives) {
  DryRun dry_run(Machine::uniform(1e-6, 1e-9, 1e-10));
  Rank me = dry_run.rank();
  Slice kept = me.allocate(10, DType::f32, Category::buffer);
  { Slice scratch = me.allocate(100, DType::bf16, Category::buffer); }
  EXPECT_EQ(dry_run.live_bytes(), 40u);
  EXPECT_EQ(dry_run.peak_bytes(), 240u);
  dry_run.forget_peak();
  EXPECT_EQ(dry_run.peak_bytes(), 40u);
}

TEST(DryRun, HoldsWhatWasNotWaitedFor) {
  DryRun dry_run(Machine::uniform(1e-6, 1e-9, 1e-10));
  Rank me = dry_run.rank({.ranks = 2, .rank = 1});
  Rank comm = me.stream("comm");
  const Ticket sent = me.start({send(0, me.allocate(10, DType::f32, Category::buffer))});
  const Ticket run = me.run(comm, [kept = me.allocate(5, DType::f32, Category::gradient)](Rank queue) {
    queue.allocate(3, DType::f32, Category::gradient);
  });
  EXPECT_EQ(dry_run.live_bytes(), 60u);
  me.wait(run);
  EXPECT_EQ(dry_run.live_bytes(), 40u);
  me.wait(sent);
  EXPECT_EQ(dry_run.live_bytes(), 0u);
  EXPECT_EQ(ledger_of(me).memory.peak_of(Category::gradient), 32u) << "main's and the queue's";
}

TEST(Prices, ASharedPortIsDivided) {
  // Four V100 behind one EDR port each way, in dgx-1v-edr one port for a node: with tp 2 two rings go through it.
  const Cluster cluster = find_cluster("dgx-1v-edrx4", kMachines);
  const week25::MeshShape one{.dp = cluster.gpus, .tp = 1, .pp = 1}, two{.dp = cluster.gpus / 2, .tp = 2, .pp = 1};
  const double alone = ring_prices(cluster.machine, one, week25::Axis::dp).beta;
  EXPECT_DOUBLE_EQ(ring_prices(cluster.machine, two, week25::Axis::dp).beta, 2 * alone);
  EXPECT_LT(ring_prices(cluster.machine, two, week25::Axis::tp).beta, alone) << "inside the node";
}

TEST(Prices, OnlyHopsThatCrossNodesAreLong) {
  const Cluster cluster = find_cluster("dgx-a100x2", kMachines);
  EXPECT_EQ(hop_levels(cluster.machine, {.dp = 1, .tp = 4, .pp = 4}), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(hop_levels(cluster.machine, {.dp = 1, .tp = 8, .pp = 2}), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace lockstep::plan
