// Shared by the tests of 22.5, and those of the numbers that the theory gives for it.
#pragma once

#include <limits>

#include "common/arithmetic.hpp"
#include "common/testing/batches.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/mixed_precision.hpp"

namespace lockstep::week22 {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The number that a scalar holds; 0 on phantom memory.
inline double number(Rank me, const Slice& scalar) { return read(me, scalar, 0); }

/// A small GPT, its optimizer, and what a step needs.
struct Training {
  Rank me;
  Gpt gpt;
  Optimizer optimizer;
  StepScalars scalars;
  Batch batch;
  Activations saved;

  Training(Rank rank, DType storage, std::size_t sequences)
      : me(rank),
        gpt(rank, {.layers = 2, .heads = 2, .d_model = 16, .vocabulary = 29, .context = 8, .storage = storage}, 1),
        optimizer(rank, gpt.parameters(), {}),
        scalars(allocate_step_scalars(rank)),
        batch(model_tests::batch_by_formula(rank, sequences, gpt.config().context, gpt.config().vocabulary)),
        saved(gpt.allocate_activations(rank, sequences, gpt.config().context)) {}

  void gradients(float factor, Slice scale) {
    fill(me, scalars.loss, 0);
    accumulate_gradients(me, gpt, std::span(&batch, 1), saved, scalars.loss, factor, {}, std::move(scale));
  }
  Values values() const {
    const std::vector<float> all = to_host(me, optimizer.master());
    return {all.begin(), all.end()};
  }
};

/// The share of the gradients that fp32 has and that `storage` rounds to 0 with this scale (0: none).
inline double lost_share(Rank me, DType storage, float scale, float factor) {
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

/// The mean over a global batch of 16 Mi tokens, as of Llama 3 405B (arXiv 2407.21783, section 3.4.1), of which this
/// rank has 128.
inline constexpr float kFactor = 0x1p-24f;

/// Mean loss of the last of `steps` steps on one batch, in `storage`; scaled with a first scale of `scale`, or not (0).
inline double learned(Rank me, DType storage, float scale, int steps) {
  constexpr float kTokens = 128;
  Training t(me, storage, 16);
  LossScaler scaler = make_loss_scaler(me, scale > 0 ? scale : 1, 20);
  const std::vector<Rank> groups{me};
  for (int i = 0; i < steps; ++i) {
    t.gradients(kFactor, scaler.scale);
    if (scale > 0) {
      scaled_step(me, t.gpt, t.optimizer, scaler, t.scalars, {.learning_rate = 0.01f, .max_norm = 0}, groups,
                  week21::ring_all_reduce);
    } else {
      finish_step(me, t.gpt, t.optimizer, t.scalars, {.learning_rate = 0.01f, .max_norm = 0});
    }
  }
  return number(me, t.scalars.loss) / kFactor / kTokens;
}

}  // namespace lockstep::week22
