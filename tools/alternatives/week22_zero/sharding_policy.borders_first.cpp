// 22.9 with the borders of all units found first, the next units as a list, and a cast in two halves.
#include "labs/week22_zero/sharding_policy.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/arithmetic.hpp"

namespace lockstep::week22 {
namespace {

/// Common prefix of the names of a block's tensors, or of a layer's.
std::string_view prefix(std::string_view name, Wrapping::Kind kind) {
  if (kind == Wrapping::Kind::each_layer) return name.substr(0, name.rfind('.'));
  return name.starts_with("blocks.") ? name.substr(0, name.find('.', 7)) : std::string_view();
}

/// Is there a border before tensor i of a unit that began with `first`?
bool border(const std::vector<Parameter>& table, std::size_t first, std::size_t i, Wrapping wrapping) {
  if (wrapping.kind == Wrapping::Kind::whole_model) return false;
  if (wrapping.kind == Wrapping::Kind::at_least) return table[i].offset - table[first].offset >= wrapping.elements;
  return prefix(table[i - 1].name, wrapping.kind) != prefix(table[i].name, wrapping.kind);
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<std::size_t> borders{0};
  for (std::size_t i = 1; i < table.size(); ++i)
    if (border(table, borders.back(), i, wrapping)) borders.push_back(i);
  borders.push_back(table.size());
  std::vector<Unit> units;
  for (std::size_t k = 1; k < borders.size(); ++k)
    units.push_back(make_unit(table, borders[k - 1], borders[k] - borders[k - 1]));
  return units;
}

std::size_t gather_ahead(const std::vector<std::size_t>& order, std::size_t used, std::size_t gathered, int prefetch,
                         const std::function<void(std::size_t unit)>& gather) {
  const std::size_t most = used + static_cast<std::size_t>(prefetch), room = most > gathered ? most - gathered : 0;
  const std::vector<std::size_t> next(
      order.begin() + static_cast<std::ptrdiff_t>(gathered),
      order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), gathered + room)));
  std::ranges::for_each(next, gather);
  return gathered + next.size();
}

Slice in_type(Rank queue, const Slice& values, DType type) {
  if (values.dtype() == type) return values;
  const std::size_t half = values.size() / 2;
  const Slice other = queue.allocate(values.size(), type, Category::buffer);
  for (const auto& [first, count] : {std::pair{std::size_t{0}, half}, std::pair{half, values.size() - half}})
    if (count > 0) cast(queue, other.cut(first, count), values.cut(first, count));
  return other;
}

}  // namespace lockstep::week22
