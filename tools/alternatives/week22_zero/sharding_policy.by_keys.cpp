// 22.9 with units by the key that their tensors share, and units ahead counted one by one.
#include "labs/week22_zero/sharding_policy.hpp"

#include <string>

#include "common/arithmetic.hpp"

namespace lockstep::week22 {

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<std::string> keys;
  std::size_t full = 0, elements = 0;  // units of at_least so far, and what the next one has
  std::string outside = "before";
  for (const Parameter& tensor : table) {
    const bool in_block = tensor.name.rfind("blocks.", 0) == 0;
    if (in_block) outside = "after";
    switch (wrapping.kind) {
      case Wrapping::Kind::whole_model: keys.emplace_back(); break;
      case Wrapping::Kind::each_block:
        keys.push_back(in_block ? tensor.name.substr(0, tensor.name.find('.', 7)) : outside);
        break;
      case Wrapping::Kind::each_layer: keys.push_back(tensor.name.substr(0, tensor.name.find_last_of('.'))); break;
      case Wrapping::Kind::at_least:
        if (elements >= wrapping.elements && elements > 0) ++full, elements = 0;
        elements += tensor.size;
        keys.push_back(std::to_string(full));
    }
  }
  std::vector<Unit> units;
  for (std::size_t first = 0, next; first < table.size(); first = next) {
    for (next = first; next < table.size() && keys[next] == keys[first];) ++next;
    units.push_back(make_unit(table, first, next - first));
  }
  return units;
}

std::size_t gather_ahead(const std::vector<std::size_t>& order, std::size_t used, std::size_t gathered, int prefetch,
                         const std::function<void(std::size_t unit)>& gather) {
  while (gathered < order.size() && gathered - used < static_cast<std::size_t>(prefetch)) gather(order[gathered++]);
  return gathered;
}

Slice in_type(Rank queue, const Slice& from, DType type) {
  if (from.dtype() == type) return from;
  const Slice to = queue.allocate(from.size(), type, Category::buffer);
  cast(queue, to, from);
  return to;
}

}  // namespace lockstep::week22
