// Exercise 25.2: the 3D training step. Read labs/week25_3d/step_3d.hpp first.
#include "labs/week25_3d/step_3d.hpp"

#include <array>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week25 {

OnAxes on_axes(Gradient gradient) {
  using enum Has;
  // lab 25.2a begin: for each gradient {what it is on tp, on pp, on dp}; there is none without a partial
  switch (gradient) {
    case Gradient::qkv_weight: return {sharded, alone, partial};
    case Gradient::qkv_bias: return {sharded, alone, partial};
    case Gradient::projection_bias: return {replicated, alone, partial};
    case Gradient::norm_gain: return {replicated, alone, partial};
    case Gradient::norm_gain_of_own_rows: return {partial, alone, partial};
    case Gradient::untied_embedding: return {sharded, alone, partial};
    case Gradient::tied_embedding: return {sharded, partial, partial};
  }
  return {};
  // lab end
}

namespace {

/// The gradients of norms among the shares of this rank, which 23.5's sum takes.
std::vector<Slice> norm_gradients(const Worker& worker) {
  std::vector<Slice> norms;
  for (const auto& engine : worker.engines)
    for (const Piece& piece : engine->gradient_pieces())
      if (piece.norm) norms.push_back(piece.elements);
  return norms;
}

}  // namespace

void accumulate_gradients(Worker& worker) {
  Rank me = worker.mesh.world;
  fill(me, worker.scalars.loss, 0);
  // lab 25.2b begin: run this stage's schedule, and leave this rank's gradients complete: for every partial of your
  // table the reduction that it needs, where it needs one (norm_gradients above is for one of them)
  week24::run_schedule(worker.pipeline, worker.schedule, *worker.stage);
  for (const auto& engine : worker.engines) engine->finish();
  if (worker.norms_in_parts) week23::sum_norm_gradients(worker.tp, norm_gradients(worker));
  if (worker.stage->shares_embedding())
    for (const Slice& share : worker.engines[1]->gradient_shares()) worker.stage->sum_tied(share);
  // lab end
}

namespace {

/// Is this rank the one that counts `piece` of the gradients of engine `engine`?
bool counts(const Worker& worker, std::size_t engine, const Piece& piece) {
  const Coordinate& here = worker.mesh.here;
  // lab 25.2c begin: true on exactly one of a replica's ranks that hold these elements. Engine 1 has the embedding that
  // two stages hold
  const bool held_by_all_of_tp = !piece.cut, held_by_two_stages = engine == 1;
  return !(held_by_all_of_tp && here.tp > 0) && !(held_by_two_stages && here.pp > 0);
  // lab end
}

}  // namespace

void sum_of_squares(const Worker& worker, Slice squares) {
  const Mesh& mesh = worker.mesh;
  fill(mesh.world, squares, 0);
  // lab 25.2c begin: Σ g² over the whole model, each parameter once, on every rank
  for (std::size_t e = 0; e < worker.engines.size(); ++e)
    for (const Piece& piece : worker.engines[e]->gradient_pieces())
      if (counts(worker, e, piece)) add_squares(mesh.world, squares, piece.elements);
  week21::ring_all_reduce(mesh.tp, squares);
  week21::ring_all_reduce(mesh.pp, squares);
  if (worker.sharded) week21::ring_all_reduce(mesh.dp, squares);
  // lab end
}

namespace {

/// The update with a loss scale, worker.scaler.
void scaled_update(Worker& worker, float learning_rate, float max_norm) {
  Rank me = worker.mesh.world;
  const std::array<Rank, 3> axes = {worker.mesh.dp, worker.mesh.tp, worker.mesh.pp};
  const StepScalars& scalars = worker.scalars;
  week22::LossScaler& scaler = *worker.scaler;
  // lab 25.2d begin: the step of 22.5, of all engines: skipped on all ranks where one has an overflow, else clipped by
  // the norm of the true gradients, which scalars.squares is the square of; and the next scale
  week22::find_overflow_everywhere(me, scaler, worker.gradient_shares(), axes, week21::ring_all_reduce);
  sum_of_squares(worker, scalars.squares);
  week22::unscale(me, scaler, scalars.factor, scalars.squares, max_norm);
  for (const auto& engine : worker.engines)
    engine->step(learning_rate, scalars.factor, scaler.overflow, scaler.skipped);
  week22::update_scale(me, scaler);
  // lab end
}

}  // namespace

void update(Worker& worker, float learning_rate, float max_norm) {
  if (worker.scaler) return scaled_update(worker, learning_rate, max_norm);
  const StepScalars& scalars = worker.scalars;
  // lab 25.2d begin: scalars.squares, whatever max_norm is; and a step of every engine, clipped where there is a
  // max_norm
  sum_of_squares(worker, scalars.squares);
  if (max_norm > 0) clip_factor(worker.mesh.world, scalars.factor, scalars.squares, max_norm);
  for (const auto& engine : worker.engines)
    engine->step(learning_rate, max_norm > 0 ? scalars.factor : Slice(), {}, {});
  // lab end
}

}  // namespace lockstep::week25
