// Exercise 22.4: ZeRO stage 3, FSDP. Read labs/week22_zero/fsdp.hpp first.
//
// Given is when each unit is needed (visits.hpp); yours is to bring it, to take it away, and to do both in time.
#include "labs/week22_zero/fsdp.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

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
  todo("22.4c", "by the kind of wrapping: always; the same block; the same layer; not enough elements yet");
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<Unit> units;
  todo("22.4c",
       "walk through the table; where the next tensor does not belong to the unit (together), or there is none, "
       "close the unit with make_unit(table, its first tensor, its number of tensors)");
  return units;
}

namespace {

class UnitFsdp final : public Fsdp {
 public:
  UnitFsdp(Rank dp, ShardedModel model, FsdpOptions options, LendTensor lend)
      : dp_(dp),
        comm_(options.prefetch > 0 ? dp.stream("comm") : dp),
        model_(std::move(model)),
        options_(options),
        lend_(std::move(lend)),
        forward_(unit_times(model_.units, model_.visits, Pass::forward)),
        backward_(unit_times(model_.units, model_.visits, Pass::backward)),
        held_(model_.units.size()) {
    for (const Unit& unit : model_.units) keep_share(unit);
  }

  void before(Pass pass, std::size_t visit) override {
    const UnitTimes& times = pass == Pass::forward ? forward_ : backward_;
    const std::size_t now = position_of(pass, visit, model_.visits.size());
    for (std::size_t u : times.order)
      if (held_[u].lent && times.end[u] < now) finish(pass, u);
    while (used_ < times.order.size() && times.begin[times.order[used_]] <= now) ++used_;
    for (; gathered_ < used_; ++gathered_) gather(times.order[gathered_]);  // none with prefetch, but the very first
    prefetch(times.order);
    for (std::size_t u : times.order)
      if (times.begin[u] <= now && now <= times.end[u] && !held_[u].lent) lend(pass, u);
  }

  void end(Pass pass) override {
    for (std::size_t u : (pass == Pass::forward ? forward_ : backward_).order)
      if (held_[u].lent) finish(pass, u);
    used_ = gathered_ = 0;
    if (pass == Pass::backward) dp_.wait(last_reduction_);
  }

  std::vector<Slice> value_shares() const override { return values_; }
  std::vector<Slice> gradient_shares() const override { return gradients_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    todo("22.4b", "update the shares, then zero those of the gradients. Who gathers the new values, and when?");
  }

 private:
  /// What exists of a unit beside its shares.
  struct Held {
    Slice values;     // whole, from gather to finish
    Slice gradients;  // whole, in a backward pass
    Ticket gathered;  // on comm_
    bool lent = false;
  };

  Slice my_chunk(const Slice& whole) const { return chunk(whole, dp_.rank(), dp_.size()); }

  /// This rank's chunk of `unit`, with its initial values, and its optimizer.
  void keep_share(const Unit& unit) {
    const ChunkRange mine = unit.shard(dp_.rank(), dp_.size());
    Slice values, gradients;
    todo("22.4a",
         "memory for `mine` of the values and of the gradients (zeros): options_.precision.keep, and their "
         "categories");
    for (const TensorPart& part : tensor_parts(model_.table, unit, mine))
      model_.begin(dp_, part.tensor, part.first, values.cut(part.offset, part.size));
    values_.push_back(values);
    gradients_.push_back(gradients);
    optimizers_.emplace_back(dp_, shard_parameters(model_.table, unit, mine, values, gradients), options_.adamw);
  }

  /// Runs communication: on comm_ beside main, or at once.
  Ticket communicate(const std::function<void(Rank)>& work) {
    if (options_.prefetch > 0) return dp_.run(comm_, work);
    work(dp_);
    return {};
  }

  /// Starts to gather unit `u`: afterwards, once held_[u].gathered is done, held_[u].values is whole.
  void gather(std::size_t u) {
    Slice whole, share = values_[u];
    todo("22.4a", "memory for the whole unit: options_.precision.compute, Category::parameter");
    held_[u].values = whole;
    held_[u].gathered = communicate([whole, mine = my_chunk(whole), share](Rank queue) {
      Scope scope = queue.region("all_gather", whole.bytes());
      todo("22.4a", "on `queue`: this rank's chunk of it is its share (convert), the others' chunks come from them");
    });
  }

  /// Gathers units ahead of their use.
  void prefetch([[maybe_unused]] const std::vector<std::size_t>& order) {
    if (options_.prefetch == 0) return;
    todo("22.4d",
         "units order[0] … order[used_ − 1] have been used or are about to be; gather further ones until "
         "options_.prefetch of them are ahead, or all are gathered. gathered_ counts those that were");
  }

  /// Lends the tensors of unit `u`, which has been gathered or is on its way.
  void lend(Pass pass, std::size_t u) {
    Held& held = held_[u];
    dp_.wait(held.gathered);
    if (pass == Pass::backward) {
      dp_.wait(before_last_reduction_);  // no more than one unit of gradients is in flight
      todo("22.4b",
           "held.gradients is memory for the whole unit: options_.precision.compute, Category::gradient, zeros");
    }
    held.lent = true;
    for_each_tensor(u, [&](std::size_t i, std::size_t offset, std::size_t size) {
      lend_(i, held.values.cut(offset, size), held.gradients.empty() ? Slice{} : held.gradients.cut(offset, size));
    });
  }

  /// This pass does not use unit `u` any more.
  void finish(Pass pass, std::size_t u) {
    for_each_tensor(u, [&](std::size_t i, std::size_t, std::size_t) { lend_(i, {}, {}); });
    const Slice gradients = held_[u].gradients;
    todo("22.4a", "nothing is held of the unit any more, in either pass");
    if (pass == Pass::backward) reduce(gradients, gradients_[u]);
  }

  /// Adds the average of `whole` over the ranks to this rank's share of it.
  void reduce(const Slice& whole, const Slice& share) {
    const DType type = options_.precision.reduce;
    before_last_reduction_ = last_reduction_;
    last_reduction_ = communicate([whole, share, type](Rank queue) {
      Scope scope = queue.region("reduce_scatter", whole.size() * bytes_of(type));
      Slice sums = in_type(queue, whole, type);  // `whole`, or a copy in another type
      todo("22.4b",
           "on `queue`: sum the chunk of `sums` that this rank keeps, average it, and add it to the share (in_type "
           "again: add wants one type)");
    });
  }

  /// to = from, of equal size.
  static void convert(Rank queue, const Slice& to, const Slice& from) {
    if (to.dtype() == from.dtype()) return copy(queue, to, from);
    todo("22.4e", "they differ in type");
  }

  /// `values` if they have this type; else new memory that holds them in it.
  static Slice in_type(Rank queue, const Slice& values, DType type) {
    if (values.dtype() == type) return values;
    todo("22.4e", "allocate (Category::buffer), convert");
  }

  /// f(tensor, its first element in the unit, its elements).
  template <class F>
  void for_each_tensor(std::size_t u, F f) const {
    const Unit& unit = model_.units[u];
    for (std::size_t i = unit.first; i < unit.first + unit.count; ++i)
      f(i, model_.table[i].offset - unit.offset, model_.table[i].size);
  }

  Rank dp_;
  Rank comm_;
  ShardedModel model_;
  FsdpOptions options_;
  LendTensor lend_;
  UnitTimes forward_, backward_;
  std::vector<Held> held_;                 // by unit
  std::vector<Slice> values_, gradients_;  // by unit: this rank's chunk
  std::vector<Optimizer> optimizers_;      // by unit
  std::size_t used_ = 0, gathered_ = 0;    // of this pass's order: units that were needed so far, that were gathered
  Ticket last_reduction_, before_last_reduction_;
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, LendTensor lend) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<UnitFsdp>(dp, std::move(model), options, std::move(lend));
}

}  // namespace lockstep::week22
