// Sharding a model: its tensors are grouped in units, each unit is split into p chunks, and each rank keeps one chunk
// of every unit. A unit is communicated as a whole: a bucket of gradients, a block whose parameters are gathered.
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
  /// Returns the elements of the unit, counted from its start, that rank `rank` of `ranks` keeps. May be empty.
  ChunkRange shard(int rank, int ranks) const { return chunk_range(size, rank, ranks); }
};

/// Returns the unit of `count` ≥ 1 tensors from `first`, named after the first of them.
Unit make_unit(const std::vector<Parameter>& table, std::size_t first, std::size_t count);

/// The part of one tensor within a range of a unit.
struct TensorPart {
  std::size_t tensor = 0;  // its index in the table
  std::size_t first = 0;   // first element in the tensor
  std::size_t offset = 0;  // that element's offset in the range
  std::size_t size = 0;
};
/// Returns the tensors that overlap `range` of the unit (counted from its start), in order.
std::vector<TensorPart> tensor_parts(const std::vector<Parameter>& table, const Unit& unit, ChunkRange range);

/// Presents a chunk of a unit as a model of its own, for an Optimizer: the overlapping tensors, restricted to the
/// chunk, with offsets from its start. `values` and `gradients` are the chunk's and have the same length.
Parameters shard_parameters(const std::vector<Parameter>& table, const Unit& unit, ChunkRange shard, Slice values,
                            Slice gradients);

}  // namespace lockstep
