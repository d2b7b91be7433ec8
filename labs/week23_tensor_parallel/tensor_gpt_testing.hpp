// Shared by the tests of the whole model: a small GPT on one rank and on p, and the comparison of every gradient.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/gpt/model/serial.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

/// 8 heads, so that p may be 1, 2, 4 and 8; 37 tokens, which none of them divides.
inline GptConfig small_tensor_gpt(bool tied = true) {
  return {.layers = 2, .heads = 8, .d_model = 24, .vocabulary = 37, .context = 8, .tied_head = tied};
}

inline Batch small_batch(Rank me, std::size_t sequences, std::size_t length, std::size_t vocabulary, int step) {
  std::vector<std::int32_t> tokens, targets;
  const std::size_t from = testing::drawn({23, 1, static_cast<std::uint64_t>(step)}, 1 << 20);
  for (std::size_t n = 0; n < sequences * length; ++n) {
    const std::size_t mixed = ((n + from) * 2654435761u + static_cast<std::size_t>(step) * 40503u) >> 5;
    tokens.push_back(static_cast<std::int32_t>(mixed % vocabulary));
    targets.push_back(n % 5 == 4 ? -1 : static_cast<std::int32_t>((mixed / 7) % vocabulary));
  }
  return model_tests::make_batch(me, sequences, length, tokens, targets);
}

using MakeLayers = std::function<std::shared_ptr<const Layers>(const TensorParallel&, const GptConfig&)>;
/// Called after the gradients of a step are accumulated: sums that sequence parallelism still owes.
using FinishGradients = std::function<void(const TensorParallel&, const Gpt&)>;

struct TensorRunPlan {
  GptConfig config = small_tensor_gpt();
  int steps = 3;
  bool overlap = false;
  bool sequence_parallel = false;
  MakeLayers layers;
  FinishGradients finish;
};

/// Losses of `steps` steps of plain descent, then the validation loss, then all gradients of the last step, tensor
/// after tensor, as this rank has them.
inline Values train_tensor_gpt(Rank me, const TensorRunPlan& plan) {
  const TensorParallel tp = make_tensor_parallel(me, plan.overlap);
  GptConfig config = plan.config;
  config.tensor = {me.rank(), me.size(), plan.sequence_parallel};
  Gpt gpt(me, config, 5 + testing::drawn({23, 2}, 1000));
  if (plan.layers) gpt.use(plan.layers(tp, config));
  Activations saved = gpt.allocate_activations(me, 2, 8);
  Slice loss = me.allocate(1, DType::f32, Category::buffer);
  Values seen;
  for (int step = 0; step < plan.steps; ++step) {
    fill(me, gpt.parameters().gradients, 0);
    fill(me, loss, 0);
    const Batch batch = small_batch(me, 2, 8, config.vocabulary, step);
    accumulate_gradients(me, gpt, std::span(&batch, 1), saved, loss, 1.0f / 16);
    if (plan.finish) plan.finish(tp, gpt);
    seen.push_back(to_host(me, loss)[0]);
    Slice descent = me.allocate(gpt.parameters().count(), DType::f32, Category::buffer);
    copy(me, descent, gpt.parameters().gradients);
    scale(me, descent, -0.5f);
    add(me, gpt.parameters().values, descent);
  }
  fill(me, loss, 0);
  add_validation_loss(me, gpt, small_batch(me, 2, 8, config.vocabulary, plan.steps), saved, loss, 1.0f / 16);
  seen.push_back(to_host(me, loss)[0]);
  testing::append(me, gpt.parameters().gradients, seen);
  return seen;
}

/// Every rank's losses and gradients against those of the serial model. Each sum over ranks may round differently, and
/// three steps carry that on: a few hundred roundings of fp32, relative to the largest gradient of a tensor.
inline std::string unlike_the_serial_model(const Outcome& outcome, const TensorRunPlan& plan) {
  TensorRunPlan alone = plan;
  alone.layers = {};
  alone.finish = {};
  alone.overlap = alone.sequence_parallel = false;
  const Values serial =
      run({.ranks = 1}, Program([&](Rank me) { return train_tensor_gpt(me, alone); })).check().values[0];
  const std::size_t losses = static_cast<std::size_t>(plan.steps) + 1;
  const std::vector<Parameter> whole = gpt_parameter_table(plan.config);
  constexpr double kTolerance = 2e-5;
  const int ranks = static_cast<int>(outcome.values.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < losses; ++i)
      if (!(std::abs(seen.at(i) - serial[i]) <= kTolerance * serial[i]))
        return fmt::format(
            "rank {}: the {} is {:.7g}, the serial model's {:.7g}. {}", rank,
            i + 1 < losses ? fmt::format("loss of step {}", i) : "validation loss", seen[i], serial[i],
            seen[i] != seen[i] ? "Uninitialised memory was read"
            : i == 0           ? "Nothing is trained yet: check the forward pass, from the embedding to the loss"
            : i + 1 == losses
                ? "The losses of training are right: check the last gradients, or the loss without gradients"
                : "The loss before is right: check the gradients of the step before");
    GptConfig config = plan.config;
    config.tensor = {rank, ranks, plan.sequence_parallel};
    const std::vector<Parameter> own = gpt_parameter_table(config);
    for (std::size_t t = 0; t < own.size(); ++t) {
      double largest = 0;
      for (std::size_t i = 0; i < whole[t].size; ++i)
        largest = std::max(largest, std::abs(serial[losses + whole[t].offset + i]));
      for (const TensorRun& run : tensor_runs(config, own[t]))
        for (std::size_t i = 0; i < run.size; ++i) {
          const double value = seen.at(losses + own[t].offset + run.own + i);
          const double exact =
              run.serial == TensorRun::kPadding ? 0 : serial[losses + whole[t].offset + run.serial + i];
          if (!(std::abs(value - exact) <= kTolerance * (largest + 1e-3)))
            return fmt::format(
                "rank {}: the gradient of {}, element {} of its {}, is {:g}; in the serial model it is "
                "{:g}{}",
                rank, own[t].name, run.own + i, own[t].size, value, exact,
                run.serial == TensorRun::kPadding ? " (a token that the vocabulary does not have)" : "");
        }
    }
  }
  return "";
}

/// All numbers of ranks that divide 8 heads.
inline testing::CasePlan tensor_gpt_cases(bool queues) {
  testing::CasePlan plan;
  plan.ranks = {1, 2, 4, 8};
  plan.sizes = testing::sizes_of({37});
  plan.unit = "token";
  plan.queues = queues;
  return plan;
}

inline void run_tensor_gpt(const TensorRunPlan& plan) {
  testing::run_cases(
      [&](Rank me, const testing::Case&) { return train_tensor_gpt(me, plan); },
      [&](const testing::Case&, const Outcome& outcome) { return unlike_the_serial_model(outcome, plan); },
      tensor_gpt_cases(plan.overlap));
}

}  // namespace lockstep::week23
