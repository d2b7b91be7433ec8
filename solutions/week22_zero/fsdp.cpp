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
    const FsdpPolicies::InType in_type = options_.policies.in_type;
    return communicate("reduce_scatter", whole.size() * bytes_of(type), [whole, share, type, in_type](Rank queue) {
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
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<UnitFsdp>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
