// Given in 22.8: 22.4's wrapper on the ranks of a node, with 22.9's policies. Students get it compiled, because
// its text is their answer.
#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/hsdp.hpp"

namespace lockstep::week22 {

void Hsdp::step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) {
  // lab 22.4b begin: as in 22.4
  for (Optimizer& optimizer : optimizers_) optimizer.step(dp_, learning_rate, gradient_factor, skip, skipped);
  for (const Slice& share : gradients_) fill(dp_, share, 0);
  // lab end
}

void Hsdp::gather(std::size_t u) {
  // lab 22.4a begin: as in 22.4, over the node's ranks
  const Slice share = values_[u];
  const Slice whole = dp_.allocate(model_.units[u].size, options_.precision.compute, Category::parameter);
  unsharded_[u].values = whole;
  unsharded_[u].gathered = communicate("all_gather", whole.bytes(), [whole, mine = my_chunk(whole), share](Rank node) {
    convert(node, mine, share);
    week21::ring_all_gather(node, whole);
  });
  // lab end
}

void Hsdp::release(std::size_t u) {
  // lab 22.4a begin: as in 22.4
  unsharded_[u] = {};
  // lab end
}

void Hsdp::prefetch(const std::vector<std::size_t>& order) {
  // lab 22.9b begin: as in 22.9
  const std::size_t until = std::min(order.size(), used_ + static_cast<std::size_t>(options_.prefetch));
  for (; gathered_ < until; ++gathered_) gather(order[gathered_]);
  // lab end
}

Slice Hsdp::in_type(Rank queue, const Slice& values, DType type, Location where) {
  // lab 22.9c begin: as in 22.9
  if (values.dtype() == type) return values;
  Slice converted = queue.allocate(values.size(), type, Category::buffer, where);
  convert(queue, converted, values, where);
  return converted;
  // lab end
}

}  // namespace lockstep::week22
