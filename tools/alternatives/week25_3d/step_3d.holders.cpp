// 25.2 with every rank counting its share: each holder of an element adds its square divided by the number of holders.
// The two sums that are left of the gradients come in the other order.
#include "labs/week25_3d/step_3d.hpp"

#include <array>
#include <map>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::week25 {
namespace {

void sum_shared_embedding(Worker& worker) {
  if (!worker.stage->shares_embedding()) return;
  for (const Slice& share : worker.engines.at(1)->gradient_shares()) worker.stage->sum_tied(share);
}

void sum_norms(Worker& worker) {
  std::vector<Slice> norms;
  for (auto engine = worker.engines.rbegin(); engine != worker.engines.rend(); ++engine)
    for (const Piece& piece : (*engine)->gradient_pieces())
      if (piece.norm) norms.push_back(piece.elements);
  week23::sum_norm_gradients(worker.tp, norms);
}

}  // namespace

OnAxes on_axes(Gradient gradient) {
  constexpr auto kAlone = Has::alone, kSharded = Has::sharded, kSame = Has::replicated, kPart = Has::partial;
  static constexpr std::array<OnAxes, 7> kTable = {{{kSharded, kAlone, kPart},
                                                    {kSharded, kAlone, kPart},
                                                    {kSame, kAlone, kPart},
                                                    {kSame, kAlone, kPart},
                                                    {kPart, kAlone, kPart},
                                                    {kSharded, kAlone, kPart},
                                                    {kSharded, kPart, kPart}}};
  return kTable.at(static_cast<std::size_t>(gradient));
}

void accumulate_gradients(Worker& worker) {
  fill(worker.mesh.world, worker.scalars.loss, 0);
  week24::run_schedule(worker.pipeline, worker.schedule, *worker.stage);
  for (std::size_t e = 0; e < worker.engines.size(); ++e) worker.engines[e]->finish();
  sum_shared_embedding(worker);
  if (worker.norms_in_parts) sum_norms(worker);
}

void sum_of_squares(const Worker& worker, Slice squares) {
  Rank me = worker.mesh.world;
  std::map<int, Slice> by_holders;  // the sum of squares of what so many ranks of a replica hold
  for (int tensor : {1, worker.mesh.shape.tp})
    for (int stages : {1, 2})
      if (!by_holders.contains(tensor * stages)) {
        by_holders[tensor * stages] = me.allocate(1, DType::f32, Category::buffer);
        fill(me, by_holders[tensor * stages], 0);
      }
  for (std::size_t e = 0; e < worker.engines.size(); ++e)
    for (const Piece& piece : worker.engines[e]->gradient_pieces()) {
      const int tensor = piece.cut ? 1 : worker.mesh.shape.tp, stages = e == 0 ? 1 : 2;
      add_squares(me, by_holders[tensor * stages], piece.elements);
    }
  fill(me, squares, 0);
  for (auto& [holders, sum] : by_holders) {
    scale(me, sum, 1.0f / static_cast<float>(holders));
    add(me, squares, sum);
  }
  if (worker.sharded) week21::ring_all_reduce(worker.mesh.dp, squares);
  week21::ring_all_reduce(worker.mesh.pp, squares);
  week21::ring_all_reduce(worker.mesh.tp, squares);
}

void update(Worker& worker, float learning_rate, float max_norm) {
  Rank me = worker.mesh.world;
  const StepScalars& scalars = worker.scalars;
  Slice factor, overflow, skipped;
  if (worker.scaler) {
    const Rank axes[] = {worker.mesh.pp, worker.mesh.tp, worker.mesh.dp};
    week22::find_overflow_everywhere(me, *worker.scaler, worker.gradient_shares(), axes, week21::ring_all_reduce);
    overflow = worker.scaler->overflow;
    skipped = worker.scaler->skipped;
  }
  sum_of_squares(worker, scalars.squares);
  if (worker.scaler) {
    week22::unscale(me, *worker.scaler, scalars.factor, scalars.squares, max_norm);
    factor = scalars.factor;
  } else if (max_norm > 0) {
    clip_factor(me, scalars.factor, scalars.squares, max_norm);
    factor = scalars.factor;
  }
  for (const auto& engine : worker.engines) engine->step(learning_rate, factor, overflow, skipped);
  if (worker.scaler) week22::update_scale(me, *worker.scaler);
}

}  // namespace lockstep::week25
