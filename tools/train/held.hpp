// The state that a rank's optimizers hold, as elements of the serial model.
#pragma once

#include <array>
#include <vector>

#include "common/gpt/checkpoint/manifest.hpp"
#include "common/gpt/checkpoint/pieces.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"

namespace lockstep::train {

/// One of a rank's optimizers: an inner one, or the outer one (21.12).
struct Held {
  Optimizer* optimizer = nullptr;
  week21::LocalSgd* outer = nullptr;
  std::vector<checkpoint::Run> runs;     // which elements of the serial model its arrays are; padding is none
  std::vector<checkpoint::Run> written;  // those that no other rank writes
};

/// Some tensors of a rank, as its optimizers have them.
struct HeldTensors {
  GptConfig part;                     // this rank's part of every layer
  std::vector<Parameter> table;       // of these tensors, offsets in the optimizers' flat values
  std::vector<std::size_t> in_model;  // the place of each in the whole model's table
  std::vector<Unit> units;            // with ZeRO: an optimizer has this rank's chunk of each; else empty
  bool writes = true;                 // false where another stage has the same and writes it
  bool alone = false;                 // no other rank of dp has these shards: experts
};
/// One Held for each optimizer. Of replicated state, each rank of `dp` writes a share; of what tensor-parallel ranks
/// replicate, the first writes all.
std::vector<Held> held_by(const std::vector<Optimizer*>& optimizers, const HeldTensors& tensors, Rank dp);
/// For replicas that step on their own. A checkpoint then holds p + 1 models one after the other. The first is that of
/// the last outer step, with the velocity in place of m, of which each rank writes a share. Then comes each replica's
/// own.
std::vector<Held> held_by(Optimizer& optimizer, week21::LocalSgd& outer, const HeldTensors& tensors, Rank dp);

/// Its arrays as checkpoints have them; empty ones are zeros.
std::array<Slice, checkpoint::kArrays> arrays_of(const Held& held);
/// Elements of each.
std::size_t size_of(const Held& held);

/// The runs of all optimizers one after the other, with places in their arrays joined.
std::vector<checkpoint::Run> joined(const std::vector<Held>& held);

}  // namespace lockstep::train
