// Shared by the tests of 25.2: a small model on any mesh, the same run by the serial oracle, and the comparison.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week25_3d/step_3d.hpp"

namespace lockstep::week25 {

/// Two sequences for one of the microbatches, one for the others; six layers, so that eight stages have a piece each.
inline Options3d small_options(const MeshShape& mesh) {
  Options3d o;
  const std::size_t heads = 8 % mesh.tp == 0 ? 8 : 6 % mesh.tp == 0 ? 6 : static_cast<std::size_t>(mesh.tp);
  o.model = {.layers = 6, .heads = heads, .d_model = 4 * heads, .vocabulary = 37, .context = 8};
  o.mesh = mesh;
  o.sequence = 8;
  o.microbatches = 3;
  o.batch = static_cast<std::size_t>(mesh.dp * o.microbatches) + 1;
  o.bucket_bytes = 4000;
  o.adamw.epsilon = 1e-3f;  // a step follows the size of the gradient: a rounded tiny one stays tiny
  o.seed = 5 + testing::drawn({25, 6}, 1000);
  return o;
}

struct Compared {
  bool norm = true, update = true, values = true;
  int steps = 2;
  float max_norm = 0.3f;
  bool spoil = false;  // in the second step one gradient of the last rank becomes infinite
};

/// Options of update: no step is like the one before.
inline StepOptions options_of(const Compared& what, int step) {
  return {.learning_rate = step % 2 == 0 ? 0.02f : 0.03f,
          .max_norm = step % 2 == 0 ? what.max_norm : what.max_norm / 2};
}

/// The sentence that check() refuses these options with, or "".
inline std::string refusal(const Options3d& options) {
  try {
    check(options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Sequences [first, first + batch.sequences) of a step's global batch.
inline void upload_sequences(Rank me, const Batch& batch, std::size_t first, std::size_t vocabulary, int step) {
  std::vector<std::int32_t> tokens, targets;
  const std::size_t from = testing::drawn({25, 7, static_cast<std::uint64_t>(step)}, 1 << 20);
  for (std::size_t n = first * batch.length; n < first * batch.length + batch.rows(); ++n) {
    const std::size_t mixed = ((n + from) * 2654435761u + static_cast<std::size_t>(step) * 40503u) >> 5;
    tokens.push_back(static_cast<std::int32_t>(mixed % vocabulary));
    targets.push_back(n % 5 == 4 ? -1 : static_cast<std::int32_t>((mixed / 7) % vocabulary));
  }
  upload(me, batch.tokens, tokens);
  upload(me, batch.targets, targets);
}

/// Appends tensor number, elements and values.
inline void append_tensors(Rank me, const GptStage& stage, const std::vector<Slice>& flat, Values& seen) {
  std::size_t engine = flat.size() > 1 ? 1 : 0, offset = 0;  // the shared embedding, tensor 0, is the second engine's
  for (std::size_t i = 0; i < stage.tensors().size(); ++i) {
    const std::size_t size = const_cast<GptStage&>(stage).parameters().list[i].size;
    seen.push_back(static_cast<double>(stage.tensors()[i]));
    seen.push_back(static_cast<double>(size));
    testing::append(me, flat[engine].cut(offset, size), seen);
    offset += size;
    if (i == 0 && flat.size() > 1) engine = 0, offset = 0;
  }
}

/// Losses of the steps, squared norms, loss scales; then all tensors of this rank: values, or without update gradients.
inline Values train_3d(Rank me, const Options3d& o, const Compared& what) {
  Worker worker = make_worker(make_mesh(me, o.mesh, o.order), o);
  const std::size_t begin = chunk_range(o.batch, worker.mesh.here.dp, o.mesh.dp).offset;
  Values seen;
  for (int step = 0; step < what.steps; ++step) {
    std::size_t first = begin;
    for (const Batch& batch : worker.batches) {
      upload_sequences(me, batch, first, o.model.vocabulary, step);
      first += batch.sequences;
    }
    for (const Slice& left : {worker.scalars.loss, worker.scalars.squares}) fill(me, left, 7);  // from a step before
    accumulate_gradients(worker);
    if (what.spoil && step == 1 && me.rank() + 1 == me.size())
      fill(me, worker.gradient_shares().back(), std::numeric_limits<float>::infinity());
    if (what.update)
      update(worker, options_of(what, step).learning_rate, options_of(what, step).max_norm);
    else if (what.norm)
      sum_of_squares(worker, worker.scalars.squares);
    seen.push_back(read(me, worker.scalars.loss, 0));
    seen.push_back(what.norm ? read(me, worker.scalars.squares, 0) : 0);
    seen.push_back(worker.scaler ? read(me, worker.scaler->scale, 0) : 0);
  }
  std::vector<Slice> flat;
  for (const auto& engine : worker.engines) {
    if (what.update) engine->hold_whole_values();
    if (what.values) flat.push_back(what.update ? engine->whole_values() : engine->gradient_shares().at(0));
  }
  if (what.values && (what.update || o.zero == 0)) append_tensors(me, *worker.stage, flat, seen);
  return seen;
}

/// The same by the oracle: the global batch in microbatches of one replica after the other.
inline Values train_serially(Rank me, const Options3d& o, const Compared& what) {
  GptConfig config = o.model;
  Gpt gpt(me, config, o.seed);
  Optimizer optimizer(me, gpt.parameters(), o.adamw);
  std::optional<week22::LossScaler> scaler;
  if (o.loss_scale) scaler = week22::make_loss_scaler(me, *o.loss_scale, o.loss_scale_interval);
  const std::size_t length = o.sequence;
  Slice tokens = me.allocate(o.batch * length, DType::i32, Category::buffer),
        targets = me.allocate(o.batch * length, DType::i32, Category::buffer);
  std::vector<Batch> batches;
  std::size_t largest = 0;
  for (int replica = 0; replica < o.mesh.dp; ++replica) {
    const ChunkRange shard = chunk_range(o.batch, replica, o.mesh.dp);
    for (int i = 0; i < o.microbatches; ++i) {
      const ChunkRange part = chunk_range(shard.size, i, o.microbatches);
      const std::size_t first = (shard.offset + part.offset) * length, count = part.size * length;
      batches.push_back({tokens.cut(first, count), targets.cut(first, count), part.size, length});
      largest = std::max(largest, part.size);
    }
  }
  Activations saved = gpt.allocate_activations(me, largest, length);
  StepScalars scalars = allocate_step_scalars(me);
  const float factor = 1 / static_cast<float>(o.batch * length);
  Values seen;
  for (int step = 0; step < what.steps; ++step) {
    upload_sequences(me, {tokens, targets, o.batch, length}, 0, o.model.vocabulary, step);
    fill(me, scalars.loss, 0);
    accumulate_gradients(me, gpt, batches, saved, scalars.loss, factor, {}, scaler ? scaler->scale : Slice{});
    if (what.spoil && step == 1) fill(me, gpt.parameters().gradients, std::numeric_limits<float>::infinity());
    const StepOptions step_options = options_of(what, step);
    fill(me, scalars.squares, 0);
    add_squares(me, scalars.squares, gpt.parameters().gradients);
    if (what.update && scaler)
      week22::scaled_step(me, gpt, optimizer, *scaler, scalars, step_options, {}, [](Rank, Slice) {});
    else if (what.update)
      finish_step(me, gpt, optimizer, scalars, step_options);
    seen.push_back(read(me, scalars.loss, 0));
    seen.push_back(what.norm ? read(me, scalars.squares, 0) : 0);
    seen.push_back(scaler ? read(me, scaler->scale, 0) : 0);
  }
  testing::append(me, what.update ? gpt.parameters().values : gpt.parameters().gradients, seen);
  return seen;
}

inline std::string words(const MeshShape& mesh) {
  return fmt::format("on (dp, tp, pp) = ({}, {}, {})", mesh.dp, mesh.tp, mesh.pp);
}

/// Compares a rank's tensors, from `at` on in `seen`, with the serial ones from `serial_at` on.
inline std::string unlike_tensors(const Values& seen, std::size_t at, const Values& serial, std::size_t serial_at,
                                  const GptConfig& part, double tolerance, const char* kind) {
  GptConfig whole = part, cut = part;
  whole.tensor = {};
  cut.tensor.cut = nullptr;  // where an element belongs is not asked of the answers
  const std::vector<Parameter> own = gpt_parameter_table(part), table = gpt_parameter_table(whole);
  while (at < seen.size()) {
    const auto t = static_cast<std::size_t>(seen[at]);
    const auto size = static_cast<std::size_t>(seen.at(at + 1));
    if (size != own.at(t).size || size > seen.size() - at - 2) return "a rank's tensors are not those of its stage";
    const std::span<const double> here = std::span(seen).subspan(at + 2, size),
                                  there = std::span(serial).subspan(serial_at + table[t].offset, table[t].size);
    const double within = tolerance * (testing::largest(there) + 0.02);
    for (const TensorRun& run : tensor_runs(cut, own[t])) {
      if (run.serial == TensorRun::kPadding) continue;
      const std::span<const double> values = here.subspan(run.own, run.size),
                                    exact = there.subspan(run.serial, run.size);
      if (const std::size_t i = testing::first_unlike(values, exact, within); i < run.size)
        return fmt::format("the {} of {}, element {}, is {:.7g}; in the serial run it is {:.7g}", kind, own[t].name,
                           run.own + i, values[i], exact[i]);
    }
    at += 2 + size;
  }
  return "";
}

/// Says which ranks have which part of the gradient that `wrong` names, where that is not all of it.
inline std::string whose_gradient(const std::string& wrong, const Options3d& o) {
  const auto names = [&](const char* tensor) { return wrong.find(tensor) != wrong.npos; };
  if (names("token_embedding") && o.model.tied_head && o.mesh.pp > 1)
    return ". The first and the last stage have a part of it each, and both need the sum, once their windows have "
           "ended";
  if (names("norm") && o.mesh.tp > 1)
    return o.sequence_parallel
               ? ". With sequence parallelism every rank of tp has its rows' part: are they summed, once?"
               : ". Every rank of tp has all of it: there is nothing to sum";
  return "";
}

/// Says what makes a squared norm so many times the serial one; gradients are scaled by `scale`.
inline std::string why_not_the_norm(double times, float scale) {
  if (scale != 1 && std::abs(times / (scale * scale) - 1) < 0.1)
    return "it is that of the scaled gradients, and becomes the true ones' (22.5's unscale)";
  return fmt::format("every parameter counts once, and here some {}",
                     times > 1 ? "count on several ranks" : "count on none");
}

/// Finds what differs from the serial run first: a loss, a norm, a loss scale, or a tensor; "" when nothing does.
inline std::string first_difference(const Outcome& outcome, const Options3d& o, const Compared& what) {
  const Values serial =
      run({.ranks = 1, .threads = 1}, Program([&](Rank me) { return train_serially(me, o, what); })).check().values[0];
  // fp32: sums over ranks and microbatches round in another order. 16 bits: each gradient is rounded once a microbatch
  // and once a step of a ring, to 8 or 11 bits.
  const bool full = o.model.storage == DType::f32;
  const double loss_tolerance = full ? 2e-6 : 4e-3, norm_tolerance = full ? 1e-5 : 5e-2, tolerance = full ? 1e-4 : 0.25;
  for (int step = 0; step < what.steps; ++step) {
    const auto at = static_cast<std::size_t>(3 * step);
    double loss = 0;
    for (const Values& seen : outcome.values) loss += seen.at(at) / (o.mesh.dp * o.mesh.tp);
    if (!(std::abs(loss - serial[at]) <= loss_tolerance * serial[at]))
      return fmt::format("{}: the loss of step {} is {:.7g}, of the serial run {:.7g}{}", words(o.mesh), step + 1, loss,
                         serial[at], step > 0 ? ": the update before it was another" : "");
    for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
      const double squares = outcome.values[rank][at + 1], scale = outcome.values[rank][at + 2];
      if (squares != squares && serial[at + 1] == serial[at + 1])
        return fmt::format(
            "{}: rank {} has a squared gradient norm that is not a number in step {}: is it computed, and from 0 on?",
            words(o.mesh), rank, step + 1);
      if (squares == squares && squares != outcome.values[0][at + 1])
        return fmt::format("{}: rank {} has a squared gradient norm of {:.7g} in step {}, rank 0 {:.7g}", words(o.mesh),
                           rank, squares, step + 1, outcome.values[0][at + 1]);
      if (!(std::abs(squares - serial[at + 1]) <= norm_tolerance * serial[at + 1]))
        return fmt::format("{}: the squared gradient norm of step {} is {:.7g}, of the serial run {:.7g}: {}",
                           words(o.mesh), step + 1, squares, serial[at + 1],
                           step > 0 ? "that of the step before is right, so the update between them was another"
                                    : why_not_the_norm(squares / serial[at + 1], o.loss_scale.value_or(1)));
      if (scale != serial[at + 2])
        return fmt::format(
            "{}: after step {} rank {} has a loss scale of {}, the serial run {}: an overflow on one rank "
            "is one on all",
            words(o.mesh), step + 1, rank, scale, serial[at + 2]);
    }
  }
  const auto head = static_cast<std::size_t>(3 * what.steps);
  for (int rank = 0; rank < o.mesh.ranks(); ++rank) {
    const GptConfig part = o.part(coordinate_of(o.mesh, o.order, rank).tp);
    const std::string wrong = unlike_tensors(outcome.values[static_cast<std::size_t>(rank)], head, serial, head, part,
                                             tolerance, what.update ? "value" : "gradient");
    if (!wrong.empty())
      return fmt::format("{}: rank {}: {}{}", words(o.mesh), rank, wrong, what.update ? "" : whose_gradient(wrong, o));
  }
  return "";
}

/// The same of a part of the step alone; "" where that part is right.
inline std::string wrong_part(const Options3d& o, const Compared& what) {
  const Outcome outcome =
      run({.ranks = o.mesh.ranks(), .threads = 1}, Program([&](Rank me) { return train_3d(me, o, what); }));
  return outcome.passed() ? first_difference(outcome, o, what) : outcome.message;
}

/// first_difference; and where an earlier part is wrong, which the later ones are made of, that part's instead.
inline std::string unlike_the_serial_run(const Outcome& outcome, const Options3d& o, const Compared& what) {
  const std::string wrong = first_difference(outcome, o, what);
  if (wrong.empty() || (!what.norm && !what.update)) return wrong;
  Options3d whole = o;
  whole.zero = 0;
  if (const std::string a = wrong_part(whole, {.norm = false, .update = false, .steps = 1}); !a.empty())
    return "25.2b first: " + a;
  if (!what.update || o.loss_scale) return wrong;
  const std::string b = wrong_part(o, {.norm = true, .update = false, .values = false, .steps = 1});
  return b.empty() ? wrong : "25.2c first: " + b;
}

}  // namespace lockstep::week25
