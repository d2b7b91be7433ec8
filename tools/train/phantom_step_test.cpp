// Tests that one replica with one rank per stage and symmetric peers takes as long as all ranks together, and that the
// published models run in seconds.
#include "tools/train/phantom_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "common/analysis/write_trace.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/step_3d.hpp"

namespace lockstep::week25 {
namespace {

Machine machine(const std::string& name) { return find_machine(name, LOCKSTEP_SOURCE_DIR "/bench/machines"); }

Options3d medium(const MeshShape& mesh) {
  Options3d o;
  o.model = {.layers = 8, .heads = 16, .d_model = 1024, .vocabulary = 32000, .context = 512};
  o.model.storage = o.reduce = DType::bf16;
  o.mesh = mesh;
  o.sequence = 512;
  o.microbatches = 4;
  o.batch = static_cast<std::size_t>(mesh.dp) * 8;
  return o;
}

struct All {
  double seconds = 0, peak = 0;
  double bytes = 0;  // sent by all ranks
};
/// Simulates every rank of the mesh.
All simulate_all_ranks(const Options3d& o, const Machine& machine) {
  std::vector<double> begins(static_cast<std::size_t>(o.mesh.ranks()));
  RunOptions options{.ranks = o.mesh.ranks(), .machine = machine, .phantom = true, .check_races = false};
  std::vector<double> before(begins.size());
  const Outcome outcome = run(options, Program([&](Rank me) {
                                Worker worker = make_worker(make_mesh(me, o.mesh, o.order), o);
                                Slice one = me.allocate(1, DType::f32, Category::buffer);
                                if (o.overlap_gather) {
                                  accumulate_gradients(worker);
                                  update(worker, 1e-4f, 1);
                                } else {
                                  for (int i = 0; i < 2; ++i) week21::ring_all_reduce(me, one);
                                }
                                const auto r = static_cast<std::size_t>(me.rank());
                                begins[r] = me.now();
                                before[r] = static_cast<double>(ledger_of(me).traffic.bytes_sent);
                                accumulate_gradients(worker);
                                update(worker, 1e-4f, 1);
                                const double end = me.now();
                                const auto sent = static_cast<double>(ledger_of(me).traffic.bytes_sent);
                                finish_gathers(worker);
                                return Values{end, sent};
                              }));
  outcome.check();
  All all;
  for (std::size_t r = 0; r < begins.size(); ++r) {
    all.seconds = std::max(all.seconds, outcome.values[r][0]);
    all.peak = std::max(all.peak, static_cast<double>(outcome.ledgers[r].memory.peak_total));
    all.bytes += outcome.values[r][1] - before[r];
  }
  all.seconds -= *std::max_element(begins.begin(), begins.end());
  return all;
}

double sum_of_bytes(const PhantomStep& step) {
  double sum = 0;
  for (const LevelBytes& level : step.levels) sum += level.all;
  return sum;
}

TEST(Phantom, ReflectionsTakeTheTimeOfAllRanks) {
  struct Row {
    const char* machine;
    MeshShape mesh;
    AxisOrder order = kMegatronOrder;
    bool sequence_parallel = false;
    int zero = 0;
    double tolerance = 2e-3;
    int cp = 1, shard_group = 0;
    bool overlap_gather = false;
  };
  for (const Row& row :
       {Row{"dgx-a100-hdr", {1, 8, 2}}, Row{"dgx-a100-hdr", {2, 4, 2}, kMegatronOrder, true, 1},
        Row{"dgx-a100-hdr", {4, 2, 4}, kMegatronOrder, false, 1}, Row{"dgx-a100-hdr", {2, 1, 4}},
        Row{"dgx-a100-hdr", {2, 4, 2}, {Axis::tp, Axis::pp, Axis::dp}},
        Row{"dgx-a100-hdr", {2, 8, 1}, kMegatronOrder, true}, Row{"dgx-a100-hdr", {16, 1, 1}},
        Row{"dgx-a100-hdr", {4, 4, 1}, kMegatronOrder, false, 3},
        Row{"dgx-1v-edr", {2, 8, 2}, kMegatronOrder, false, 1, /*a port for two, half for each:*/ 1e-2},
        // Two ranks share a port out of their half of a box, and in a ring only one of them sends through it.
        Row{"pcie-box", {4, 1, 1}}, Row{"pcie-box", {1, 4, 1}, kMegatronOrder, true},
        Row{"pcie-box-100gbe", {4, 1, 2}, kMegatronOrder, false, 1, 2e-2},
        Row{"pcie-box-100gbe", {2, 2, 2}, kMegatronOrder, false, 1, 2e-2},
        Row{"pcie-box-100gbe", {8, 1, 1}, kMegatronOrder, false, 1, 2e-2},
        Row{"dgx-a100-hdr", {2, 4, 2}, kMegatronOrder, true, 1, 2e-3, 1, 0, true},
        Row{"dgx-a100-hdr",
            {16, 1, 1},
            kMegatronOrder,
            false,
            2,
            /*chunks reach some ranks earlier:*/ 5e-3,
            1,
            0,
            true},
        Row{"pcie-box-100gbe", {2, 2, 2}, kMegatronOrder, false, 1, 2e-2, 1, 0, true},
        // Ranks that share sequences, within nodes and across, in zig-zag order: all have the same work in every step.
        Row{"dgx-a100-hdr", {8, 1, 1}, kMegatronOrder, false, 0, 2e-3, 8},
        Row{"dgx-a100-hdr", {8, 2, 1}, kMegatronOrder, false, 1, 1e-2, 4},
        Row{"dgx-a100-hdr", {8, 2, 2}, kMegatronOrder, false, 1, 1e-2, 8},
        Row{"dgx-a100-hdr", {16, 1, 1}, kMegatronOrder, false, 3, 1e-2, 16},
        Row{"dgx-a100-hdr", {4, 2, 2}, {Axis::tp, Axis::pp, Axis::dp}, false, 0, 2e-3, 2},
        // One copy of the state per group of ranks: gathers within it, a shard of the gradients across.
        Row{"dgx-a100-hdr", {16, 1, 1}, kMegatronOrder, false, 3, 2e-2, 1, 8},
        Row{"dgx-a100-hdr", {8, 2, 1}, kMegatronOrder, true, 3, 2e-2, 1, 4},
        Row{"dgx-a100-hdr", {16, 1, 1}, kMegatronOrder, false, 3, 2e-2, 4, 8},
        Row{"pcie-box-100gbe", {8, 1, 1}, kMegatronOrder, false, 1, /*on a bus that rings share:*/ 5e-2, 4}}) {
    Options3d o = medium(row.mesh);
    o.cp = row.cp;
    o.shard_group = row.shard_group;
    o.batch = std::max<std::size_t>(8, o.batch / static_cast<std::size_t>(row.cp));
    o.order = row.order;
    o.sequence_parallel = row.sequence_parallel;
    o.zero = row.zero;
    o.overlap_gather = row.overlap_gather;
    const PhantomStep folded = phantom_step(o, machine(row.machine));
    const All all = simulate_all_ranks(o, machine(row.machine));
    const std::string what = std::string(row.machine) + " " + std::to_string(row.mesh.dp) + " × " +
                             std::to_string(row.mesh.tp) + " × " + std::to_string(row.mesh.pp) + ", cp " +
                             std::to_string(row.cp);
    // Ranks of a mesh leave the barrier microseconds apart, in a different order.
    EXPECT_NEAR(folded.seconds, all.seconds, row.tolerance * all.seconds) << what;
    EXPECT_NEAR(sum_of_bytes(folded), all.bytes, 1e-3 * all.bytes) << what;
    EXPECT_NEAR(folded.peak_bytes(), all.peak, 1e-3 * all.peak) << what;
    EXPECT_EQ(folded.simulated_ranks, row.mesh.pp);
  }
}

// The bucket with the embedding is gathered before the forward can begin; the others are gathered behind it.
TEST(Phantom, TheNextForwardHidesTheGatherOfValues) {
  for (const int zero : {1, 2})
    for (const int pp : {1, 2}) {
      if (zero == 2 && pp == 2) continue;
      Options3d o = medium({8, 2, pp});
      o.batch = 8 * 128;
      o.zero = zero;
      const PhantomStep before = phantom_step(o, machine("dgx-a100-hdr"));
      o.overlap_gather = true;
      const PhantomStep behind = phantom_step(o, machine("dgx-a100-hdr"));
      const StageSeconds &was = before.stages[0], &is = behind.stages[0];
      const double gather = was.update - is.update, exposed = is.data - was.data;
      EXPECT_GT(gather, 0.1 * was.update) << "ZeRO-" << zero << ", " << pp << " stages";
      EXPECT_GT(exposed, 0.05 * gather) << "the first bucket's is behind nothing";
      EXPECT_LT(exposed, 0.65 * gather) << "with two stages the embedding is two fifths of the first";
      EXPECT_NEAR(before.seconds - behind.seconds, gather - exposed, 0.1 * gather);
      EXPECT_NEAR(is.tensor, was.tensor, 1e-2 * was.tensor) << "no wait for values is one of tensor parallelism";
      EXPECT_EQ(behind.peak_bytes(), before.peak_bytes());
      EXPECT_NEAR(sum_of_bytes(behind), sum_of_bytes(before), 1e-3 * sum_of_bytes(before));
    }
}

// Stages end a step at different times: here the first has the largest update.
TEST(Phantom, AStepThatFollowsAnotherIsWholeOnEachStage) {
  Options3d o = medium({2, 1, 2});
  o.model.layers = 9;
  o.model.tied_head = false;
  o.zero = 1;
  o.overlap_gather = true;
  const PhantomStep step = phantom_step(o, machine("dgx-a100-hdr"), /*trace=*/true);
  for (const StageSeconds& stage : step.stages)
    EXPECT_NEAR(stage.pipeline() + stage.data + stage.update, step.seconds, 1e-3 * step.seconds);
  for (const TraceEvent& event : step.trace.events) EXPECT_GE(event.begin, 0) << event.name;
}

/// Main's waits for tensor parallelism in a step.
double tensor_waits(Options3d o, bool overlap_scatter) {
  o.overlap_scatter = overlap_scatter;
  const PhantomStep step = phantom_step(o, machine("dgx-a100-hdr"));
  const All all = simulate_all_ranks(o, machine("dgx-a100-hdr"));
  EXPECT_NEAR(step.seconds, all.seconds, 2e-3 * all.seconds) << overlap_scatter;
  return step.stages[0].tensor;
}

// With sequence parallelism a block waits for eight collectives: two gathers and two scatters in the forward, two
// gathers of gradients and two scatters in the backward. Products for weight gradients can hide the last two.
TEST(Phantom, TheProductsForWeightsHideTheBackwardsScatters) {
  for (const bool llama : {false, true}) {
    Options3d o = medium({1, 2, 1});
    if (llama) {
      o.model.tied_head = false;
      o.model.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, 8, 2816, 500000};
    }
    o.sequence_parallel = true;
    o.batch = 64;
    const double before = tensor_waits(o, false), behind = tensor_waits(o, true);
    EXPECT_LT(behind, 0.8 * before) << llama;
    EXPECT_GT(behind, 0.65 * before) << llama << ": the others are where they were";
  }
}

TEST(Phantom, APublishedModelIsSixteenRanks) {
  Options3d o;
  o.model = gpt_preset("gpt3-175b");
  o.model.storage = o.reduce = DType::bf16;
  o.mesh = {.dp = 8, .tp = 8, .pp = 16};
  o.sequence = 2048;
  o.microbatches = 192;
  o.batch = 1536;
  const PhantomStep step = phantom_step(o, machine("dgx-a100-hdr"), /*trace=*/true);
  EXPECT_EQ(step.simulated_ranks, 16);
  // 1F1B's bubble is (p − 1)/m of the ideal time if stages are equal; the last has the head as well.
  EXPECT_NEAR(step.bubble_of_ideal, 15.0 / 192, 0.02);
  EXPECT_GT(step.mfu, 0.3);
  EXPECT_LT(step.mfu, 0.87) << "the machine's best matmul";
  EXPECT_LT(step.peak_bytes(), 80e9);
  double steps = 0;
  for (const TraceEvent& event : step.trace.events) steps += event.name[0] == 'F' || event.name[0] == 'B';
  EXPECT_EQ(steps, 16 * 192 * 2);
  std::ostringstream trace;
  write_chrome_trace(step.trace, trace);
  EXPECT_LT(trace.str().size(), std::size_t{100} << 20);
  EXPECT_EQ(phantom_step(o, machine("dgx-a100-hdr")).seconds, step.seconds) << "two runs, the same bits";
}

TEST(Phantom, TheWrongPlacementIsSlower) {
  Options3d o = medium({2, 8, 2});
  const double inside = phantom_step(o, machine("dgx-a100-hdr")).seconds;
  o.order = {Axis::dp, Axis::pp, Axis::tp};
  EXPECT_GT(phantom_step(o, machine("dgx-a100-hdr")).seconds, 1.5 * inside) << "tensor parallelism across nodes";
}

// Claims of the course texts: docs/learn/claims.md.
TEST(Claims, TensorParallelismInsideTheNodeOthersAcross) {
  Options3d o;
  o.model = gpt_preset("gpt3-175b");
  o.model.storage = o.reduce = DType::bf16;
  o.mesh = {.dp = 16, .tp = 8, .pp = 8};
  o.sequence = 2048;
  o.microbatches = 96;
  o.batch = 1536;
  const double inside = phantom_step(o, machine("dgx-a100-hdr")).seconds;
  o.order = {Axis::dp, Axis::pp, Axis::tp};
  const double across = phantom_step(o, machine("dgx-a100-hdr")).seconds;
  std::printf("  measured: GPT-3 as 16 x 8 x 8: %.1f s with tp inside the node, %.1f s with dp there and tp across\n",
              inside, across);
  EXPECT_GT(across, 2 * inside);
}

TEST(Phantom, WhatCannotBeFoldedIsRefused) {
  EXPECT_THROW(phantom_step(medium({1, 3, 4}), machine("dgx-a100-hdr")), Error) << "16 heads, 3 ranks";
  EXPECT_THROW(phantom_step(medium({3, 1, 4}), machine("dgx-a100-hdr")), Error) << "stages 3 ranks apart, nodes of 8";
  EXPECT_THROW(phantom_step(medium({8, 2, 1}), machine("pcie-box")), Error) << "a box of four";
}

TEST(Phantom, ALlamaTakesTheTimeOfAllRanksToo) {
  for (const MeshShape& mesh : {MeshShape{1, 8, 2}, MeshShape{2, 4, 2}}) {
    Options3d o = medium(mesh);
    o.model.tied_head = false;
    o.model.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, 8, 2816, 500000};
    o.sequence_parallel = true;
    o.zero = mesh.dp > 1 ? 1 : 0;
    const PhantomStep folded = phantom_step(o, machine("dgx-h100-ndr"));
    const All all = simulate_all_ranks(o, machine("dgx-h100-ndr"));
    EXPECT_NEAR(folded.seconds, all.seconds, 2e-3 * all.seconds);
    EXPECT_NEAR(sum_of_bytes(folded), all.bytes, 1e-3 * all.bytes);
    EXPECT_NEAR(folded.peak_bytes(), all.peak, 1e-3 * all.peak);
  }
}

/// Llama's block, with as few key-value heads as the ranks allow.
Architecture llama_for(int tp) {
  const std::size_t kv_heads = tp == 4 ? 4 : 2;
  return {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, tp <= 2, kv_heads, 32, 500};
}

/// Every tensor of every rank: the parts named by 23.1e and 23.2b are those of tensor_runs for the serial model.
TEST(Part, IsCutByTheLearnersFunctions) {
  for (const int tp : {1, 2, 4}) {
    Options3d o = medium({1, tp, 1});
    o.model = {.layers = 2, .heads = 4, .d_model = 24, .vocabulary = 37, .context = 8, .tied_head = false};
    for (int i = 0; i < 2 * tp; ++i) {
      const int rank = i / 2;
      if (i % 2 == 1) o.model.architecture = llama_for(tp);
      GptConfig cut = o.part(rank), known = cut;
      o.model.architecture = {};
      ASSERT_NE(cut.tensor.cut, nullptr);
      known.tensor.cut = nullptr;
      for (const Parameter& own : gpt_parameter_table(cut)) {
        const std::vector<TensorRun> seen = tensor_runs(cut, own), expected = tensor_runs(known, own);
        ASSERT_EQ(seen.size(), expected.size()) << own.name;
        for (std::size_t i = 0; i < seen.size(); ++i) {
          EXPECT_EQ(seen[i].own, expected[i].own) << own.name;
          EXPECT_EQ(seen[i].serial, expected[i].serial) << own.name;
          EXPECT_EQ(seen[i].size, expected[i].size) << own.name;
        }
      }
    }
  }
}

TEST(Part, OfAnotherSizeThanTheModelsIsRefused) {
  GptConfig part = medium({1, 2, 1}).part(1);
  Parameter up = gpt_parameter_table(part)[10];
  ASSERT_EQ(up.name, "blocks.0.up.weight");
  up.size += 1;
  EXPECT_THROW((void)tensor_runs(part, up), Error);
}

}  // namespace
}  // namespace lockstep::week25
