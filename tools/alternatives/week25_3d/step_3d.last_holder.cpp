// 25.2 with the last holder of an element counting it, one sum of squares for each engine, and one sum over the whole
// mesh: over the world, where every replica has its own share; else by replica 0 alone.
#include "labs/week25_3d/step_3d.hpp"

#include <array>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week25 {
namespace {

bool is_last(int coordinate, int length) { return coordinate + 1 == length; }

bool counted_here(const Worker& worker, bool shared, const Piece& piece) {
  const Coordinate& here = worker.mesh.here;
  const MeshShape& shape = worker.mesh.shape;
  if (!worker.sharded && here.dp != 0) return false;
  if (shared && !is_last(here.pp, shape.pp)) return false;
  return piece.cut || is_last(here.tp, shape.tp);
}

std::vector<Piece> pieces_of(const Worker& worker) {
  std::vector<Piece> all;
  for (std::size_t e = 0; e < worker.engines.size(); ++e)
    for (const Piece& piece : worker.engines[e]->gradient_pieces())
      if (counted_here(worker, e == 1, piece)) all.push_back(piece);
  return all;
}

}  // namespace

OnAxes on_axes(Gradient gradient) {
  OnAxes has{.tp = Has::sharded, .pp = Has::alone, .dp = Has::partial};
  if (gradient == Gradient::projection_bias || gradient == Gradient::norm_gain) has.tp = Has::replicated;
  if (gradient == Gradient::norm_gain_of_own_rows) has.tp = Has::partial;
  if (gradient == Gradient::tied_embedding) has.pp = Has::partial;
  return has;
}

void accumulate_gradients(Worker& worker) {
  fill(worker.mesh.world, worker.scalars.loss, 0);
  week24::run_schedule(worker.pipeline, worker.schedule, *worker.stage);
  std::vector<Slice> norms;
  for (const auto& engine : worker.engines) {
    engine->finish();
    for (const Piece& piece : engine->gradient_pieces())
      if (piece.norm && worker.norms_in_parts) norms.push_back(piece.elements);
  }
  if (!norms.empty()) week23::sum_norm_gradients(worker.tp, norms);
  if (!worker.stage->shares_embedding()) return;
  const std::vector<Slice> shares = worker.engines.back()->gradient_shares();
  for (std::size_t i = 0; i < shares.size(); ++i) worker.stage->sum_tied(shares[i]);
}

void sum_of_squares(const Worker& worker, Slice squares) {
  Rank world = worker.mesh.world;
  fill(world, squares, 0);
  for (const Piece& piece : pieces_of(worker)) add_squares(world, squares, piece.elements);
  week21::ring_all_reduce(world, squares);
}

void update(Worker& worker, float learning_rate, float max_norm) {
  Rank world = worker.mesh.world;
  const std::array<Rank, 1> everybody = {world};
  const StepScalars& scalars = worker.scalars;
  week22::LossScaler* scaler = worker.scaler ? &*worker.scaler : nullptr;
  if (scaler)
    week22::find_overflow_everywhere(world, *scaler, worker.gradient_shares(), everybody, week21::ring_all_reduce);
  sum_of_squares(worker, scalars.squares);
  if (scaler)
    week22::unscale(world, *scaler, scalars.factor, scalars.squares, max_norm);
  else if (max_norm > 0)
    clip_factor(world, scalars.factor, scalars.squares, max_norm);
  else
    fill(world, scalars.factor, 1);
  for (const auto& engine : worker.engines)
    engine->step(learning_rate, scalars.factor, scaler ? scaler->overflow : Slice(),
                 scaler ? scaler->skipped : Slice());
  if (scaler) week22::update_scale(world, *scaler);
}

}  // namespace lockstep::week25
