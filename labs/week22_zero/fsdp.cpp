// Exercise 22.4: ZeRO stage 3, FSDP. Read labs/week22_zero/fsdp.hpp first, and fsdp_units.hpp, whose members the class
// below uses.
//
// Given is when each unit is needed; yours is to bring it, and to take it away.
#include "labs/week22_zero/fsdp.hpp"

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {
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
    const FsdpPolicies::InType in_type = options_.policies.in_type;
    return communicate("reduce_scatter", whole.size() * bytes_of(type), [whole, share, type, in_type](Rank queue) {
      Slice sums = in_type(queue, whole, type);  // `whole`, or a copy in another type
      todo("22.4b",
           "on `queue`: the average over all ranks of the chunk of `sums` that this rank keeps comes to what `share` "
           "has (add wants one type: in_type)");
    });
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<UnitFsdp>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
