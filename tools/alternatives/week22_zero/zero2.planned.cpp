// 22.3 from a plan made at set-up: which units a piece opens, and which are reduced before it. The average goes through
// a scratch.
#include "labs/week22_zero/zero2.hpp"

#include <utility>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

/// Before a piece of the backward pass, and after the last one.
struct Turn {
  std::vector<std::size_t> reduce, open;
};

class Planned final : public Zero2 {
 public:
  Planned(Rank dp, Parameters parameters, std::vector<Unit> units, const UsageOrder& usage_order, Zero2Options options,
          BindGradient bind)
      : dp_(dp), parameters_(std::move(parameters)), units_(std::move(units)), bind_(std::move(bind)) {
    if (options.overlap) comm_.push_back(dp.stream("comm"));
    week21::broadcast_values(dp, parameters_.values);
    const UnitTimes times = unit_times(units_, usage_order, Pass::backward);
    turns_.resize(usage_order.size() + 1);
    for (std::size_t u : times.order) {
      turns_[times.begin[u]].open.push_back(u);
      turns_[times.end[u] + 1].reduce.push_back(u);
    }
    gradients_.resize(units_.size());
    for (const Unit& unit : units_) {
      const ChunkRange own = unit.shard(dp.rank(), dp.size());
      shares_.push_back(dp.allocate(own.size, parameters_.values.dtype(), Category::gradient));
      fill(dp, shares_.back(), 0);
      const Slice values = parameters_.values.cut(unit.offset + own.offset, own.size);
      optimizers_.emplace_back(dp, shard_parameters(parameters_.list, unit, own, values, shares_.back()),
                               options.adamw);
    }
  }

  void before_backward(std::size_t piece) override { take(turns_[turns_.size() - 2 - piece]); }

  void end_backward() override {
    take(turns_.back());
    for (const Ticket& ticket : tickets_) dp_.wait(ticket);
    tickets_.clear();
  }

  std::vector<Slice> gradient_shares() const override { return shares_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (Optimizer& optimizer : optimizers_) optimizer.step(dp_, learning_rate, gradient_factor, skip, skipped);
    for (std::size_t u = units_.size(); u-- > 0;) {
      const Slice values = parameters_.values.cut(units_[u].offset, units_[u].size);
      Scope scope = dp_.region("all_gather", values.bytes());
      week21::ring_all_gather(dp_, values);
      fill(dp_, shares_[u], 0);
    }
  }

 private:
  void take(const Turn& turn) {
    for (std::size_t u : turn.reduce) reduce(u);
    for (std::size_t u : turn.open) open(u);
  }

  void open(std::size_t u) {
    if (tickets_.size() > 1) dp_.wait(tickets_[tickets_.size() - 2]);
    Slice whole = dp_.allocate(units_[u].size, parameters_.values.dtype(), Category::gradient);
    fill(dp_, whole, 0);
    for (std::size_t i = units_[u].first; i < units_[u].first + units_[u].count; ++i)
      bind_(i, whole.cut(parameters_.list[i].offset - units_[u].offset, parameters_.list[i].size));
    gradients_[u] = whole;
  }

  void reduce(std::size_t u) {
    for (std::size_t i = units_[u].first; i < units_[u].first + units_[u].count; ++i) bind_(i, {});
    const auto work = [whole = std::exchange(gradients_[u], {}), share = shares_[u]](Rank queue) {
      Scope scope = queue.region("reduce_scatter", whole.bytes());
      week21::ring_reduce_scatter(queue, whole);
      Slice average = queue.allocate(share.size(), share.dtype(), Category::buffer);
      copy(queue, average, chunk(whole, queue.rank(), queue.size()));
      scale(queue, average, 1.0f / static_cast<float>(queue.size()));
      add(queue, share, average);
    };
    if (comm_.empty()) return work(dp_);
    tickets_.push_back(dp_.run(comm_.front(), work));
  }

  Rank dp_;
  std::vector<Rank> comm_;  // the queue "comm", where there is overlap
  Parameters parameters_;
  std::vector<Unit> units_;
  BindGradient bind_;
  std::vector<Turn> turns_;
  std::vector<Slice> gradients_, shares_;  // by unit
  std::vector<Optimizer> optimizers_;
  std::vector<Ticket> tickets_;
};

}  // namespace

std::unique_ptr<Zero2> make_zero2(Rank dp, Parameters parameters, std::vector<Unit> units,
                                  const UsageOrder& usage_order, Zero2Options options, BindGradient bind) {
  return std::make_unique<Planned>(dp, std::move(parameters), std::move(units), usage_order, options, std::move(bind));
}

}  // namespace lockstep::week22
