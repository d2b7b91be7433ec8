// Exercise 22.3: ZeRO stage 2. Read labs/week22_zero/zero2.hpp first.
//
// Given is when a unit's gradients are first and last used; yours is their memory, and where their average goes.
#include "labs/week22_zero/zero2.hpp"

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

class UnitZero2 final : public Zero2 {
 public:
  UnitZero2(Rank dp, Parameters parameters, std::vector<Unit> units, const UsageOrder& usage_order,
            Zero2Options options, BindGradient bind)
      : dp_(dp),
        comm_(options.overlap ? dp.stream("comm") : dp),
        parameters_(std::move(parameters)),
        units_(std::move(units)),
        pieces_(usage_order.size()),
        times_(unit_times(units_, usage_order, Pass::backward)),
        options_(options),
        bind_(std::move(bind)),
        gradients_(units_.size()) {
    week21::broadcast_values(dp_, parameters_.values);
    for (const Unit& unit : units_) {
      const ChunkRange mine = unit.shard(dp_.rank(), dp_.size());
      Slice share = dp_.allocate(mine.size, parameters_.values.dtype(), Category::gradient);
      fill(dp_, share, 0);
      shares_.push_back(share);
      optimizers_.emplace_back(dp_, shard_parameters(parameters_.list, unit, mine, my_chunk(values_of(unit)), share),
                               options_.adamw);
    }
  }

  void before_backward(std::size_t piece) override {
    const std::size_t now = position_of(Pass::backward, piece, pieces_);
    for (std::size_t u : times_.order)
      if (!gradients_[u].empty() && times_.end[u] < now) reduce(u);
    for (std::size_t u : times_.order)
      if (gradients_[u].empty() && times_.begin[u] <= now && now <= times_.end[u]) open(u);
  }

  void end_backward() override {
    for (std::size_t u : times_.order)
      if (!gradients_[u].empty()) reduce(u);
    todo("22.3b", "on return all reductions are complete");
  }

  std::vector<Slice> gradient_shares() const override { return shares_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    todo("22.3c",
         "as in 22.2 every rank has the new values of all parameters, and has updated only its own chunk of every "
         "unit. The next window begins with shares of zero");
  }

 private:
  Slice my_chunk(const Slice& whole) const { return chunk(whole, dp_.rank(), dp_.size()); }
  Slice values_of(const Unit& unit) const { return parameters_.values.cut(unit.offset, unit.size); }

  void gather(Slice values) {
    Scope scope = dp_.region("all_gather", values.bytes());
    week21::ring_all_gather(dp_, values);
  }

  /// Binds the model's gradients to parts of `gradients`, which is the whole gradient of a unit.
  void bind_unit(const Unit& unit, const Slice& gradients) {
    for (std::size_t i = unit.first; i < unit.first + unit.count; ++i)
      bind_(i, gradients.cut(parameters_.list[i].offset - unit.offset, parameters_.list[i].size));
  }
  void unbind_unit(const Unit& unit) {
    for (std::size_t i = unit.first; i < unit.first + unit.count; ++i) bind_(i, {});
  }

  /// The backward pass is about to write gradients of unit `u`.
  void open(std::size_t u) {
    todo("22.3a",
         "gradients_[u] is memory for the whole unit (dtype of parameters_.values, Category::gradient), zeros, "
         "bound; and there is never more of it than this unit's and that of the last reduction started");
  }

  /// The gradients of unit `u` are final: they leave the model, and their memory ends with the reduction.
  void reduce(std::size_t u) {
    unbind_unit(units_[u]);
    Slice whole = std::exchange(gradients_[u], {}), mine = my_chunk(whole);
    const auto work = [whole, mine, share = shares_[u]](Rank queue) {
      Scope scope = queue.region("reduce_scatter", whole.bytes());
      todo("22.3a",
           "on `queue`: the average over all ranks of the chunk that this rank keeps comes to what `share` has");
    };
    if (!options_.overlap) return work(dp_);
    todo("22.3b",
         "the work happens on comm_ while main continues; last_ is the ticket of the last reduction, before_last_ of "
         "the one before it");
  }

  Rank dp_;
  Rank comm_;
  Parameters parameters_;
  std::vector<Unit> units_;
  std::size_t pieces_;
  UnitTimes times_;  // in the backward pass
  Zero2Options options_;
  BindGradient bind_;
  std::vector<Slice> gradients_;       // by unit: whole, while the backward pass writes to it; else empty
  std::vector<Slice> shares_;          // by unit: this rank's chunk
  std::vector<Optimizer> optimizers_;  // by unit
  Ticket last_, before_last_;          // of reductions on comm_
};

}  // namespace

std::unique_ptr<Zero2> make_zero2(Rank dp, Parameters parameters, std::vector<Unit> units,
                                  const UsageOrder& usage_order, Zero2Options options, BindGradient bind) {
  return std::make_unique<UnitZero2>(dp, std::move(parameters), std::move(units), usage_order, options,
                                     std::move(bind));
}

}  // namespace lockstep::week22
