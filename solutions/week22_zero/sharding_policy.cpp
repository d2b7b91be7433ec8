// Exercise 22.9: the policies of FSDP. Read labs/week22_zero/sharding_policy.hpp first.
#include "labs/week22_zero/sharding_policy.hpp"

#include <algorithm>
#include <string>

#include "common/arithmetic.hpp"

namespace lockstep::week22 {
namespace {

/// "blocks.3" of a tensor in block 3, "" outside the blocks.
std::string block_of(const Parameter& tensor) {
  return tensor.name.starts_with("blocks.") ? tensor.name.substr(0, tensor.name.find('.', 7)) : "";
}
/// "blocks.3.up" of its weight and its bias; of a tensor without a layer its own name.
std::string layer_of(const Parameter& tensor) { return tensor.name.substr(0, tensor.name.rfind('.')); }

/// Does `next`, which follows `last` in the table, belong to the same unit? That unit has `elements` so far.
bool together(const Parameter& last, const Parameter& next, std::size_t elements, Wrapping wrapping) {
  // lab 22.9a begin: depending on the kind of wrapping: always; the same block; the same layer; not enough elements yet
  switch (wrapping.kind) {
    case Wrapping::Kind::whole_model: return true;
    case Wrapping::Kind::each_block: return block_of(last) == block_of(next);
    case Wrapping::Kind::each_layer: return layer_of(last) == layer_of(next);
    case Wrapping::Kind::at_least: return elements < wrapping.elements;
  }
  // lab end
  return false;
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<Unit> units;
  // lab 22.9a begin: the table's tensors, in order and each once, in units that are as long as `together` allows:
  // make_unit(table, first tensor, number of tensors)
  for (std::size_t first = 0, i = 0; i < table.size(); ++i) {
    const std::size_t elements = table[i].offset + table[i].size - table[first].offset;
    if (i + 1 < table.size() && together(table[i], table[i + 1], elements, wrapping)) continue;
    units.push_back(make_unit(table, first, i + 1 - first));
    first = i + 1;
  }
  // lab end
  return units;
}

std::size_t gather_ahead([[maybe_unused]] const std::vector<std::size_t>& order, [[maybe_unused]] std::size_t used,
                         [[maybe_unused]] std::size_t gathered, [[maybe_unused]] int prefetch,
                         [[maybe_unused]] const std::function<void(std::size_t unit)>& gather) {
  // lab 22.9b begin: units order[0] … order[used − 1] have been used or are about to be; gather further ones until
  // `prefetch` of them are ahead, or all are gathered
  const std::size_t until = std::min(order.size(), used + static_cast<std::size_t>(prefetch));
  for (; gathered < until; ++gathered) gather(order[gathered]);
  return gathered;
  // lab end
}

Slice in_type(Rank queue, const Slice& values, DType type) {
  if (values.dtype() == type) return values;
  // lab 22.9c begin: the same values in the other type, in memory of their own (Category::buffer)
  Slice converted = queue.allocate(values.size(), type, Category::buffer);
  cast(queue, converted, values);
  return converted;
  // lab end
}

}  // namespace lockstep::week22
