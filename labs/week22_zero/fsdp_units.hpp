// Given: the bookkeeping of 22.4. When a unit is needed and when it no longer is (usage_order.hpp), which of its
// tensors the model is bound to, and this rank's shares; fsdp.cpp adds how a unit is gathered, freed and reduced.
#pragma once

#include <functional>
#include <utility>

#include "common/arithmetic.hpp"
#include "labs/week22_zero/fsdp.hpp"

namespace lockstep::week22 {

class FsdpUnits : public Fsdp {
 public:
  FsdpUnits(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind)
      : dp_(dp),
        comm_(options.prefetch > 0 ? dp.stream("comm") : dp),
        model_(std::move(model)),
        options_(options),
        unsharded_(model_.units.size()),
        bind_(std::move(bind)),
        forward_(unit_times(model_.units, model_.usage_order, Pass::forward)),
        backward_(unit_times(model_.units, model_.usage_order, Pass::backward)) {
    for (const Unit& unit : model_.units) keep_share(unit);
  }

  void before(Pass pass, std::size_t piece) override {
    const UnitTimes& times = pass == Pass::forward ? forward_ : backward_;
    const std::size_t now = position_of(pass, piece, model_.usage_order.size());
    for (std::size_t u : times.order)
      if (unsharded_[u].bound && times.end[u] < now) reshard(pass, u);
    while (used_ < times.order.size() && times.begin[times.order[used_]] <= now) ++used_;
    for (; gathered_ < used_; ++gathered_) gather(times.order[gathered_]);  // what a policy has not gathered ahead
    if (options_.prefetch > 0) prefetch(times.order);
    for (std::size_t u : times.order)
      if (times.begin[u] <= now && now <= times.end[u] && !unsharded_[u].bound) unshard(pass, u);
  }

  void end(Pass pass) override {
    for (std::size_t u : (pass == Pass::forward ? forward_ : backward_).order)
      if (unsharded_[u].bound) reshard(pass, u);
    used_ = gathered_ = 0;
    if (pass == Pass::backward) dp_.wait(last_reduction_);
  }

  std::vector<Slice> value_shares() const override { return values_; }
  std::vector<Slice> gradient_shares() const override { return gradients_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

 protected:
  // Added by fsdp.cpp.

  /// Part a: starts to fill unsharded_[u].values.
  virtual void gather(std::size_t u) = 0;
  /// Part a, after the last use of a unit in a pass.
  virtual void release(std::size_t u) = 0;
  /// Part b, after release in a backward pass: the gradients of a unit, and this rank's share of them.
  virtual Ticket reduce(Slice whole, Slice share) = 0;
  /// Before each piece with options_.prefetch > 0. `order` has the units of this pass.
  virtual void prefetch(const std::vector<std::size_t>& order) {
    gathered_ = options_.policies.gather_ahead(order, used_, gathered_, options_.prefetch,
                                               [this](std::size_t u) { gather(u); });
  }

  /// The part of a unit that exists besides its shares.
  struct Unsharded {
    Slice values;        // whole, from gather to release
    Slice gradients;     // whole, in a backward pass
    Ticket gathered;     // on comm_
    bool bound = false;  // the model's tensors are these
  };

  Slice my_chunk(const Slice& whole) const { return chunk(whole, dp_.rank(), dp_.size()); }

  // Errors in these two are reported at `where`, the line that calls them.

  /// Runs work(queue) in a region of this name: on comm_, concurrently with main, or with prefetch = 0 at once. `work`
  /// captures by value.
  Ticket communicate(const char* region, std::size_t bytes, const std::function<void(Rank)>& work,
                     Location where = Location::current()) {
    const auto in_region = [region, bytes, work, where](Rank queue) {
      Scope scope = queue.region(region, bytes, where);
      work(queue);
    };
    if (options_.prefetch > 0) return dp_.run(comm_, in_region, where);
    in_region(dp_);
    return {};
  }

  /// to = from, of equal size, and of any two types.
  static void convert(Rank queue, const Slice& to, const Slice& from, Location where = Location::current()) {
    if (to.dtype() == from.dtype())
      copy(queue, to, from, where);
    else
      cast(queue, to, from, where);
  }

  Rank dp_;    // on main
  Rank comm_;  // the same ranks on the queue "comm" with options_.prefetch > 0, else on main
  ShardedModel model_;
  FsdpOptions options_;
  std::vector<Unsharded> unsharded_;       // by unit
  std::vector<Slice> values_, gradients_;  // by unit: this rank's chunk
  std::vector<Optimizer> optimizers_;      // by unit
  std::size_t used_ = 0, gathered_ = 0;    // of this pass's order: units needed so far, units gathered

 private:
  /// This rank's chunk of `unit`, with its initial values, and its optimizer.
  void keep_share(const Unit& unit) {
    const ChunkRange mine = unit.shard(dp_.rank(), dp_.size());
    const Slice values = dp_.allocate(mine.size, options_.precision.keep, Category::parameter);
    const Slice gradients = dp_.allocate(mine.size, options_.precision.keep, Category::gradient);
    fill(dp_, gradients, 0);
    for (const TensorPart& part : tensor_parts(model_.table, unit, mine))
      model_.begin(dp_, part.tensor, part.first, values.cut(part.offset, part.size));
    values_.push_back(values);
    gradients_.push_back(gradients);
    optimizers_.emplace_back(dp_, shard_parameters(model_.table, unit, mine, values, gradients), options_.adamw);
  }

  /// Binds the tensors of unit `u`, which has been gathered or is being gathered; in a backward pass with memory for
  /// their gradients.
  void unshard(Pass pass, std::size_t u) {
    Unsharded& unsharded = unsharded_[u];
    dp_.wait(unsharded.gathered);
    if (pass == Pass::backward) {
      dp_.wait(before_last_reduction_);  // no more than one unit of gradients is in flight
      unsharded.gradients = dp_.allocate(model_.units[u].size, options_.precision.compute, Category::gradient);
      fill(dp_, unsharded.gradients, 0);
    }
    unsharded.bound = true;
    for_each_tensor(u, [&](std::size_t i, std::size_t offset, std::size_t size) {
      bind_(i, unsharded.values.cut(offset, size),
            unsharded.gradients.empty() ? Slice{} : unsharded.gradients.cut(offset, size));
    });
  }

  /// This pass no longer uses unit `u`.
  void reshard(Pass pass, std::size_t u) {
    for_each_tensor(u, [&](std::size_t i, std::size_t, std::size_t) { bind_(i, {}, {}); });
    const Slice gradients = unsharded_[u].gradients;
    release(u);
    if (pass == Pass::forward) return;
    before_last_reduction_ = last_reduction_;
    last_reduction_ = reduce(gradients, gradients_[u]);
  }

  /// f(tensor, its first element in the unit, its elements).
  template <class F>
  void for_each_tensor(std::size_t u, F f) const {
    const Unit& unit = model_.units[u];
    for (std::size_t i = unit.first; i < unit.first + unit.count; ++i)
      f(i, model_.table[i].offset - unit.offset, model_.table[i].size);
  }

  BindTensor bind_;
  UnitTimes forward_, backward_;
  Ticket last_reduction_, before_last_reduction_;
};

}  // namespace lockstep::week22
