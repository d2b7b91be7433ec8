// Given: everything that one rank of a 3D run has, made of your weeks 21 to 24 and of 25.1 by make_worker
// (labs/trainer/worker.hpp).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/gpt/model/serial.hpp"
#include "common/gpt/model/stage.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"
#include "labs/week24_pipeline/stages.hpp"
#include "labs/week25_3d/engine.hpp"
#include "labs/week25_3d/mesh.hpp"

namespace lockstep::week25 {

struct Worker {
  Mesh mesh;
  week23::TensorParallel tp;   ///< on mesh.tp
  week24::Pipeline pipeline;   ///< on mesh.pp
  StageSchedule schedule;      ///< of this stage
  std::vector<Batch> batches;  ///< of this replica; to be filled before each step
  std::unique_ptr<GptStage> stage;
  /// Its tensors on the axis dp. Where the token embedding is on another stage too it has an engine of its own, the
  /// second, so that both stages shard it in the same way.
  std::vector<std::unique_ptr<Engine>> engines;
  StepScalars scalars;                       ///< loss: this rank's, of tokens of this replica, × dp
  std::optional<week22::LossScaler> scaler;  ///< of fp16
  bool norms_in_parts = false;  ///< sequence parallelism: norms' gradients are partial, each rank's from its own rows
  bool sharded = false;         ///< ZeRO, or experts: ranks of dp have different parts of the gradients
  bool values_sharded = false;  ///< ZeRO-3: of the values too

  /// Gradient shares of all engines.
  std::vector<Slice> gradient_shares() const {
    std::vector<Slice> all;
    for (const auto& engine : engines)
      for (const Slice& share : engine->gradient_shares()) all.push_back(share);
    return all;
  }
  std::vector<Optimizer*> optimizers() const {
    std::vector<Optimizer*> all;
    for (const auto& engine : engines)
      for (Optimizer* optimizer : engine->optimizers()) all.push_back(optimizer);
    return all;
  }
};

}  // namespace lockstep::week25
