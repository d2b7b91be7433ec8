// A real GPT on stages: losses and gradients of every schedule equal the serial model's, for microbatches of unequal
// size, tied and untied heads, and stages that own nothing but their layers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/gpt/model/serial.hpp"
#include "common/gpt/model/stage.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/values.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "labs/week24_pipeline/stages.hpp"

namespace lockstep::week24 {
namespace {

constexpr std::size_t kLength = 6;

GptConfig model(bool tied) {
  return {.layers = 6, .heads = 2, .d_model = 16, .vocabulary = 29, .context = 8, .tied_head = tied};
}

/// Microbatches of 2 sequences, the last of 1; the token after the third is not to be learned.
std::vector<Batch> make_batches(Rank me, int microbatches) {
  std::vector<Batch> batches;
  for (int m = 0; m < microbatches; ++m) {
    const std::size_t sequences = m + 1 == microbatches ? 1 : 2, first = 100 * static_cast<std::size_t>(m);
    batches.push_back(model_tests::batch_by_formula(me, sequences, kLength, 29, /*ignored=*/3, first));
  }
  return batches;
}
float factor_of(int microbatches) { return 1 / static_cast<float>((2 * microbatches - 1) * kLength); }

/// The loss, then all gradients in the order of the table.
Values serial(const GptConfig& config, int microbatches) {
  const Outcome outcome = run({.ranks = 1, .threads = 1}, Program([&](Rank me) {
                                Gpt gpt(me, config, 7);
                                const std::vector<Batch> batches = make_batches(me, microbatches);
                                Activations saved = gpt.allocate_activations(me, 2, kLength);
                                Slice loss = me.allocate(1, DType::f32, Category::buffer);
                                fill(me, loss, 0);
                                accumulate_gradients(me, gpt, batches, saved, loss, factor_of(microbatches));
                                Values values{to_host(me, loss)[0]};
                                testing::append(me, gpt.parameters().gradients, values);
                                return values;
                              }));
  outcome.check();
  return outcome.values[0];
}

struct Found {
  Outcome outcome;
  double loss = 0, worst = 0, largest = 0;
  std::size_t compared = 0;
  bool same_bits = true;
};

Found pipelined(const std::string& name, const PipelineShape& shape, const GptConfig& config) {
  const Schedule schedule = make_schedule(name, shape);
  const int head = chunk_of_part(shape, shape.stages * shape.chunks - 1).stage;
  const std::vector<std::size_t> first = partition(gpt_piece_costs(config, kLength), shape.stages * shape.chunks);
  Found found;
  found.outcome = run({.ranks = shape.stages, .threads = 1}, Program([&](Rank me) {
                        const Pipeline pipeline = make_pipeline(me, shape);
                        GptStage stage(me, shape, config, first, make_batches(me, shape.microbatches),
                                       factor_of(shape.microbatches), 7);
                        run_schedule(pipeline, schedule[static_cast<std::size_t>(me.rank())], stage);
                        stage.sum_tied(stage.parameters().gradient(0));
                        Values values{to_host(me, stage.loss())[0]};
                        testing::append(me, stage.parameters().gradients, values);
                        return values;
                      }));
  found.outcome.check();
  const Values expected = serial(config, shape.microbatches);
  const std::vector<Parameter> table = gpt_parameter_table(config);
  const auto usage_order = gpt_usage_order(config);
  for (int s = 0; s < shape.stages; ++s) {
    const Values& seen = found.outcome.values[static_cast<std::size_t>(s)];
    found.loss += seen[0];
    std::vector<bool> own(table.size());
    for (int c = 0; c < shape.chunks; ++c)
      for (auto part = static_cast<std::size_t>(part_of(shape, s, c)), piece = first[part]; piece < first[part + 1];
           ++piece)
        for (const std::size_t index : usage_order[piece]) own[index] = true;
    std::size_t at = 1;
    for (std::size_t i = 0; i < table.size(); ++i)
      for (std::size_t k = 0; own[i] && k < table[i].size; ++k, ++at, ++found.compared) {
        const double there = expected[1 + table[i].offset + k];
        found.worst = std::max(found.worst, std::abs(seen.at(at) - there));
        found.largest = std::max(found.largest, std::abs(there));
        found.same_bits = found.same_bits && seen[at] == there;
      }
    EXPECT_EQ(at, seen.size()) << "stage " << s << " has tensors that do not belong to its layers";
  }
  EXPECT_NEAR(found.loss, expected[0], 1e-6 * expected[0]);
  EXPECT_EQ(found.outcome.values[static_cast<std::size_t>(head)][0], found.loss) << "the head's stage has the loss";
  return found;
}

std::string where(const std::string& name, const PipelineShape& shape) {
  return fmt::format("{}, p = {}, m = {}, v = {}", name, shape.stages, shape.microbatches, shape.chunks);
}

TEST(GptOnStages, LossesAndGradientsEqualTheSerialModels) {
  for (const bool tied : {false, true}) {
    const GptConfig config = model(tied);
    std::size_t parameters = 0;
    for (const Parameter& tensor : gpt_parameter_table(config)) parameters += tensor.size;
    const auto v = Placement::vee;
    for (const char* name : {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev"})
      for (const PipelineShape& shape : {PipelineShape{1, 3},
                                         {2, 4},
                                         {3, 3},
                                         {4, 4},
                                         {2, 4, 2},
                                         {2, 2, 4},
                                         {2, 1, 2, v},
                                         {2, 5, 2, v},
                                         {4, 3, 2, v},
                                         {4, 9, 2, v}}) {
        if ((shape.placement == v) != in_a_vee(name)) continue;
        if (shape.placement != v && (shape.chunks > 1) != (std::string(name) == "interleaved")) continue;
        const Found found = pipelined(name, shape, config);
        // Sums in another order: of microbatches (GPipe goes back from the last), and of the tied embedding's two
        // parts.
        EXPECT_LE(found.worst, 1e-6 * found.largest) << where(name, shape);
        const bool twice = tied && shape.stages > 1 && shape.placement != v;  // a V has both ends on stage 0
        EXPECT_EQ(found.compared, parameters + (twice ? 29 * 16 : 0)) << where(name, shape);
        if (!tied && std::string(name) != "gpipe") {
          EXPECT_TRUE(found.same_bits) << where(name, shape) << ": the same sums in the same order";
        }
      }
  }
}

TEST(GptOnStages, ActivationsAreThoseOfTheMicrobatchesInFlight) {
  if (std::string_view(backend_name()) != "sim") GTEST_SKIP() << "said once";
  const auto peak = [](const std::string& name, int microbatches) {
    const Found found = pipelined(name, {2, microbatches}, model(false));
    return static_cast<double>(found.outcome.ledgers[0].memory.peak_of(Category::activation));
  };
  const double one = peak("gpipe", 9) - peak("gpipe", 8);  // of one microbatch more
  EXPECT_GT(one, 0);
  EXPECT_NEAR(peak("gpipe", 16) - peak("gpipe", 8), 8 * one, 0.01 * one) << "GPipe holds all";
  EXPECT_EQ(peak("1f1b", 16), peak("1f1b", 8)) << "1F1B holds two, however many there are";
  EXPECT_LT(peak("1f1b", 8), peak("gpipe", 8) - 5 * one);
}

TEST(GptOnStages, CostsPutTheHeadIntoThePlan) {
  const GptConfig gpt2{.layers = 12, .heads = 12, .d_model = 768, .vocabulary = 50257, .context = 1024};
  const std::vector<double> costs = gpt_piece_costs(gpt2, 1024);
  EXPECT_NEAR(costs.back() / costs[1], 5.0, 0.2) << "the head costs as much as five blocks";
  // Four stages: the last has the head and few blocks, or none.
  const std::vector<std::size_t> first = partition(costs, 4);
  EXPECT_LE(first[4] - first[3], 2u);
  // By number of layers the slowest stage would take half as long again.
  const auto slowest = [&](const std::vector<std::size_t>& cut) {
    double most = 0;
    for (std::size_t k = 0; k + 1 < cut.size(); ++k) {
      double sum = 0;
      for (std::size_t i = cut[k]; i < cut[k + 1]; ++i) sum += costs[i];
      most = std::max(most, sum);
    }
    return most;
  };
  EXPECT_GT(slowest({0, 4, 7, 10, 14}), 1.5 * slowest(first));
}

TEST(GptOnStages, WhatDoesNotFitIsAClearError) {
  const auto says = [](PipelineShape shape, std::vector<std::size_t> first) {
    return run({.ranks = shape.stages},
               [&](Rank me) {
                 GptStage stage(me, shape, model(true), first, make_batches(me, shape.microbatches), 1, 7);
               })
        .message;
  };
  EXPECT_NE(says({2, 2}, {0, 9}).find("2 stages"), std::string::npos);
  EXPECT_NE(says({2, 2}, {0, 0, 8}).find("at least one"), std::string::npos);
  EXPECT_EQ(says({2, 2}, {0, 3, 8}), "");
  EXPECT_THROW(partition(gpt_piece_costs(model(true), kLength), 9), Error) << "8 pieces, 9 stages";
}

}  // namespace
}  // namespace lockstep::week24
