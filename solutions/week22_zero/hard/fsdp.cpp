// Exercise 22.4 from its interface alone: fsdp.hpp says what a wrapper does, and nothing here says how.
//
// Useful beside it: when a unit is needed (usage_order.hpp), what a rank keeps of one (common/gpt/model/units.hpp), and
// half an all-reduce (ring_all_reduce.hpp). The tests are those of the ordinary skeleton; parts are judged as soon as
// what they look at is there.
#include "labs/week22_zero/fsdp.hpp"

#include <array>
#include <deque>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
// lab omit begin
namespace {

/// Work before one piece of a pass, in this order.
struct Turn {
  std::vector<std::size_t> reshard, gather, unshard;  // units
};

/// The turns of a pass: one before each piece, and the last after all. Nothing is decided while the model runs.
std::vector<Turn> turns_of(const ShardedModel& model, Pass pass, const FsdpOptions& options) {
  const UnitTimes times = unit_times(model.units, model.usage_order, pass);
  const std::size_t pieces = model.usage_order.size();
  std::vector<Turn> turns(pieces + 1);
  std::size_t used = 0, gathered = 0;
  for (std::size_t now = 0; now < pieces; ++now) {
    while (used < times.order.size() && times.begin[times.order[used]] <= now) ++used;
    for (; gathered < used; ++gathered) turns[now].gather.push_back(times.order[gathered]);
    if (options.prefetch > 0)
      gathered = options.policies.gather_ahead(times.order, used, gathered, options.prefetch,
                                               [&](std::size_t u) { turns[now].gather.push_back(u); });
  }
  for (std::size_t u : times.order) {
    turns[times.begin[u]].unshard.push_back(u);
    turns[times.end[u] + 1].reshard.push_back(u);
  }
  return turns;
}

void convert(Rank queue, const Slice& to, const Slice& from) {
  if (to.dtype() == from.dtype()) return copy(queue, to, from);
  cast(queue, to, from);
}

class TurnByTurn final : public Fsdp {
 public:
  TurnByTurn(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind)
      : dp_(dp),
        comm_(options.prefetch > 0 ? dp.stream("comm") : dp),
        options_(options),
        bind_(std::move(bind)),
        model_(std::move(model)),
        whole_(model_.units.size()) {
    turns_ = {turns_of(model_, Pass::forward, options), turns_of(model_, Pass::backward, options)};
    for (const Unit& unit : model_.units) {
      const ChunkRange mine = unit.shard(dp.rank(), dp.size());
      values_.push_back(dp_.allocate(mine.size, options.precision.keep, Category::parameter));
      gradients_.push_back(dp_.allocate(mine.size, options.precision.keep, Category::gradient));
      fill(dp_, gradients_.back(), 0);
      for (const TensorPart& part : tensor_parts(model_.table, unit, mine))
        model_.begin(dp_, part.tensor, part.first, values_.back().cut(part.offset, part.size));
      optimizers_.emplace_back(dp_, shard_parameters(model_.table, unit, mine, values_.back(), gradients_.back()),
                               options.adamw);
    }
  }

  void before(Pass pass, std::size_t piece) override {
    take(pass, turns_[pass == Pass::backward].at(position_of(pass, piece, model_.usage_order.size())));
  }

  void end(Pass pass) override {
    take(pass, turns_[pass == Pass::backward].back());
    while (!reductions_.empty()) wait_for_the_oldest();
  }

  std::vector<Slice> value_shares() const override { return values_; }
  std::vector<Slice> gradient_shares() const override { return gradients_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (std::size_t u = 0; u < optimizers_.size(); ++u) {
      optimizers_[u].step(dp_, learning_rate, gradient_factor, skip, skipped);
      fill(dp_, gradients_[u], 0);
    }
  }

 private:
  struct Whole {
    Slice values, gradients;
    Ticket gathered;
  };

  void take(Pass pass, const Turn& turn) {
    for (std::size_t u : turn.reshard) reshard(u);
    for (std::size_t u : turn.gather) gather(u);
    for (std::size_t u : turn.unshard) unshard(pass, u);
  }

  template <class Work>
  Ticket communicate(const char* name, std::size_t bytes, Work work) {
    const auto named = [=](Rank queue) {
      Scope scope = queue.region(name, bytes);
      work(queue);
    };
    if (options_.prefetch > 0) return dp_.run(comm_, named);
    named(dp_);
    return {};
  }

  void gather(std::size_t u) {
    Slice whole = dp_.allocate(model_.units[u].size, options_.precision.compute, Category::parameter);
    whole_[u].values = whole;
    whole_[u].gathered = communicate("all_gather", whole.bytes(), [whole, share = values_[u]](Rank queue) {
      convert(queue, chunk(whole, queue.rank(), queue.size()), share);
      week21::ring_all_gather(queue, whole);
    });
  }

  void unshard(Pass pass, std::size_t u) {
    Whole& whole = whole_[u];
    dp_.wait(whole.gathered);
    if (pass == Pass::backward) {
      while (reductions_.size() > 1) wait_for_the_oldest();  // one unit's gradients may be in flight
      whole.gradients = dp_.allocate(whole.values.size(), options_.precision.compute, Category::gradient);
      fill(dp_, whole.gradients, 0);
    }
    bind(u, whole);
  }

  void reshard(std::size_t u) {
    bind(u, {});
    const Slice gradients = std::exchange(whole_[u], {}).gradients;
    if (gradients.empty()) return;  // a forward pass
    const DType type = options_.precision.reduce;
    const auto work = [gradients, type, as = options_.policies.in_type, share = gradients_[u]](Rank queue) {
      Slice sums = as(queue, gradients, type), mine = chunk(sums, queue.rank(), queue.size());
      week21::ring_reduce_scatter(queue, sums);
      scale(queue, mine, 1.0f / static_cast<float>(queue.size()));
      add(queue, share, as(queue, mine, share.dtype()));
    };
    reductions_.push_back(communicate("reduce_scatter", gradients.size() * bytes_of(type), work));
  }

  /// Each tensor of the unit to its part of `whole`, or to nothing.
  void bind(std::size_t u, const Whole& whole) const {
    const Unit& unit = model_.units[u];
    for (std::size_t i = unit.first; i < unit.first + unit.count; ++i) {
      const auto part = [&, at = model_.table[i].offset - unit.offset](const Slice& of) {
        return of.empty() ? Slice() : of.cut(at, model_.table[i].size);
      };
      bind_(i, part(whole.values), part(whole.gradients));
    }
  }

  void wait_for_the_oldest() {
    dp_.wait(reductions_.front());
    reductions_.pop_front();
  }

  Rank dp_, comm_;
  FsdpOptions options_;
  BindTensor bind_;
  ShardedModel model_;
  std::array<std::vector<Turn>, 2> turns_;
  std::vector<Slice> values_, gradients_;
  std::vector<Optimizer> optimizers_;
  std::vector<Whole> whole_;
  std::deque<Ticket> reductions_;
};

}  // namespace
// lab omit end

std::unique_ptr<Fsdp> make_fsdp([[maybe_unused]] Rank dp, [[maybe_unused]] ShardedModel model, FsdpOptions options,
                                [[maybe_unused]] BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  // lab 22.4a begin: a class of your own that implements Fsdp: gather, bind, release (a); reduce and update (b); with
  // prefetch on a queue named "comm". It asks options.policies what to gather ahead, and for another type. Regions
  // "all_gather" and "reduce_scatter" with the bytes sent
  return std::make_unique<TurnByTurn>(dp, std::move(model), options, std::move(bind));
  // lab end
}

}  // namespace lockstep::week22
