// 22.3 with one struct for all that concerns a unit, and every ticket kept until it has been waited for.
#include "labs/week22_zero/zero2.hpp"

#include <deque>
#include <utility>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

struct Part {
  Unit unit;
  std::size_t begin, end;  // positions in the backward pass
  Slice values;            // whole
  Slice share;             // of the gradients
  Slice gradients;         // whole, or empty
};

class Parts final : public Zero2 {
 public:
  Parts(Rank dp, const Parameters& parameters, const std::vector<Unit>& units, const UsageOrder& usage_order,
        const Zero2Options& options, BindGradient bind)
      : dp_(dp),
        queue_(options.overlap ? dp.stream("comm") : dp),
        overlap_(options.overlap),
        table_(parameters.list),
        pieces_(usage_order.size()),
        bind_(std::move(bind)) {
    week21::broadcast_values(dp, parameters.values);
    const UnitTimes times = unit_times(units, usage_order, Pass::backward);
    for (std::size_t u : times.order) order_.push_back(u);
    for (std::size_t u = 0; u < units.size(); ++u) {
      const ChunkRange own = units[u].shard(dp.rank(), dp.size());
      const Slice values = parameters.values.cut(units[u].offset, units[u].size);
      const Slice share = dp.allocate(own.size, values.dtype(), Category::gradient);
      fill(dp, share, 0);
      parts_.push_back({units[u], times.begin[u], times.end[u], values, share, {}});
      optimizers_.emplace_back(dp, shard_parameters(table_, units[u], own, values.cut(own.offset, own.size), share),
                               options.adamw);
    }
  }

  void before_backward(std::size_t piece) override {
    const std::size_t now = pieces_ - 1 - piece;
    reduce_those([now](const Part& part) { return part.end < now; });
    for (std::size_t u : order_)
      if (Part& part = parts_[u]; part.gradients.empty() && part.begin <= now && now <= part.end) open(part);
  }

  void end_backward() override {
    reduce_those([](const Part&) { return true; });
    wait_until_in_flight(0);
  }

  std::vector<Slice> gradient_shares() const override {
    std::vector<Slice> shares;
    for (const Part& part : parts_) shares.push_back(part.share);
    return shares;
  }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (std::size_t u = 0; u < parts_.size(); ++u) {
      optimizers_[u].step(dp_, learning_rate, gradient_factor, skip, skipped);
      fill(dp_, parts_[u].share, 0);
      Scope scope = dp_.region("all_gather", parts_[u].values.bytes());
      week21::ring_all_gather(dp_, parts_[u].values);
    }
  }

 private:
  template <class F>
  void reduce_those(F done) {
    for (std::size_t u : order_)
      if (Part& part = parts_[u]; !part.gradients.empty() && done(part)) reduce(part);
  }

  void wait_until_in_flight(std::size_t most) {
    for (; in_flight_.size() > most; in_flight_.pop_front()) dp_.wait(in_flight_.front());
  }

  void bind(const Part& part) const {
    for (std::size_t i = part.unit.first; i < part.unit.first + part.unit.count; ++i) {
      const std::size_t at = table_[i].offset - part.unit.offset;
      bind_(i, part.gradients.empty() ? Slice() : part.gradients.cut(at, table_[i].size));
    }
  }

  void open(Part& part) {
    wait_until_in_flight(1);
    part.gradients = dp_.allocate(part.unit.size, part.values.dtype(), Category::gradient);
    fill(dp_, part.gradients, 0);
    bind(part);
  }

  void reduce(Part& part) {
    const Slice whole = std::exchange(part.gradients, Slice());
    bind(part);
    const auto work = [whole, share = part.share](Rank queue) {
      Scope scope = queue.region("reduce_scatter", whole.bytes());
      week21::ring_reduce_scatter(queue, whole);
      const Slice own = chunk(whole, queue.rank(), queue.size());
      scale(queue, own, 1.0f / static_cast<float>(queue.size()));
      add(queue, share, own, share);
    };
    if (overlap_)
      in_flight_.push_back(dp_.run(queue_, work));
    else
      work(dp_);
  }

  Rank dp_, queue_;
  bool overlap_;
  std::vector<Parameter> table_;
  std::size_t pieces_;
  BindGradient bind_;
  std::vector<Part> parts_;
  std::vector<std::size_t> order_;
  std::vector<Optimizer> optimizers_;
  std::deque<Ticket> in_flight_;
};

}  // namespace

std::unique_ptr<Zero2> make_zero2(Rank dp, Parameters parameters, std::vector<Unit> units,
                                  const UsageOrder& usage_order, Zero2Options options, BindGradient bind) {
  return std::make_unique<Parts>(dp, parameters, units, usage_order, options, std::move(bind));
}

}  // namespace lockstep::week22
