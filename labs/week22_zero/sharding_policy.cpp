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
  todo("22.9a", "depending on the kind of wrapping: always; the same block; the same layer; not enough elements yet");
  return false;
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<Unit> units;
  todo("22.9a",
       "the table's tensors, in order and each once, in units that are as long as `together` allows: "
       "make_unit(table, first tensor, number of tensors)");
  return units;
}

std::size_t gather_ahead([[maybe_unused]] const std::vector<std::size_t>& order, [[maybe_unused]] std::size_t used,
                         [[maybe_unused]] std::size_t gathered, [[maybe_unused]] int prefetch,
                         [[maybe_unused]] const std::function<void(std::size_t unit)>& gather) {
  todo("22.9b",
       "units order[0] … order[used − 1] have been used or are about to be; gather further ones until `prefetch` of "
       "them are ahead, or all are gathered");
}

Slice in_type(Rank queue, const Slice& values, DType type) {
  if (values.dtype() == type) return values;
  todo("22.9c", "the same values in the other type, in memory of their own (Category::buffer)");
}

}  // namespace lockstep::week22
