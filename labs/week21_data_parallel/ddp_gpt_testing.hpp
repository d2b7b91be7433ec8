// For the tests of 21.7: a small GPT trained by plain gradient descent, under DDP and serially. Plain, because AdamW
// divides by the size of each gradient and so makes a rounding difference in a tiny one as large as a step.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {

inline constexpr std::size_t kLength = 4;  // tokens of a sequence
inline constexpr int kSteps = 3;
inline constexpr float kLearningRate = 0.25f;

inline GptConfig small_gpt() { return {.layers = 2, .heads = 2, .d_model = 8, .vocabulary = 13, .context = kLength}; }

/// Sequences [first, first + count) of step `step`.
inline Batch gpt_batch(Rank me, int step, std::size_t first, std::size_t count) {
  const auto token = [step](std::size_t s, std::size_t t) {
    return static_cast<std::int32_t>((s * s + 3 * t + 5 * step) % 13);
  };
  std::vector<std::int32_t> tokens, targets;
  for (std::size_t s = first; s < first + count; ++s)
    for (std::size_t t = 0; t < kLength; ++t) {
      tokens.push_back(token(s, t));
      targets.push_back(token(s, t + 1));
    }
  Batch batch{me.allocate(tokens.size(), DType::i32, Category::buffer),
              me.allocate(tokens.size(), DType::i32, Category::buffer), count, kLength};
  upload(me, batch.tokens, tokens);
  upload(me, batch.targets, targets);
  return batch;
}

/// Forward and backward of one microbatch; adds weight × ∇(mean loss). No sequences: every gradient is ready as it is.
inline void gpt_pass(Rank me, const Gpt& gpt, const Batch& batch, float weight, const GradientReady& ready) {
  if (batch.sequences == 0) {
    for (std::size_t i = gpt.parameters().list.size(); i-- > 0;) ready(i);
    return;
  }
  Activations saved = gpt.allocate_activations(me, batch.sequences, batch.length);
  Slice loss = me.allocate(1, DType::f32, Category::activation);
  fill(me, loss, 0);
  gpt.forward(me, batch, saved);
  cross_entropy(me, loss, saved.logits, batch.targets, weight / static_cast<float>(batch.rows()));
  gpt.backward(me, batch, saved, ready);
}

/// The mean loss over a batch.
inline double gpt_loss(Rank me, const Gpt& gpt, const Batch& batch) {
  Activations saved = gpt.allocate_activations(me, batch.sequences, batch.length);
  Slice loss = me.allocate(1, DType::f32, Category::activation);
  fill(me, loss, 0);
  gpt.forward(me, batch, saved);
  cross_entropy_loss(me, loss, saved.logits, batch.targets, 1 / static_cast<float>(batch.rows()));
  return read(me, loss, 0);
}

inline void gradient_descent(Rank me, const Parameters& parameters, Values& seen) {
  scale(me, parameters.gradients, -kLearningRate);
  add(me, parameters.values, parameters.gradients);
  testing::append(me, parameters.values, seen);
}

struct GptRun {
  bool overlap = true;
  int passes = 1;  // microbatches of each rank's shard
};

/// Trains on `sequences` a step, each rank on its shard; returns all parameters after each step. Ranks begin with
/// different values, and buckets hold about two tensors.
inline Values train_gpt(Rank dp, std::size_t sequences, GptRun how) {
  Gpt gpt(dp, small_gpt(), /*seed=*/static_cast<std::uint64_t>(dp.rank()));
  const DdpOptions options{.bucket_bytes = 1024, .first_bucket_bytes = 256, .overlap = how.overlap};
  const auto ddp = make_ddp(dp, gpt.parameters(), options, ring_all_reduce);
  const GradientReady ready = [&](std::size_t i) { ddp->gradient_ready(i); };
  const ChunkRange shard = chunk_range(sequences, dp.rank(), dp.size());
  Values seen;
  for (int step = 0; step < kSteps; ++step) {
    fill(dp, gpt.parameters().gradients, 0);
    const auto pass = [&](int i) {
      const ChunkRange part = chunk_range(shard.size, i, how.passes);
      const Batch batch = gpt_batch(dp, step, shard.offset + part.offset, part.size);
      gpt_pass(dp, gpt, batch, shard_weight(part.size, sequences, dp.size()), ready);
    };
    if (how.passes > 1) {
      run_window(*ddp, how.passes, pass);
    } else {
      pass(0);
      ddp->finish();
    }
    gradient_descent(dp, gpt.parameters(), seen);
  }
  return seen;
}

/// The same on one rank: `shards` parts of the batch, each with gradients of its own, then added and averaged.
inline Values train_gpt_serially(Rank me, std::size_t sequences, int shards) {
  Gpt gpt(me, small_gpt(), /*seed=*/0);
  Slice gradients = gpt.parameters().gradients;
  Slice sum = me.allocate(gradients.size(), DType::f32, Category::buffer);
  Values seen;
  for (int step = 0; step < kSteps; ++step) {
    fill(me, sum, 0);
    for (int s = 0; s < shards; ++s) {
      const ChunkRange shard = chunk_range(sequences, s, shards);
      const float weight = static_cast<float>(shard.size) * static_cast<float>(shards) / static_cast<float>(sequences);
      fill(me, gradients, 0);
      gpt_pass(me, gpt, gpt_batch(me, step, shard.offset, shard.size), weight, [](std::size_t) {});
      add(me, sum, gradients);
    }
    copy(me, gradients, sum);
    scale(me, gradients, 1.0f / static_cast<float>(shards));
    gradient_descent(me, gpt.parameters(), seen);
  }
  return seen;
}

/// The first parameter that lies further than `tolerance` from the serial one, by step and tensor; "" when none does.
inline std::string wrong_parameters(const Values& seen, const Values& serial, double tolerance,
                                    const std::string& other = "the serial run") {
  const auto table = gpt_parameter_table(small_gpt());
  const std::size_t count = table.back().offset + table.back().size;
  for (std::size_t i = 0; i < serial.size(); ++i) {
    if (std::abs(seen.at(i) - serial[i]) <= tolerance) continue;
    std::size_t t = 0;
    while (table[t].offset + table[t].size <= i % count) ++t;
    return fmt::format("after step {}, {}[{}] is {:.9g}; {} has {:.9g}", i / count + 1, table[t].name,
                       i % count - table[t].offset, seen[i], other, serial[i]);
  }
  return "";
}

}  // namespace lockstep::week21
