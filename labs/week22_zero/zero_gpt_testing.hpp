// For the tests of week 22: a small GPT trained with AdamW, with one engine per way of sharding, and its judge.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ddp_gpt_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

using testing::Case;

/// The large ε keeps a rounding difference in a gradient that should be 0 (a bias of keys) from becoming a whole step.
inline constexpr AdamW kAdamW{.epsilon = 1e-3f, .weight_decay = 0.1f};
inline constexpr float kRate = 0.03f;
/// Buckets of about two tensors of the small GPT.
inline constexpr week21::DdpOptions kBuckets{.bucket_bytes = 1024, .first_bucket_bytes = 256, .overlap = true};

/// Calls of one way of training around the model's own work. Everything may be empty.
struct StepHooks {
  std::function<void()> begin_step;
  BeforePiece before_forward;
  std::function<void()> end_forward;
  BeforePiece before_backward;
  GradientReady ready;
  std::function<void()> end_backward;
  std::function<void()> step;
};

inline void call(const std::function<void()>& f) {
  if (f) f();
}

/// Forward and backward of one microbatch. Without sequences the hooks are called anyway: the other ranks wait.
inline void engine_pass(Rank me, const Gpt& gpt, const Batch& batch, float weight, const StepHooks& engine) {
  const std::size_t pieces = gpt.config().layers + 2;
  Activations saved;
  if (batch.sequences > 0) {
    saved = gpt.allocate_activations(me, batch.sequences, batch.length);
    gpt.forward(me, batch, saved, engine.before_forward);
  } else if (engine.before_forward) {
    for (std::size_t v = 0; v < pieces; ++v) engine.before_forward(v);
  }
  call(engine.end_forward);
  if (batch.sequences > 0) {
    Slice loss = me.allocate(1, DType::f32, Category::activation);
    fill(me, loss, 0);
    cross_entropy(me, loss, saved.logits, batch.targets, weight / static_cast<float>(batch.rows()));
    gpt.backward(me, batch, saved, engine.ready, engine.before_backward);
  } else {
    for (std::size_t v = pieces; v-- > 0 && engine.before_backward;) engine.before_backward(v);
    for (std::size_t i = gpt.parameters().list.size(); i-- > 0 && engine.ready;) engine.ready(i);
  }
  call(engine.end_backward);
}

/// kSteps steps on `sequences`, each rank on its shard, in `passes` microbatches; all `values()` after each step.
inline Values train_engine(Rank dp, const Gpt& gpt, std::size_t sequences, int passes, const StepHooks& engine,
                           const std::function<std::vector<float>()>& values) {
  const ChunkRange shard = chunk_range(sequences, dp.rank(), dp.size());
  Values seen;
  for (int step = 0; step < week21::kSteps; ++step) {
    call(engine.begin_step);
    for (int i = 0; i < passes; ++i) {
      const ChunkRange part = chunk_range(shard.size, i, passes);
      const Batch batch = week21::gpt_batch(dp, step, shard.offset + part.offset, part.size);
      engine_pass(dp, gpt, batch, week21::shard_weight(part.size, sequences, dp.size()), engine);
    }
    call(engine.step);
    for (float value : values()) seen.push_back(value);
  }
  return seen;
}

/// Plain data parallelism with the whole optimizer on every rank, and the same collectives' order: the oracle.
inline Values train_ddp(Rank dp, std::size_t sequences, DType storage, float max_norm) {
  GptConfig config = week21::small_gpt();
  config.storage = storage;
  Gpt gpt(dp, config, static_cast<std::uint64_t>(dp.rank()));
  const auto ddp = week21::make_ddp(dp, gpt.parameters(), kBuckets, week21::ring_all_reduce);
  Optimizer optimizer(dp, gpt.parameters(), kAdamW);
  Slice factor = dp.allocate(1, DType::f32, Category::buffer), sum = dp.allocate(1, DType::f32, Category::buffer);
  StepHooks engine;
  engine.begin_step = [&] { fill(dp, gpt.parameters().gradients, 0); };
  engine.ready = [&](std::size_t i) { ddp->gradient_ready(i); };
  engine.end_backward = [&] { ddp->finish(); };
  engine.step = [&] {
    if (max_norm > 0) clip(dp, factor, sum, gpt.parameters().gradients, max_norm);
    optimizer.step(dp, kRate, max_norm > 0 ? factor : Slice{});
  };
  return train_engine(dp, gpt, sequences, 1, engine, [&] { return to_host(dp, gpt.parameters().values); });
}

/// Units of the small GPT: the embeddings, four tensors each of the blocks and what follows.
inline std::vector<Unit> gpt_units() {
  const std::vector<Parameter> table = gpt_parameter_table(week21::small_gpt());
  std::vector<Unit> units{make_unit(table, 0, 2)};
  for (std::size_t i = 2; i < table.size(); i += 4)
    units.push_back(make_unit(table, i, std::min<std::size_t>(4, table.size() - i)));
  return units;
}

/// Plain data parallelism again, on units: in every pass the gradients of each are all-reduced and averaged, and the
/// averages of all passes added up.
inline Values train_unit_ddp(Rank dp, std::size_t sequences, int passes, DType storage) {
  GptConfig config = week21::small_gpt();
  config.storage = storage;
  Gpt gpt(dp, config, static_cast<std::uint64_t>(dp.rank()));
  const Slice gradients = gpt.parameters().gradients;
  Slice sum = dp.allocate(gradients.size(), storage, Category::gradient);
  week21::broadcast_values(dp, gpt.parameters().values);
  Optimizer optimizer(dp, gpt.parameters(), kAdamW);
  StepHooks engine;
  engine.begin_step = [&] { fill(dp, sum, 0); };
  engine.end_forward = [&] { fill(dp, gradients, 0); };
  engine.end_backward = [&] {
    for (const Unit& unit : gpt_units())
      week21::average(dp, gradients.cut(unit.offset, unit.size), week21::ring_all_reduce);
    add(dp, sum, gradients);
  };
  engine.step = [&] {
    copy(dp, gradients, sum);
    optimizer.step(dp, kRate);
  };
  return train_engine(dp, gpt, sequences, passes, engine, [&] { return to_host(dp, gpt.parameters().values); });
}

/// What rank 0 of an oracle returns: train(dp, arguments…). It is trained once, because its own work is never
/// perturbed, so that cases which differ only in --perturb have the same one.
template <class... Arguments>
const Values& trained(Values (*train)(Rank, Arguments...), int ranks, std::type_identity_t<Arguments>... arguments) {
  static std::map<std::tuple<decltype(train), int, Arguments...>, Values> known;
  Values& values = known[{train, ranks, arguments...}];
  if (values.empty())
    values = run({.ranks = ranks}, Program([&](Rank dp) { return train(dp, arguments...); })).check().values[0];
  return values;
}

inline constexpr const char* kEveryBit = "; it adds in the same order, so every bit must agree";

/// The first value that differs from `other`'s by more than `tolerance`, by rank, step and tensor; "" when none.
inline std::string differs_from(const Outcome& outcome, const Values& oracle, double tolerance,
                                const std::string& other, const char* why = "") {
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
    const Values& seen = outcome.values[rank];
    if (seen.size() < oracle.size())
      return fmt::format("rank {} returned {} values, expected {}", rank, seen.size(), oracle.size());
    const std::string wrong = week21::wrong_parameters(seen, oracle, tolerance, other);
    if (!wrong.empty()) return fmt::format("rank {}: {}{}.", rank, wrong, why);
  }
  return "";
}

/// For 22.2's tests of parts b and c, in zero1_test.cpp: what is wrong with part a, "22.2a first: …"; "" if nothing is.
std::string wrong_zero1_a();

}  // namespace lockstep::week22
