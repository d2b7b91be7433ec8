// Tests of exercise 25.2: on every mesh the step is the serial step, with every schedule, ZeRO stage and precision that
// makes sense; the table behind it is right; the norm counts every parameter once; what makes no sense is refused with
// its reason.
#include "labs/week25_3d/step_3d.hpp"

#include <gtest/gtest.h>

#include <array>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "labs/week25_3d/step_3d_testing.hpp"

namespace lockstep::week25::step_3d_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto on_axes = testing::answer<week25::on_axes>;

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

/// A case's size says its mesh: dp·100 + tp·10 + pp.
MeshShape mesh_of(const Case& c) {
  const int size = static_cast<int>(c.size);
  return {.dp = size / 100, .tp = size / 10 % 10, .pp = size % 10};
}
std::vector<std::size_t> meshes(int ranks) {
  std::vector<std::size_t> all;
  for (int dp = 1; dp <= ranks; ++dp)
    for (int tp = 1; dp * tp <= ranks; ++tp)
      if (ranks % (dp * tp) == 0) all.push_back(static_cast<std::size_t>(dp * 100 + tp * 10 + ranks / (dp * tp)));
  return all;
}

bool on_gpus() {
  const std::string_view backend = backend_name();
  return backend == "cuda" || backend == "nccl";
}
/// Outside the simulator one mesh of each kind is enough, and on GPUs, which may be emulated, of all kinds together.
std::vector<std::size_t> few_meshes(int ranks) {
  if (on_gpus())
    return ranks == 2   ? std::vector<std::size_t>{112}
           : ranks == 4 ? std::vector<std::size_t>{221}
                        : std::vector<std::size_t>{};
  if (ranks == 2) return {211, 121, 112};
  if (ranks == 4) return {221, 212, 122};
  return ranks == 8 ? std::vector<std::size_t>{222} : std::vector<std::size_t>{};
}
bool on_simulator() { return std::string_view(backend_name()) == "sim"; }

using Adjust = std::function<void(Options3d&)>;

CasePlan plan_of(std::vector<int> ranks, bool queues = false) {
  CasePlan plan;
  plan.ranks = std::move(ranks);
  plan.sizes = on_simulator() ? meshes : few_meshes;
  plan.queues = queues;
  plan.which = "dp·100 + tp·10 + pp =";
  return plan;
}

/// Without the meshes that have one stage.
CasePlan with_pipelines(CasePlan plan) {
  plan.sizes = [all = plan.sizes](int ranks) {
    std::vector<std::size_t> sizes = all(ranks);
    std::erase_if(sizes, [](std::size_t size) { return size % 10 == 1; });
    return sizes;
  };
  return plan;
}

/// Every mesh of these sizes; `adjust` may say "not this one" by leaving options that check() refuses.
void equals_the_serial_run(CasePlan plan, const Adjust& adjust, Compared what = {}) {
  const auto options = [adjust](const Case& c) {
    Options3d o = small_options(mesh_of(c));
    adjust(o);
    return o;
  };
  const auto sizes = plan.sizes;
  plan.sizes = [=](int ranks) {
    std::vector<std::size_t> sensible;
    for (std::size_t size : sizes(ranks))
      if (!refusal(options({ranks, size})).empty())
        continue;
      else
        sensible.push_back(size);
    return sensible;
  };
  run_cases([=](Rank me, const Case& c) { return train_3d(me, options(c), what); },
            [=](const Case& c, const Outcome& outcome) { return unlike_the_serial_run(outcome, options(c), what); },
            plan);
}

// Every mesh ----------------------------------------------------------------------------------------------------------

TEST(Lab25_2, EveryMeshIsTheSerialRun) {
  CasePlan plan = plan_of({1, 2, 3, 4, 5, 6, 7, 8});
  if (on_gpus()) plan.sizes = [](int ranks) { return ranks == 8 ? std::vector<std::size_t>{222} : few_meshes(ranks); };
  equals_the_serial_run(plan, [](Options3d&) {});
}
TEST(Lab25_2, InWhateverOrderQueuesRun) {
  equals_the_serial_run(plan_of({2, 4}, true), [](Options3d& o) { o.zero = o.mesh.tp == 1 ? 1 : 0; });
}
TEST(Lab25_2, EveryMeshWithSequenceParallelismAndZero1) {
  equals_the_serial_run(plan_of({4, 8}), [](Options3d& o) {
    o.sequence_parallel = o.mesh.tp > 1;
    o.zero = 1;
  });
}
TEST(Lab25_2, EverySchedule) {
  for (const char* name : {"interleaved", "zb-h2", "naive", "gpipe", "zb-h1"}) {
    if (!on_simulator() && std::string_view(name) == "naive") return;
    equals_the_serial_run(with_pipelines(plan_of({2, 4})), [=](Options3d& o) {
      o.schedule = name;
      if (o.schedule != "interleaved") return;
      o.chunks = 2;
      o.microbatches = 2 * o.mesh.pp;
      o.batch = static_cast<std::size_t>(o.mesh.dp * o.microbatches) + 1;
    });
  }
}
TEST(Lab25_2, EveryZeroStageThatMakesSense) {
  for (int stage : {2, 3})
    equals_the_serial_run(plan_of({2, 3, 4}), [=](Options3d& o) {
      o.zero = stage;
      o.sequence_parallel = o.mesh.tp == 2;
    });
}
TEST(Lab25_2, Recomputed) {
  equals_the_serial_run(plan_of({2, 4}), [](Options3d& o) {
    o.recompute = week22::Recompute::full;
    o.sequence_parallel = o.mesh.tp > 1;
  });
  for (const bool sequence_parallel : {false, true}) {
    if (!on_simulator() && sequence_parallel) continue;
    equals_the_serial_run(plan_of({1, 2, 4}), [=](Options3d& o) {
      o.recompute = week22::Recompute::selective;
      o.model.attention = AttentionKind::materialised;
      o.sequence_parallel = sequence_parallel && o.mesh.tp > 1;
    });
  }
}
/// Probabilities computed again are those that were dropped, also where tensor-parallel ranks share the heads.
TEST(Lab25_2, RecomputedGradientsAreTheKeptOnesToTheBit) {
  CasePlan plan = plan_of({2, 4});
  plan.sizes = few_meshes;
  const auto train = [](Rank me, const Case& c, week22::Recompute recompute) {
    Options3d o = small_options(mesh_of(c));
    o.recompute = recompute;
    o.model.attention = AttentionKind::materialised;
    o.sequence_parallel = o.mesh.tp > 1 && o.mesh.dp > 1;
    return train_3d(me, o, {.norm = true, .update = false, .steps = 1});
  };
  run_cases(
      [=](Rank me, const Case& c) {
        const Values kept = train(me, c, week22::Recompute::none), again = train(me, c, week22::Recompute::selective);
        return Values{static_cast<double>(kept.size()), kept == again ? 1.0 : 0.0};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        for (const Values& seen : outcome.values)
          if (seen.at(0) < 100 || seen.at(1) != 1) return "selective recomputation gives other gradients than none";
        return "";
      },
      plan);
}
TEST(Lab25_2, AnUntiedHead) {
  equals_the_serial_run(plan_of({2, 4}), [](Options3d& o) { o.model.tied_head = false; });
}
TEST(Lab25_2, In16Bits) {
  equals_the_serial_run(plan_of({2, 8}), [](Options3d& o) {
    o.model.storage = o.reduce = DType::bf16;
    o.zero = 1;
  });
}
TEST(Lab25_2, AnotherOrderOfTheAxes) {
  equals_the_serial_run(plan_of({8}), [](Options3d& o) { o.order = {Axis::pp, Axis::dp, Axis::tp}; });
}

// Parts ---------------------------------------------------------------------------------------------------------------

/// A cell of the table, and the question that tells it.
struct Cell {
  Gradient gradient;
  const char* name;
  Has has;
  const char* ask;
};
const char* word(Has has) {
  constexpr std::array kWords = {"alone", "sharded", "replicated", "partial"};
  return kWords.at(static_cast<std::size_t>(has));
}
void expect_cells(const char* axis, Has OnAxes::*on, const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    const Has yours = on_axes(cell.gradient).*on;
    EXPECT_TRUE(yours == cell.has) << cell.name << ", on " << axis << ": yours is " << word(yours) << ". " << cell.ask;
  }
}
constexpr const char* kWhoseColumns = "Does another rank of tp compute with these columns?";
constexpr const char* kWhoseRows = "Has every rank of tp seen all rows, or some of its own?";
constexpr const char* kWhoseWords = "Does another rank of tp have these words of the vocabulary?";

TEST(Lab25_2a, OnTheTensorAxis) {
  expect_cells(
      "tp", &OnAxes::tp,
      {{Gradient::qkv_weight, "the weight of qkv", Has::sharded, kWhoseColumns},
       {Gradient::qkv_bias, "the bias of qkv", Has::sharded, kWhoseColumns},
       {Gradient::projection_bias, "the bias of projection", Has::replicated,
        "It is added once, to whole rows, after the sum over tp: whose gradient of these rows differs?"},
       {Gradient::norm_gain, "the gain of a norm", Has::replicated, kWhoseRows},
       {Gradient::norm_gain_of_own_rows, "the gain of a norm, with sequence parallelism", Has::partial, kWhoseRows},
       {Gradient::untied_embedding, "the untied embedding", Has::sharded, kWhoseWords},
       {Gradient::tied_embedding, "the tied embedding", Has::sharded, kWhoseWords}});
}
TEST(Lab25_2a, OnThePipelineAxis) {
  const char* const ask = "Which stages compute with this tensor?";
  expect_cells("pp", &OnAxes::pp,
               {{Gradient::qkv_weight, "the weight of qkv", Has::alone, ask},
                {Gradient::qkv_bias, "the bias of qkv", Has::alone, ask},
                {Gradient::projection_bias, "the bias of projection", Has::alone, ask},
                {Gradient::norm_gain, "the gain of a norm", Has::alone, ask},
                {Gradient::norm_gain_of_own_rows, "the gain of a norm, with sequence parallelism", Has::alone, ask},
                {Gradient::untied_embedding, "the untied embedding", Has::alone, ask},
                {Gradient::tied_embedding, "the tied embedding", Has::partial, ask}});
}
TEST(Lab25_2a, OnTheDataAxis) {
  std::vector<Cell> cells;
  for (const Gradient gradient :
       {Gradient::qkv_weight, Gradient::qkv_bias, Gradient::projection_bias, Gradient::norm_gain,
        Gradient::norm_gain_of_own_rows, Gradient::untied_embedding, Gradient::tied_embedding})
    cells.push_back({gradient, "any gradient", Has::partial, "Have two replicas seen the same sequences?"});
  expect_cells("dp", &OnAxes::dp, cells);
}

/// The gradients themselves: a norm would be part c's.
TEST(Lab25_2b, GradientsAreTheSerialOnes) {
  Compared what{.norm = false, .update = false, .steps = 1};
  equals_the_serial_run(
      plan_of({2, 4}), [](Options3d& o) { o.sequence_parallel = o.mesh.tp > 1; }, what);
}
TEST(Lab25_2c, EveryParameterCountsOnce) {
  Compared what{.norm = true, .update = false, .steps = 1};
  for (int zero : {0, 1})
    for (bool tied : {true, false}) {
      if (!on_simulator() && tied != (zero == 1)) continue;
      equals_the_serial_run(
          plan_of(tied ? std::vector{1, 2, 4, 8} : std::vector{2, 4}),
          [=](Options3d& o) {
            o.zero = zero;
            o.model.tied_head = tied;
          },
          what);
    }
}
/// A scale that overflows at first: all ranks skip the same steps, and stay equal. One rank alone sees the overflow.
TEST(Lab25_2d, AnOverflowAnywhereSkipsTheStepEverywhere) {
  Compared what{.norm = false, .values = false, .steps = 4, .spoil = true};
  equals_the_serial_run(
      plan_of({1, 2, 8}),
      [](Options3d& o) {
        o.model.storage = o.reduce = DType::f16;
        o.zero = o.mesh.dp > 1 ? 1 : 0;
        o.loss_scale = 256.0f;
      },
      what);
}
/// Without an overflow: the norm is that of the true gradients, and so is the update, clipped or not.
TEST(Lab25_2d, ALossScaleChangesNothing) {
  for (const float max_norm : {0.05f, 0.0f})
    equals_the_serial_run(plan_of({1, 2, 4}),
                          [](Options3d& o) {
                            o.model.storage = o.reduce = DType::f16;
                            o.loss_scale = 16.0f;
                          },
                          {.steps = 3, .max_norm = max_norm});
}
TEST(Lab25_2d, ClippingIsGlobal) {
  equals_the_serial_run(plan_of({4}), [](Options3d&) {}, {.max_norm = 0.05f});
  equals_the_serial_run(plan_of({2}), [](Options3d&) {}, {.max_norm = 0});
}

// Options that make no sense ------------------------------------------------------------------------------------------

TEST(Lab25_2, RefusalsGiveTheirReason) {
  struct Row {
    const char* says;
    MeshShape mesh;
    Adjust spoil;
  };
  const std::vector<Row> rows = {
      {"as many microbatches as there are stages", {1, 1, 4}, [](Options3d& o) { o.schedule = "interleaved"; }},
      {"cannot fill 9 parts", {1, 1, 9}, [](Options3d&) {}},
      {"m times the traffic of ZeRO-1", {2, 1, 2}, [](Options3d& o) { o.zero = 2; }},
      {"gather all parameters twice for every microbatch", {2, 1, 2}, [](Options3d& o) { o.zero = 3; }},
      {"cannot be delayed", {1, 2, 2}, [](Options3d& o) { o.schedule = "zb-h1"; }},
      {"recomputation frees",
       {1, 1, 2},
       [](Options3d& o) {
         o.schedule = "zb-h2";
         o.recompute = week22::Recompute::full;
       }},
      {"no rows to shard", {1, 1, 2}, [](Options3d& o) { o.sequence_parallel = true; }},
      {"do not divide over tp", {1, 2, 1}, [](Options3d& o) { o.sequence_parallel = true, o.sequence = 5; }},
      {"a head is never split", {1, 3, 1}, [](Options3d& o) { o.model.heads = 2; }},
      {"raise the batch", {2, 1, 1}, [](Options3d& o) { o.microbatches = 20; }},
      {"there is no stage 4", {2, 1, 1}, [](Options3d& o) { o.zero = 4; }},
      {"1f1b", {1, 1, 2}, [](Options3d& o) { o.schedule = "2f2b"; }},
      {"only interleaved has more", {1, 1, 2}, [](Options3d& o) { o.chunks = 2; }},
  };
  for (const Row& row : rows) {
    Options3d options = small_options(row.mesh);
    row.spoil(options);
    EXPECT_TRUE(refusal(options).find(row.says) != std::string::npos)
        << "the refusal says \"" << row.says << "\", not \"" << refusal(options) << "\"";
  }
  EXPECT_EQ(refusal(small_options({2, 2, 2})), "") << "a mesh of 2 × 2 × 2 makes sense";
  run_cases(
      [](Rank me, const Case&) {
        return train_3d(me, small_options({1, 1, 1}), {.steps = 1});
      },
      [](const Case&, const Outcome&) { return std::string(); }, plan_of({1}));
}

}  // namespace
}  // namespace lockstep::week25::step_3d_test
