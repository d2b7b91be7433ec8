// Tests of exercise 22.5, part d and the whole: steps under a loss scale, and its purpose.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week22_zero/mixed_precision_testing.hpp"

namespace lockstep::week22 {
namespace {

using testing::Case;
using testing::run_cases;
using testing::sizes_of;
using week21::ring_all_reduce;

// Part d --------------------------------------------------------------------------------------------------------------

// Values of squares, factor for a gradient of norm 5 under a scale of 2^10.
TEST(Lab22_5d, ClippingLooksAtTrueGradients) {
  const std::vector<float> norms{0, 10, 2.5f};
  run_cases(
      [&](Rank me, const Case& c) {
        const LossScaler scaler = make_loss_scaler(me, 1024);
        Slice squares = me.allocate(1, DType::f32, Category::buffer),
              factor = me.allocate(1, DType::f32, Category::buffer);
        fill(me, squares, 25 * 0x1p20f);
        unscale(me, scaler, factor, squares, norms[c.size]);
        return Values{number(me, squares), number(me, factor), number(me, scaler.inverse)};
      },
      [&](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        const double clipped = norms[c.size] == 2.5f ? 2.5 / (5 + 1e-6) : 1;
        if (seen[2] != 0x1p-10) return "the scaler's inverse was changed";
        if (seen[0] != 25)
          return fmt::format(
              "Σ g² of the true gradients is {}, expected 25: gradients scaled by 1024 have squares scaled by 1024²",
              seen[0]);
        if (std::abs(seen[1] - clipped / 1024) < 1e-9) return "";
        return fmt::format("norm 5 under a scale of 1024, max_norm {}: the factor is {}, expected {} = {} / 1024",
                           norms[c.size], seen[1], clipped / 1024, clipped);
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .which = "norm"});
}

/// Steps of fp32 training under a scale that grows after two good ones; those in `bad` overflow. Returns the master
/// weights, then the sum of |gradient| after the last step.
Values scaled_run(Rank me, int steps, const std::vector<int>& bad, float max_norm) {
  Training t(me, DType::f32, 2);
  LossScaler scaler = make_loss_scaler(me, 1024, /*growth_interval=*/2);
  for (int i = 0; i < steps; ++i) {
    t.gradients(1.0f / 16, scaler.scale);
    for (int step : bad)
      if (step == i) fill(me, t.gpt.parameters().gradients.cut(77 + testing::drawn({22, 10}, 1000), 1), kInfinity);
    const std::vector<Rank> groups{me};
    scaled_step(me, t.gpt, t.optimizer, scaler, t.scalars, {.learning_rate = 0.01f, .max_norm = max_norm}, groups,
                ring_all_reduce);
  }
  Values seen = t.values();
  fill(me, t.scalars.squares, 0);
  add_squares(me, t.scalars.squares, t.gpt.parameters().gradients);
  seen.push_back(number(me, t.scalars.squares));
  return seen;
}

std::string first_gap(const Values& seen, const Values& expected, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (seen[i] != expected[i])
      return fmt::format("{}: master weight {} is {:.9g}, expected {:.9g}", what, i, seen[i], expected[i]);
  return seen[expected.size()] == 0 ? "" : "the gradients are not zero after the step: the next backward adds to them";
}

// In fp32 a scale that is a power of two changes no bit.
TEST(Lab22_5d, AScaledStepIsTheStepWithoutScaling) {
  const std::vector<float> norms{1, 0.01f, 0};
  Values expected;
  run_cases(
      [&](Rank me, const Case& c) {
        Training t(me, DType::f32, 2);
        for (int i = 0; i < 3; ++i)
          serial_step(me, t.gpt, t.optimizer, std::span(&t.batch, 1), t.saved, t.scalars,
                      {.learning_rate = 0.01f, .max_norm = norms[c.size]});
        Values seen = t.values();
        for (double value : scaled_run(me, 3, {}, norms[c.size])) seen.push_back(value);
        return seen;
      },
      [&](const Case& c, const Outcome& outcome) {
        const Values& seen = outcome.values[0];
        const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
        return first_gap(
            Values(half, seen.end()), Values(seen.begin(), half),
            fmt::format("3 steps, max_norm {}: the loss was scaled by 1024, the step must not be (after two steps by "
                        "2048: the scale that the loss had counts, not the next one)",
                        norms[c.size]));
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .which = "norm"});
}

// Steps 0 and 2 of five overflow: the other three steps are left, bit for bit.
TEST(Lab22_5d, ASkippedStepLeavesNoTrace) {
  run_cases(
      [](Rank me, const Case&) {
        Values seen = scaled_run(me, 3, {}, 1);
        seen.pop_back();
        for (double value : scaled_run(me, 5, {0, 2}, 1)) seen.push_back(value);
        return seen;
      },
      [](const Case&, const Outcome& outcome) {
        const Values& seen = outcome.values[0];
        const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
        return first_gap(
            Values(half, seen.end()), Values(seen.begin(), half),
            "five steps of which two overflow, against three: values, moments and the bias correction's count "
            "must be as if those steps had not happened");
      },
      {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

TEST(Lab22_5d, TheHostLearnsNothing) {
  run_cases(
      [](Rank me, const Case&) {
        Training t(me, DType::f16, 2);
        LossScaler scaler = make_loss_scaler(me);
        t.gradients(1.0f / 16, scaler.scale);
        const std::uint64_t before = ledger_of(me).reads;
        const std::vector<Rank> groups{me};
        scaled_step(me, t.gpt, t.optimizer, scaler, t.scalars, {}, groups, ring_all_reduce);
        return Values{static_cast<double>(ledger_of(me).reads - before)};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        if (outcome.values[0][0] == 0) return "";
        return fmt::format(
            "a step read {} number{} to the host: a synchronisation of the device. Conditions stay on it",
            outcome.values[0][0], outcome.values[0][0] == 1 ? "" : "s");
      },
      {.ranks = {1, 2}, .sizes = sizes_of({0}), .unit = ""});
}

// The whole -----------------------------------------------------------------------------------------------------------

TEST(Lab22_5, GradientsOfALargeBatchVanishInFp16AndAScaleBringsThemBack) {
  run_cases(
      [](Rank me, const Case&) {
        return Values{lost_share(me, DType::f16, 0, kFactor), lost_share(me, DType::f16, 65536, kFactor),
                      lost_share(me, DType::bf16, 0, kFactor)};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& lost = outcome.values[0];
        const std::string seen =
            fmt::format("share of gradients that became 0: fp16 {:.1f}%, with a scale of 2^16 {:.2f}%, bf16 {:.2f}%",
                        100 * lost[0], 100 * lost[1], 100 * lost[2]);
        return lost[0] > 0.9 && lost[1] < 0.01 && lost[2] < 0.01 ? "" : seen + ", expected over 90, under 1, under 1";
      },
      {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

// The scale begins far too high on purpose: the first steps overflow, halve it, and leave no trace.
TEST(Lab22_5, Fp16LearnsWithAScaleAndNotWithout) {
  run_cases(
      [](Rank me, const Case&) {
        return Values{learned(me, DType::f32, 0, 60), learned(me, DType::bf16, 0, 60), learned(me, DType::f16, 0, 60),
                      learned(me, DType::f16, 0x1p40f, 80)};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& loss = outcome.values[0];
        const std::string seen = fmt::format(
            "losses after 60 steps from ln 29 = 3.37: fp32 {:.3f}, bf16 {:.3f}, fp16 {:.3f}, "
            "fp16 scaled {:.3f}",
            loss[0], loss[1], loss[2], loss[3]);
        const bool right = loss[0] < 0.3 && loss[1] < loss[0] + 0.1 && loss[2] > 3 && loss[3] < loss[0] + 0.1;
        return right ? "" : seen + ", expected all below 0.4 but fp16 without a scale, above 3";
      },
      {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

}  // namespace
}  // namespace lockstep::week22
