#include "common/gpt/model/units.hpp"

#include <algorithm>

namespace lockstep {

Unit make_unit(const std::vector<Parameter>& table, std::size_t first, std::size_t count) {
  const Parameter &head = table.at(first), &tail = table.at(first + count - 1);
  return {head.name, first, count, head.offset, tail.offset + tail.size - head.offset};
}

std::vector<TensorPart> tensor_parts(const std::vector<Parameter>& table, const Unit& unit, ChunkRange range) {
  std::vector<TensorPart> parts;
  const std::size_t begin = unit.offset + range.offset, end = begin + range.size;
  for (std::size_t i = unit.first; i < unit.first + unit.count; ++i) {
    const std::size_t offset = table[i].offset;
    const std::size_t from = std::max(offset, begin), to = std::min(offset + table[i].size, end);
    if (from < to) parts.push_back({i, from - offset, from - begin, to - from});
  }
  return parts;
}

Parameters shard_parameters(const std::vector<Parameter>& table, const Unit& unit, ChunkRange shard, Slice values,
                            Slice gradients) {
  Parameters whole{.list = {}, .values = std::move(values), .gradients = std::move(gradients)};
  for (const TensorPart& part : tensor_parts(table, unit, shard)) {
    Parameter& tensor = whole.list.emplace_back(table[part.tensor]);
    tensor.offset = part.offset;
    tensor.size = part.size;
  }
  return whole;
}

}  // namespace lockstep
