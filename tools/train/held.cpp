#include "tools/train/held.hpp"

#include "common/chunk.hpp"

namespace lockstep::train {

using checkpoint::Run;

namespace {

/// The elements [range.first, …) of a table's flat values, as elements of the serial model, counted from range.first.
std::vector<Run> runs_of(const HeldTensors& tensors, Range range, bool only_own, bool first = true) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < tensors.table.size(); ++i) {
    const Parameter& tensor = tensors.table[i];
    if (only_own && (!tensors.writes || (!tensor.cut && (tensors.part.tensor.rank > 0 || !first)))) continue;
    if (tensor.offset + tensor.size <= range.first || tensor.offset >= range.first + range.count) continue;
    for (const TensorRun& run : tensor_runs(tensors.part, tensor))
      if (run.serial != TensorRun::kPadding)
        runs.push_back({tensors.in_model[i], run.serial, tensor.offset + run.own, run.size});
  }
  runs = checkpoint::runs_within(runs, range.first, range.first + range.count);
  for (Run& run : runs) run.at -= range.first;
  return runs;
}

}  // namespace

std::vector<Held> held_by(const std::vector<Optimizer*>& optimizers, const HeldTensors& tensors, Rank dp) {
  std::vector<Held> held;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    Held& one = held.emplace_back(Held{.optimizer = optimizers[i], .runs = {}, .written = {}});
    const std::size_t size = one.optimizer->m().size();
    if (tensors.units.empty()) {
      const ChunkRange mine = tensors.alone ? ChunkRange{0, size} : chunk_range(size, dp.rank(), dp.size());
      const bool first = !tensors.alone || dp.rank() == 0;
      one.runs = runs_of(tensors, {0, size}, false);
      one.written =
          checkpoint::runs_within(runs_of(tensors, {0, size}, true, first), mine.offset, mine.offset + mine.size);
    } else {
      const Unit& unit = tensors.units.at(i);
      const ChunkRange mine = unit.shard(dp.rank(), dp.size());
      one.runs = runs_of(tensors, {unit.offset + mine.offset, mine.size}, false);
      one.written = runs_of(tensors, {unit.offset + mine.offset, mine.size}, true);
    }
  }
  return held;
}

std::vector<Held> held_by(Optimizer& optimizer, week21::LocalSgd& outer, const HeldTensors& tensors, Rank dp) {
  const std::size_t size = optimizer.m().size();
  const ChunkRange mine = chunk_range(size, dp.rank(), dp.size());
  HeldTensors own = tensors;
  for (std::size_t& tensor : own.in_model) tensor += tensors.table.size() * static_cast<std::size_t>(dp.rank() + 1);
  const std::vector<Run> runs = runs_of(own, {0, size}, false), shared = runs_of(tensors, {0, size}, false);
  return {{.optimizer = &optimizer, .runs = runs, .written = runs},
          {.outer = &outer,
           .runs = shared,
           .written = checkpoint::runs_within(shared, mine.offset, mine.offset + mine.size)}};
}

std::array<Slice, checkpoint::kArrays> arrays_of(const Held& held) {
  if (held.outer) return {held.outer->start(), held.outer->velocity(), Slice{}};
  return {held.optimizer->master(), held.optimizer->m(), held.optimizer->v()};
}

std::size_t size_of(const Held& held) { return arrays_of(held)[0].size(); }

std::vector<Run> joined(const std::vector<Held>& held) {
  std::vector<Run> all;
  std::size_t at = 0;
  for (const Held& one : held) {
    for (Run run : one.runs) {
      run.at += at;
      all.push_back(run);
    }
    at += size_of(one);
  }
  return all;
}

}  // namespace lockstep::train
