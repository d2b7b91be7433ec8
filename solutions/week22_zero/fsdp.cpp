// Exercise 22.4: ZeRO stage 3, FSDP. Read labs/week22_zero/fsdp.hpp first, and for parts a, b, d and e fsdp_units.hpp,
// whose members the class below uses.
//
// Given is when each unit is needed; yours is to bring it, to take it away, and to do both in time.
#include "labs/week22_zero/fsdp.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/fsdp_units.hpp"

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
  // lab 22.4c begin: depending on the kind of wrapping: always; the same block; the same layer; not enough elements yet
  switch (wrapping.kind) {
    case Wrapping::Kind::whole_model: return true;
    case Wrapping::Kind::each_block: return block_of(last) == block_of(next);
    case Wrapping::Kind::each_layer: return layer_of(last) == layer_of(next);
    case Wrapping::Kind::at_least: return elements < wrapping.elements;
  }
  return false;
  // lab end
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<Unit> units;
  // lab 22.4c begin: the table's tensors, in order and each once, in units that are as long as `together` allows:
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

namespace {

class UnitFsdp final : public FsdpUnits {
 public:
  using FsdpUnits::FsdpUnits;

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    // lab 22.4b begin: the shares have new values, and the next window begins with gradient shares of zero. What
    // gathers the new values, and when?
    for (Optimizer& optimizer : optimizers_) optimizer.step(dp_, learning_rate, gradient_factor, skip, skipped);
    for (const Slice& share : gradients_) fill(dp_, share, 0);
    // lab end
  }

 private:
  /// Starts to gather unit `u`: afterwards, once unsharded_[u].gathered is done, unsharded_[u].values is whole.
  void gather(std::size_t u) override {
    const Slice share = values_[u];
    // lab 22.4a begin: unsharded_[u].values is memory for the whole unit, of options_.precision.compute and
    // Category::parameter. In unsharded_[u].gathered, communicate in a region "all_gather" of its bytes: this rank's
    // chunk of the unit is its share (convert), the others' chunks come from them
    const Slice whole = dp_.allocate(model_.units[u].size, options_.precision.compute, Category::parameter);
    unsharded_[u].values = whole;
    unsharded_[u].gathered =
        communicate("all_gather", whole.bytes(), [whole, mine = my_chunk(whole), share](Rank queue) {
          convert(queue, mine, share);
          week21::ring_all_gather(queue, whole);
        });
    // lab end
  }

  void release(std::size_t u) override {
    // lab 22.4a begin: in either pass, nothing of the unit is held any longer
    unsharded_[u] = {};
    // lab end
  }

  /// Adds the average of `whole` over the ranks to this rank's share of it.
  Ticket reduce(Slice whole, Slice share) override {
    const DType type = options_.precision.reduce;
    return communicate("reduce_scatter", whole.size() * bytes_of(type), [whole, share, type](Rank queue) {
      Slice sums = in_type(queue, whole, type);  // `whole`, or a copy in another type
      // lab 22.4b begin: on `queue`: the average over all ranks of the chunk of `sums` that this rank keeps comes to
      // what `share` has (add wants one type: in_type)
      const Slice mine = chunk(sums, queue.rank(), queue.size());
      week21::ring_reduce_scatter(queue, sums);
      scale(queue, mine, 1.0f / static_cast<float>(queue.size()));
      add(queue, share, in_type(queue, mine, share.dtype()));
      // lab end
    });
  }

  /// Gathers units ahead of their use.
  void prefetch([[maybe_unused]] const std::vector<std::size_t>& order) override {
    // lab 22.4d begin: units order[0] … order[used_ − 1] have been used or are about to be; gather further ones until
    // options_.prefetch of them are ahead, or all are gathered. gathered_ counts those that were
    const std::size_t until = std::min(order.size(), used_ + static_cast<std::size_t>(options_.prefetch));
    for (; gathered_ < until; ++gathered_) gather(order[gathered_]);
    // lab end
  }

  /// `values` if they have this type; else new memory that holds them in it.
  static Slice in_type(Rank queue, const Slice& values, DType type) {
    if (values.dtype() == type) return values;
    // lab 22.4e begin: the same values in the other type, in memory of their own (Category::buffer)
    Slice converted = queue.allocate(values.size(), type, Category::buffer);
    convert(queue, converted, values);
    return converted;
    // lab end
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<UnitFsdp>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
