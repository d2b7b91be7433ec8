// Sharding a model: its tensors are grouped in units, each unit is cut into p chunks, and each rank keeps one chunk of
// every unit. A unit is what travels at once: a bucket of gradients, a block whose parameters are gathered.
#pragma once

#include <string>
#include <vector>

#include "common/chunk.hpp"
#include "common/gpt/model/parameters.hpp"

namespace lockstep {

/// Neighbouring tensors of a table: tensors [first, first + count), which are elements [offset, offset + size).
struct Unit {
  std::string name;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t offset = 0;
  std::size_t size = 0;

  bool holds(std::size_t tensor) const { return tensor >= first && tensor < first + count; }
  /// The elements of the unit, counted from its start, that rank `rank` of `ranks` keeps. It may be empty.
  ChunkRange shard(int rank, int ranks) const { return chunk_range(size, rank, ranks); }
};

/// The unit of `count` ≥ 1 tensors from `first` on, named after the first of them.
Unit make_unit(const std::vector<Parameter>& table, std::size_t first, std::size_t count);

/// The part of one tensor that lies in a range of a unit.
struct TensorPart {
  std::size_t tensor = 0;  // its place in the table
  std::size_t first = 0;   // of the tensor's elements
  std::size_t offset = 0;  // of that element in the range
  std::size_t size = 0;
};
/// The tensors that reach into `range` of the unit (counted from its start), in order.
std::vector<TensorPart> tensor_parts(const std::vector<Parameter>& table, const Unit& unit, ChunkRange range);

/// A chunk of a unit as a model of its own, for an Optimizer: the tensors that reach into it, cut to it, with offsets
/// from its start. `values` and `gradients` are the chunk's, equally long.
Parameters shard_parameters(const std::vector<Parameter>& table, const Unit& unit, ChunkRange shard, Slice values,
                            Slice gradients);

}  // namespace lockstep
