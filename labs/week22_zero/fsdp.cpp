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
  todo("22.4c", "depending on the kind of wrapping: always; the same block; the same layer; not enough elements yet");
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<Unit> units;
  todo("22.4c",
       "the table's tensors, in order and each once, in units that are as long as `together` allows: "
       "make_unit(table, first tensor, number of tensors)");
  return units;
}

namespace {

class UnitFsdp final : public FsdpUnits {
 public:
  using FsdpUnits::FsdpUnits;

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    todo("22.4b",
         "the shares have new values, and the next window begins with gradient shares of zero. What gathers the new "
         "values, and when?");
  }

 private:
  /// Starts to gather unit `u`: afterwards, once unsharded_[u].gathered is done, unsharded_[u].values is whole.
  void gather(std::size_t u) override {
    const Slice share = values_[u];
    todo("22.4a",
         "unsharded_[u].values is memory for the whole unit, of options_.precision.compute and Category::parameter. "
         "In unsharded_[u].gathered, communicate in a region \"all_gather\" of its bytes: this rank's chunk of the "
         "unit is its share (convert), the others' chunks come from them");
  }

  void release(std::size_t u) override {
    todo("22.4a", "in either pass, nothing of the unit is held any longer");
  }

  /// Adds the average of `whole` over the ranks to this rank's share of it.
  Ticket reduce(Slice whole, Slice share) override {
    const DType type = options_.precision.reduce;
    return communicate("reduce_scatter", whole.size() * bytes_of(type), [whole, share, type](Rank queue) {
      Slice sums = in_type(queue, whole, type);  // `whole`, or a copy in another type
      todo("22.4b",
           "on `queue`: the average over all ranks of the chunk of `sums` that this rank keeps comes to what `share` "
           "has (add wants one type: in_type)");
    });
  }

  /// Gathers units ahead of their use.
  void prefetch([[maybe_unused]] const std::vector<std::size_t>& order) override {
    todo("22.4d",
         "units order[0] … order[used_ − 1] have been used or are about to be; gather further ones until "
         "options_.prefetch of them are ahead, or all are gathered. gathered_ counts those that were");
  }

  /// `values` if they have this type; else new memory that holds them in it.
  static Slice in_type(Rank queue, const Slice& values, DType type) {
    if (values.dtype() == type) return values;
    todo("22.4e", "the same values in the other type, in memory of their own (Category::buffer)");
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<UnitFsdp>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
