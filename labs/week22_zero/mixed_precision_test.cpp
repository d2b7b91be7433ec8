// Tests of exercise 22.5: what rounding loses and who keeps it, the flag on every rank of a mesh, steps that leave no
// trace, the rule of the scale, and a model that learns in fp16 only with it.
#include "labs/week22_zero/mixed_precision.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;
using week21::ring_all_reduce;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double number(Rank me, const Slice& scalar) { return read(me, scalar, 0); }

// Part a --------------------------------------------------------------------------------------------------------------

// 512 updates of 2⁻¹² to weights of 1. Next to 1, bf16 moves in steps of 2⁻⁷ and fp16 of 2⁻¹⁰: each update alone rounds
// to nothing.
TEST(Lab22_5a, UpdatesTooSmallForSixteenBitsAddUp) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  run_cases(
      [&](Rank me, const Case& c) {
        Slice working = me.allocate(5, kTypes[c.size], Category::parameter);
        Slice master = me.allocate(5, DType::f32, Category::optimizer),
              update = me.allocate(5, DType::f32, Category::buffer);
        fill(me, working, 1);
        fill(me, master, 1);
        fill(me, update, 0x1p-12f);
        for (int i = 0; i < 512; ++i) apply_update(me, working, master, update);
        return Values{to_host(me, working)[4], to_host(me, master)[4], to_host(me, update)[4]};
      },
      [&](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        if (seen[2] != 0x1p-12) return fmt::format("the update became {}: it must stay as it is", seen[2]);
        if (seen[0] == 1.125 && seen[1] == 1.125) return "";
        return fmt::format(
            "after 512 updates of 2⁻¹² to a weight of 1, {} has {} and the master {}, expected 1.125: {}",
            to_string(kTypes[c.size]), seen[0], seen[1],
            seen[1] == 1 ? "an update rounds to nothing where it is added in 16 bits; add it to the master"
                         : "the working copy is the master, rounded, after each update");
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .unit = "type"});
}

// Part b --------------------------------------------------------------------------------------------------------------

/// Rank 0 has 256 everywhere, the others 1. In bf16, 256 + 1 is 256 again.
Values reduced(Rank me, const Case& c, DType data, DType reduce) {
  Slice values = me.allocate(c.size, data, Category::gradient);
  fill(me, values, me.rank() == 0 ? 256 : 1);
  const RankLedger before = ledger_of(me);
  sum_in(me, values, reduce, ring_all_reduce);
  const RankLedger after = ledger_of(me);
  Values seen;
  for (float value : to_host(me, values)) seen.push_back(value);
  seen.push_back(static_cast<double>(after.traffic.bytes_sent - before.traffic.bytes_sent));
  seen.push_back(static_cast<double>(after.memory.peak_of(Category::buffer)));
  return seen;
}

TEST(Lab22_5b, SumsInTheTypeOfThePolicy) {
  struct Types {
    DType data, reduce;
  };
  for (const Types& types :
       {Types{DType::bf16, DType::f32}, Types{DType::f32, DType::bf16}, Types{DType::f32, DType::f32}}) {
    if (::testing::Test::HasFailure()) return;
    run_cases(
        [&](Rank me, const Case& c) { return reduced(me, c, types.data, types.reduce); },
        [&](const Case& c, const Outcome& outcome) -> std::string {
          const double sum = 256 + c.ranks - 1;
          // An fp32 sum is rounded once, to bf16's steps of 2: to the even one from the middle.
          const double exact = types.data == DType::f32
                                   ? sum
                                   : 4 * std::floor(sum / 4) + (sum - 4 * std::floor(sum / 4) >= 3   ? 4
                                                                : sum - 4 * std::floor(sum / 4) >= 2 ? 2
                                                                                                     : 0);
          for (int rank = 0; rank < c.ranks; ++rank) {
            const Values& seen = outcome.values[rank];
            for (std::size_t i = 0; i < c.size; ++i) {
              if (types.reduce == DType::f32 && seen[i] != exact)
                return fmt::format(
                    "rank {}, {} gradients summed in fp32: element {} is {}, expected {}. Rounded on the way, each 1 "
                    "is lost against 256",
                    rank, to_string(types.data), i, seen[i], exact);
              if (seen[i] != outcome.values[0][i]) return fmt::format("ranks 0 and {} hold different sums", rank);
            }
            if (c.size % static_cast<std::size_t>(c.ranks) != 0) continue;
            const double bytes = 2.0 * (c.ranks - 1) / c.ranks * static_cast<double>(c.size * bytes_of(types.reduce));
            if (seen[c.size] != bytes)
              return fmt::format("rank {} sent {} bytes, expected {}: {} elements in {}", rank, seen[c.size], bytes,
                                 c.size, to_string(types.reduce));
            if (types.data == types.reduce && seen[c.size + 1] > static_cast<double>(c.size * 4))
              return fmt::format(
                  "rank {} used {} bytes of buffers where data and sum are both {}: none are needed but the "
                  "collective's own",
                  rank, seen[c.size + 1], to_string(types.data));
          }
          return "";
        });
  }
}

// Part c --------------------------------------------------------------------------------------------------------------

/// A mesh of dp × tp ranks, tp neighbours.
struct Mesh {
  std::vector<Rank> groups;
  Mesh(Rank me, int tp) {
    groups.push_back(me.split(me.rank() % tp, me.rank()));  // dp
    groups.push_back(me.split(me.rank() / tp, me.rank()));  // tp
  }
};

// Four steps: nobody, rank `size` alone in its second gradient, everybody, nobody again.
TEST(Lab22_5c, AnOverflowOnOneRankIsKnownOnAll) {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (float bad : {kInfinity, -kInfinity, kNan}) {
      if (::testing::Test::HasFailure()) return;
      CasePlan plan{.ranks = {1, 2, 4, 6, 8}, .unit = "rank that overflows"};
      plan.sizes = [](int ranks) {
        std::vector<std::size_t> all;
        for (int r = 0; r < ranks; ++r) all.push_back(static_cast<std::size_t>(r));
        return all;
      };
      run_cases(
          [&](Rank me, const Case& c) {
            const Mesh mesh(me, me.size() % 2 == 0 ? 2 : 1);
            LossScaler scaler = make_loss_scaler(me);
            Slice gradient = me.allocate(3, dtype, Category::gradient),
                  other = me.allocate(40, dtype, Category::gradient);
            Values seen;
            for (int step = 0; step < 4; ++step) {
              fill(me, gradient, 1);
              fill(me, other, -2);
              if (step == 2 || (step == 1 && static_cast<std::size_t>(me.rank()) == c.size))
                fill(me, other.cut(37, 1), bad);
              find_overflow_everywhere(me, scaler, {gradient, other}, mesh.groups, ring_all_reduce);
              seen.push_back(number(me, scaler.overflow));
            }
            return seen;
          },
          [&](const Case& c, const Outcome& outcome) -> std::string {
            const char* when[] = {"nobody overflows", "rank {} alone overflows", "every rank overflows",
                                  "nobody overflows any more"};
            for (int step = 0; step < 4; ++step)
              for (int rank = 0; rank < c.ranks; ++rank) {
                const double expected = step == 1 || step == 2, seen = outcome.values[rank][step];
                if (seen == expected) continue;
                return fmt::format("{} ({} of {}): on rank {} of {} overflow is {}, expected {}{}",
                                   step == 1 ? fmt::format("rank {} alone overflows", c.size) : when[step], bad,
                                   to_string(dtype), rank, c.ranks, seen, expected,
                                   expected == 1 && seen == 0 ? ": this rank would make the step that others skip"
                                   : expected == 0            ? ": the flag must start from 0 every step"
                                                              : ": it is a yes, not a count");
              }
            return "";
          },
          plan);
    }
}

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
          return fmt::format("Σ g² of true gradients is {}, expected 25: scaled by 1024, squares are by 1024²",
                             seen[0]);
        if (std::abs(seen[1] - clipped / 1024) < 1e-9) return "";
        return fmt::format("norm 5 under a scale of 1024, max_norm {}: the factor is {}, expected {} = {} / 1024",
                           norms[c.size], seen[1], clipped / 1024, clipped);
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .unit = "max_norm"});
}

constexpr std::size_t kTokens = 8;
GptConfig small_gpt(DType storage) {
  GptConfig config{.layers = 2, .heads = 2, .d_model = 16, .vocabulary = 29, .context = kTokens};
  config.storage = storage;
  return config;
}

/// A model, its optimizer, and what a step needs.
struct Training {
  Rank me;
  Gpt gpt;
  Optimizer optimizer;
  StepScalars scalars;
  Batch batch;
  Activations saved;

  Training(Rank rank, DType storage, std::size_t sequences)
      : me(rank),
        gpt(rank, small_gpt(storage), 1),
        optimizer(rank, gpt.parameters(), {}),
        scalars(allocate_step_scalars(rank)),
        batch(model_tests::batch_by_formula(rank, sequences, kTokens, 29)),
        saved(gpt.allocate_activations(rank, sequences, kTokens)) {}

  void gradients(float factor, Slice scale) {
    fill(me, scalars.loss, 0);
    accumulate_gradients(me, gpt, std::span(&batch, 1), saved, scalars.loss, factor, {}, std::move(scale));
  }
  Values values() const {
    const std::vector<float> all = to_host(me, optimizer.master());
    return {all.begin(), all.end()};
  }
};

/// Steps of fp32 training under a scale; those in `bad` overflow. Returns the master weights, then the sum of
/// |gradient| after the last step.
Values scaled_run(Rank me, int steps, const std::vector<int>& bad, float max_norm) {
  Training t(me, DType::f32, 2);
  LossScaler scaler = make_loss_scaler(me, 1024);
  for (int i = 0; i < steps; ++i) {
    t.gradients(1.0f / 16, scaler.scale);
    for (int step : bad)
      if (step == i) fill(me, t.gpt.parameters().gradients.cut(77, 1), kInfinity);
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
            fmt::format("3 steps, max_norm {}: the loss was scaled by 1024, the step must not be", norms[c.size]));
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .unit = "max_norm"});
}

// Steps 0 and 2 of five overflow: what is left are three steps, bit for bit.
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
            "must be as if they had never been");
      },
      {.ranks = {1}, .sizes = sizes_of({0})});
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
      {.ranks = {1, 2}, .sizes = sizes_of({0})});
}

// Part e --------------------------------------------------------------------------------------------------------------

/// Steps by letter: x overflows, . does not. The interval of growth is 3.
const std::vector<std::string> kHistories = {"......",    "...x...x",     "xxx",
                                             "..x..x...", "...........x", "x.x..x...x...."};

TEST(Lab22_5e, TheScaleFollowsTheRule) {
  const auto program = [](Rank me, const Case& c) {
    LossScaler scaler = make_loss_scaler(me, 1024, 3);
    Values seen;
    for (char step : kHistories[c.size]) {
      fill(me, scaler.overflow, step == 'x' ? 1 : 0);
      update_scale(me, scaler);
      for (const Slice& scalar : {scaler.scale, scaler.inverse, scaler.good_steps, scaler.skipped})
        seen.push_back(number(me, scalar));
    }
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    double scale = 1024, good = 0, skipped = 0;
    for (std::size_t i = 0; i < kHistories[c.size].size(); ++i) {
      if (kHistories[c.size][i] == 'x') {
        scale /= 2, good = 0, ++skipped;
      } else if (++good == 3) {
        scale *= 2, good = 0;
      }
      const std::string at =
          fmt::format("after \"{}\" (x overflows, growth after 3 good steps)", kHistories[c.size].substr(0, i + 1));
      const auto seen = [&](std::size_t which) { return outcome.values[0][4 * i + which]; };
      if (seen(0) != scale) return fmt::format("{} the scale is {}, expected {}", at, seen(0), scale);
      if (seen(1) != 1 / scale) return fmt::format("{} the inverse is {}, expected {}", at, seen(1), 1 / scale);
      if (seen(2) != good) return fmt::format("{} there are {} good steps, expected {}", at, seen(2), good);
      if (seen(3) != skipped) return fmt::format("{} {} steps were skipped, expected {}", at, seen(3), skipped);
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({0, 1, 2, 3, 4, 5}), .unit = "history"});
}

// The whole -----------------------------------------------------------------------------------------------------------

/// Of the gradients that fp32 has, the share that `storage` rounds to 0 with this scale (0: none).
double lost_share(Rank me, DType storage, float scale, float factor) {
  Training exact(me, DType::f32, 16), t(me, storage, 16);
  exact.gradients(factor, {});
  Slice on_device = scale > 0 ? make_loss_scaler(me, scale).scale : Slice{};
  t.gradients(factor, on_device);
  const auto wanted = to_host(me, exact.gpt.parameters().gradients), seen = to_host(me, t.gpt.parameters().gradients);
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    all += wanted[i] != 0;
    lost += wanted[i] != 0 && seen[i] == 0;
  }
  return lost / all;
}

// The mean over a global batch of 16 Mi tokens, as of Llama 3 405B (arXiv 2407.21783, section 3.4.1), of which this
// rank has 128.
constexpr float kFactor = 0x1p-24f;

TEST(Lab22_5, GradientsOfALargeBatchVanishInFp16AndAScaleBringsThemBack) {
  run_cases(
      [](Rank me, const Case&) {
        return Values{lost_share(me, DType::f16, 0, kFactor), lost_share(me, DType::f16, 65536, kFactor),
                      lost_share(me, DType::bf16, 0, kFactor)};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& lost = outcome.values[0];
        const std::string seen =
            fmt::format("share of gradients that became 0: fp16 {:.1f} %, with a scale of 2^16 {:.2f} %, bf16 {:.2f} %",
                        100 * lost[0], 100 * lost[1], 100 * lost[2]);
        return lost[0] > 0.9 && lost[1] < 0.01 && lost[2] < 0.01 ? "" : seen + ", expected over 90, under 1, under 1";
      },
      {.ranks = {1}, .sizes = sizes_of({0})});
}

/// Mean loss of the last of `steps` steps on one batch, in `storage`; scaled with a first scale of `scale`, or not (0).
double learned(Rank me, DType storage, float scale, int steps) {
  constexpr float kTokens = 128;
  Training t(me, storage, 16);
  LossScaler scaler = make_loss_scaler(me, scale > 0 ? scale : 1, 20);
  const std::vector<Rank> groups{me};
  for (int i = 0; i < steps; ++i) {
    t.gradients(kFactor, scaler.scale);
    if (scale > 0) {
      scaled_step(me, t.gpt, t.optimizer, scaler, t.scalars, {.learning_rate = 0.01f, .max_norm = 0}, groups,
                  ring_all_reduce);
    } else {
      finish_step(me, t.gpt, t.optimizer, t.scalars, {.learning_rate = 0.01f, .max_norm = 0});
    }
  }
  return number(me, t.scalars.loss) / kFactor / kTokens;
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
      {.ranks = {1}, .sizes = sizes_of({0})});
}

}  // namespace
}  // namespace lockstep::week22
