// Tests of the prices that ./lab plan adds up: a block on a dry run as in the simulator, and transfers on shared ports.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/backends/sim/symmetry.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/train/phantom_step.hpp"

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
                  2e-3)  // ranks begin additions that overlap main at slightly different moments
          << ranks << " ranks" << (sequence_parallel ? ", sequence parallelism" : "");
    }
}

/// Main multiplies `rows` × 2,048 by 2,048 × 2,048, `products` times, during a ring's all-gather: when main's products
/// end, and the gather's seconds.
Values products_beside_a_gather(Rank me, int products, std::size_t rows = 2048) {
  const Rank side = me.stream("side");
  const Slice all = me.allocate(std::size_t{32} << 20, DType::bf16, Category::buffer);
  const std::size_t d = 2048;
  const Slice a = me.allocate(rows * d, DType::bf16, Category::buffer);
  const Slice b = me.allocate(d * d, DType::bf16, Category::buffer);
  const Slice c = me.allocate(rows * d, DType::bf16, Category::buffer);
  week21::ring_all_gather(me, all);  // all ranks begin together
  const double begin = me.now();
  double seconds = 0;
  const Ticket ticket = me.run(side, [&seconds, all](Rank queue) {
    const double before = queue.now();
    {
      Scope scope = queue.region("all_gather", all.bytes());
      week21::ring_all_gather(queue, all);
    }
    seconds = queue.now() - before;
  });
  for (int i = 0; i < products; ++i) matmul(me, {c, rows, d}, {a, rows, d}, {b, d, d});
  const double end = me.now();
  me.wait(ticket);
  return {end - begin, seconds};
}

/// This rank and seven symmetric peers in one node, whose collectives have the library's price.
Rank eight_symmetric(Rank me, const Machine& machine) {
  return symmetric_group(me, 8, 0, 1, [&machine](double bytes, double sent) {
    return library_collective_seconds(machine, 8, bytes, sent);
  });
}

TEST(DryRun, ALibrarysCollectiveHoldsMultiprocessors) {
  const Machine machine = find_machine("dgx-a100", kMachines).as_library();
  const double share = library_share(machine, 0);
  EXPECT_DOUBLE_EQ(share, 24.0 / 108);
  Machine free = machine;
  free.library->multiprocessors = 0;
  using Play = std::function<Values(Rank)>;
  const auto simulated = [](const Machine& on, const Play& play) {
    const RunOptions options{.ranks = 8, .machine = on, .phantom = true, .check_races = false};
    return run(options, Program(play)).check().values[0];
  };
  const auto symmetric = [](const Machine& on, const Play& play) {
    const RunOptions options{.ranks = 1, .machine = on, .phantom = true, .check_races = false};
    return run(options, Program([&](Rank me) { return play(eight_symmetric(me, on)); })).check().values[0];
  };
  const auto dry = [](const Machine& on, const Play& play) {
    return play(DryRun(on, {.ranks = 8, .alpha = on.alpha(0), .beta = on.beta(0)}).rank());
  };
  // One product that ends before the gather, ten, and single ones that take about as long as the gather.
  bool outlast = false;
  for (const auto& [products, rows] :
       {std::pair{1, 2048}, {10, 2048}, {1, 5120}, {1, 6144}, {1, 7168}, {1, 8192}, {1, 20480}}) {
    const Play play = [products = products, rows = rows](Rank me) {
      return products_beside_a_gather(me, products, static_cast<std::size_t>(rows));
    };
    const double work = dry(free, play)[0];
    for (const Values& values : {simulated(machine, play), symmetric(machine, play), dry(machine, play)}) {
      const double gather = values[1];
      EXPECT_GT(gather, 250e-6) << "64 MiB at 235 GB/s, or by the curve";
      EXPECT_NEAR(values[0], std::min(work / (1 - share), work + share * gather), 1e-9) << products << ", " << rows;
      outlast = outlast || (work < gather && gather < work / (1 - share));
    }
    EXPECT_NEAR(simulated(free, play)[0], work, 1e-12) << "nothing is held where that is unknown";
  }
  EXPECT_TRUE(outlast) << "no gather ended while a product made up for what it had lost";
}

TEST(DryRun, ALibrarysCollectiveHasOnePrice) {
  const Machine machine = find_machine("dgx-a100", kMachines).as_library();
  for (const bool all_reduce : {false, true})
    for (const std::size_t bytes : {std::size_t{1} << 16, std::size_t{1} << 28}) {
      const auto seconds = [&](Rank group) {
        const Slice data = group.allocate(bytes / 2, DType::bf16, Category::buffer);
        const double begin = group.now();
        if (all_reduce) {
          week21::ring_all_reduce(group, data);
        } else {
          Scope scope = group.region("all_gather", bytes);
          week21::ring_all_gather(group, data);
        }
        return group.now() - begin;
      };
      const RunOptions options{.ranks = 1, .machine = machine, .phantom = true, .check_races = false};
      const Outcome played =
          run(options, Program([&](Rank me) { return Values{seconds(eight_symmetric(me, machine))}; }));
      const double expected = all_reduce ? library_all_reduce_seconds(machine, 8, static_cast<double>(bytes))
                                         : library_gather_seconds(machine, 8, static_cast<double>(bytes));
      DryRun dry_run(machine, {.ranks = 8, .alpha = machine.alpha(0), .beta = machine.beta(0)});
      EXPECT_NEAR(seconds(dry_run.rank()) / expected, 1, 1e-9);
      EXPECT_NEAR(played.check().values[0][0] / expected, 1, 1e-9) << bytes << " bytes";
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

// arXiv 2205.05198, section 4.2.3: with v chunks the first stage holds p (1 + (p − 1)/(pv)) microbatches.
TEST(Prices, ChunksThatShareMemoryHoldWhatIsPublished) {
  Task task = preset_task("gpt3-175b", "dgx-a100x8", 64, kMachines);
  for (const int v : {2, 3, 6}) {
    const week25::Strategy strategy{
        .tp = 8, .pp = 8, .schedule = "interleaved", .chunks = v, .sequence_parallel = true};
    const auto first_stage = [&](bool one_pool) {
      task.one_pool = one_pool;
      Predictor predictor(task);
      const week25::Workload work = predictor.pricer().work(strategy, 64);
      double most = 0;  // in flight, of the fullest stage, whichever it is
      for (const week25::StageWork& stage : work.stages)
        most =
            std::max(most, (predictor.rate(strategy).memory.activation_bytes - stage.working_bytes) / stage.kept_bytes);
      return most;
    };
    const double p = 8, published = p * (1 + (p - 1) / (p * v));
    EXPECT_NEAR(first_stage(true) / published, 1, 0.05) << v << " chunks; stages differ by embedding and head";
    EXPECT_GT(first_stage(false), first_stage(true)) << "chunks that keep memory of their own, as the labs' do";
  }
}

/// By formula, and as the simulator plays it.
struct Both {
  double formula = 0, played = 0;
};
Both seconds_of(const Task& task, const week25::Strategy& strategy) {
  return {Predictor(task).rate(strategy).time.total(),
          week25::phantom_step(options_of(task, strategy), task.cluster.machine).seconds};
}

TEST(Prices, WhatAnOverlapSavesIsTheSimulators) {
  struct Row {
    const char *model, *cluster;
    week25::Strategy strategy;
    bool scatter, gather;
    double least;  // of a step, is saved
  };
  for (const Row& row :
       {Row{"gpt2-355m", "dgx-a100-hdrx2", {.dp = 16, .microbatch = 4, .zero = 1}, false, true, 0.05},
        Row{"gpt2-355m", "dgx-a100-hdrx2", {.dp = 16, .microbatch = 4, .zero = 2}, false, true, 0.05},
        Row{"gpt2-355m", "dgx-h100-100gbex2", {.dp = 4, .pp = 4, .microbatch = 2, .zero = 1}, false, true, 0.005},
        Row{"gpt3-13b", "dgx-a100-hdrx2", {.dp = 4, .tp = 2, .pp = 2, .zero = 1}, false, true, 0.005},
        Row{"gpt2-1.5b",
            "dgx-a100-hdrx2",
            {.dp = 4, .pp = 4, .microbatch = 2, .schedule = "interleaved", .chunks = 3, .zero = 1},
            false,
            true,
            0.005},
        Row{"gpt3-13b", "dgx-a100x1", {.tp = 8, .zero = 0, .sequence_parallel = true}, true, false, 0.01},
        Row{"gpt3-13b", "dgx-h100x1", {.tp = 4, .pp = 2, .zero = 0, .sequence_parallel = true}, true, false, 0.01}}) {
    Task task = task_of(row.model, row.cluster, 64);
    const Both before = seconds_of(task, row.strategy);
    task.overlap_scatter = row.scatter;
    task.overlap_gather = row.gather;
    const Both behind = seconds_of(task, row.strategy);
    const std::string what = fmt::format("{} on {}: {}", row.model, row.cluster, format_strategy(row.strategy));
    const double saved = before.formula - behind.formula, played = before.played - behind.played;
    fmt::print("{}: {:.2f} -> {:.2f}%\n", what, 100 * saved / before.played, 100 * played / before.played);
    EXPECT_NEAR(behind.formula / behind.played, before.formula / before.played, 0.03) << what;
    EXPECT_GT(played, row.least * before.played) << what;
    EXPECT_NEAR(saved / before.played, played / before.played, 0.015) << what;
  }
}

/// A collective's kernel holds multiprocessors of the GPU whose work hides it: 16 of 108 or 132 across nodes, in
/// one 24.
TEST(Prices, WhatCollectivesHoldIsTheSimulators) {
  struct Row {
    const char* cluster;
    week25::Strategy strategy;
    double least;  // of a step, is added
    int group = 0;
  };
  for (const Row& row :
       {Row{"dgx-h100-ndrx2", {.dp = 16, .microbatch = 4, .zero = 3}, 0.02},
        Row{"dgx-h100-ndrx2", {.dp = 16, .microbatch = 4, .zero = 2}, 0.005},
        Row{"dgx-a100-hdrx2", {.dp = 16, .microbatch = 2, .zero = 1}, 0.005},
        Row{"dgx-a100-hdrx2", {.dp = 16, .microbatch = 2, .zero = 0}, 0.01},
        Row{"dgx-a100x1", {.tp = 8, .zero = 0}, 0.01}, Row{"dgx-a100-hdrx2", {.dp = 4, .tp = 4, .zero = 1}, 0.01},
        Row{"dgx-a100-hdrx2", {.dp = 16, .microbatch = 4, .zero = 3}, 0.02, 8}}) {
    Task task = task_of("gpt3-13b", row.cluster, 64);
    task.shard_group = row.group;
    task.cluster.machine = task.cluster.machine.as_library();
    const Both held = seconds_of(task, row.strategy);
    task.cluster.machine.library->multiprocessors = 0;  // unknown: nothing is held
    const Both free = seconds_of(task, row.strategy);
    const std::string what = fmt::format("{}: {}", row.cluster, format_strategy(row.strategy));
    const double added = held.formula / free.formula - 1, played = held.played / free.played - 1;
    fmt::print("{}: {:.2f}%, simulated {:.2f}%\n", what, 100 * added, 100 * played);
    EXPECT_GT(played, row.least) << what;
    EXPECT_NEAR(added / played, 1, 0.1) << what;
  }
}

// Korthikanti et al., arXiv 2205.05198: selective recomputation gives most of the memory back for little time.
TEST(Prices, SelectiveRecomputationIsTheSimulators) {
  Task task = preset_task("gpt2-355m", "dgx-a100x1", 32, kMachines);
  const week25::Strategy any{.dp = 2, .tp = 4, .microbatch = 4, .sequence_parallel = true};
  EXPECT_TRUE(contains(why_not(task,
                               [=] {
                                 auto s = any;
                                 s.selective = true;
                                 return s;
                               }())
                           ->sentence,
                       "does not keep"));
  task.model.attention = AttentionKind::materialised;
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2}) {
      double seconds[3], bytes[3];
      for (const int kind : {0, 1, 2}) {  // none, selective, full
        week25::Strategy s{.dp = 8 / tp / pp, .tp = tp, .pp = pp, .microbatch = 2};
        s.sequence_parallel = tp == 4, s.selective = kind == 1, s.recompute = kind == 2;
        const week25::Rated rated = Predictor(task).rate(s);
        const week25::PhantomStep step = week25::phantom_step(options_of(task, s), task.cluster.machine);
        EXPECT_NEAR(rated.time.total() / step.seconds, 1, 0.05) << format_strategy(s);
        EXPECT_NEAR(rated.memory.total_bytes() / step.peak_bytes(), 1, 0.03) << format_strategy(s);
        seconds[kind] = step.seconds, bytes[kind] = step.peak_bytes();
      }
      const std::string mesh = fmt::format("tp {}, pp {}", tp, pp);
      EXPECT_LT(seconds[0], seconds[1]) << mesh;
      EXPECT_LT(seconds[1] - seconds[0], 0.3 * (seconds[2] - seconds[0])) << mesh << ": one product of a forward";
      EXPECT_GT(bytes[0], bytes[1]) << mesh;
      EXPECT_GT(bytes[1], bytes[2]) << mesh;
    }
}

}  // namespace
}  // namespace lockstep::plan
