// Exercise 25.2: the 3D training step. Read labs/week25_3d/step_3d.hpp first.
#include "labs/week25_3d/step_3d.hpp"

#include <array>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week25 {

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
  todo("25.2a",
       "the schedule, on this stage; the end of every engine's window; norms, where their gradients are partial "
       "(norm_gradients, week23::sum_norm_gradients); the shared embedding's shares, over both stages");
}

namespace {

/// Is this rank the one that counts `piece` of the gradients of engine `engine`?
bool counts(const Worker& worker, std::size_t engine, const Piece& piece) {
  const Coordinate& here = worker.mesh.here;
  todo("25.2b",
       "of the ranks that hold the same elements, the first on the axis counts them. Engine 1 has the embedding that "
       "two stages hold");
}

}  // namespace

void sum_of_squares(const Worker& worker, Slice squares) {
  const Mesh& mesh = worker.mesh;
  fill(mesh.world, squares, 0);
  todo("25.2b",
       "add_squares of every piece that counts here; then the sum over each axis along which ranks have different "
       "ones, one after the other");
}

namespace {

/// The update with a loss scale, worker.scaler.
void scaled_update(Worker& worker, float learning_rate, float max_norm) {
  Rank me = worker.mesh.world;
  const std::array<Rank, 3> axes = {worker.mesh.dp, worker.mesh.tp, worker.mesh.pp};
  const StepScalars& scalars = worker.scalars;
  week22::LossScaler& scaler = *worker.scaler;
  todo("25.2c",
       "find_overflow_everywhere in all gradient shares, over all axes; the squares; unscale them, for the factor; a "
       "step of every engine, which an overflow skips; the next scale");
}

}  // namespace

void update(Worker& worker, float learning_rate, float max_norm) {
  if (worker.scaler) return scaled_update(worker, learning_rate, max_norm);
  const StepScalars& scalars = worker.scalars;
  todo("25.2c",
       "the squares; clip_factor, where there is a max_norm; a step of every engine, with the factor where there is "
       "one");
}

}  // namespace lockstep::week25
