// Exercise 25.2: the 3D training step. Read labs/week25_3d/step_3d.hpp first.
#include "labs/week25_3d/step_3d.hpp"

#include <array>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week25 {

OnAxes on_axes(Gradient gradient) {
  using enum Has;
  todo("25.2a", "for each gradient {what it is on tp, on pp, on dp}; there is none without a partial");
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
  todo("25.2b",
       "run this stage's schedule, and leave this rank's gradients complete: for every partial of your table the "
       "reduction that it needs, where it needs one (norm_gradients above is for one of them)");
}

namespace {

/// Is this rank the one that counts `piece` of the gradients of engine `engine`?
bool counts(const Worker& worker, std::size_t engine, const Piece& piece) {
  const Coordinate& here = worker.mesh.here;
  todo("25.2c",
       "true on exactly one of a replica's ranks that hold these elements. Engine 1 has the embedding that two "
       "stages hold");
}

}  // namespace

void sum_of_squares(const Worker& worker, Slice squares) {
  const Mesh& mesh = worker.mesh;
  fill(mesh.world, squares, 0);
  todo("25.2c", "Σ g² over the whole model, each parameter once, on every rank");
}

namespace {

/// The update with a loss scale, worker.scaler.
void scaled_update(Worker& worker, float learning_rate, float max_norm) {
  Rank me = worker.mesh.world;
  const std::array<Rank, 3> axes = {worker.mesh.dp, worker.mesh.tp, worker.mesh.pp};
  const StepScalars& scalars = worker.scalars;
  week22::LossScaler& scaler = *worker.scaler;
  todo("25.2d",
       "the step of 22.5, of all engines: skipped on all ranks where one has an overflow, else clipped by the norm "
       "of the true gradients, which scalars.squares is the square of; and the next scale");
}

}  // namespace

void update(Worker& worker, float learning_rate, float max_norm) {
  if (worker.scaler) return scaled_update(worker, learning_rate, max_norm);
  const StepScalars& scalars = worker.scalars;
  todo("25.2d", "scalars.squares, whatever max_norm is; and a step of every engine, clipped where there is a "
                "max_norm");
}

}  // namespace lockstep::week25
