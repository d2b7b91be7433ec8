// 22.4 on the given bookkeeping: units gathered straight into their place by an exchange with each peer, averages taken
// on a scratch.
#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {
namespace {

/// Chunk r of `whole` from rank r, for all r but this one; theirs to them.
void exchange_chunks(Rank queue, const Slice& whole) {
  const int p = queue.size(), own = queue.rank();
  std::vector<Transfer> batch;
  for (int i = 1; i < p; ++i) {
    batch.push_back(receive((own + i) % p, chunk(whole, own + i, p)));
    batch.push_back(send((own + p - i) % p, chunk(whole, own, p)));
  }
  queue.exchange(batch);
}

class GivenUnits final : public FsdpUnits {
 public:
  using FsdpUnits::FsdpUnits;

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (std::size_t u = optimizers_.size(); u-- > 0;) {
      optimizers_[u].step(dp_, learning_rate, gradient_factor, skip, skipped);
      fill(dp_, gradients_[u], 0);
    }
  }

 private:
  void gather(std::size_t u) override {
    Unsharded& unit = unsharded_.at(u);
    unit.values = dp_.allocate(model_.units[u].size, options_.precision.compute, Category::parameter);
    unit.gathered = communicate("all_gather", unit.values.bytes(), [to = unit.values, own = values_[u]](Rank queue) {
      convert(queue, chunk(to, queue.rank(), queue.size()), own);
      exchange_chunks(queue, to);
    });
  }

  void release(std::size_t u) override { unsharded_.at(u) = Unsharded(); }

  Ticket reduce(Slice whole, Slice share) override {
    const DType wire = options_.precision.reduce;
    return communicate("reduce_scatter", whole.size() * bytes_of(wire),
                       [whole, share, wire, in_type = options_.policies.in_type](Rank queue) {
                         const Slice sums = in_type(queue, whole, wire);
                         week21::ring_reduce_scatter(queue, sums);
                         const Slice own = chunk(sums, queue.rank(), queue.size());
                         Slice average = queue.allocate(own.size(), wire, Category::buffer);
                         copy(queue, average, own);
                         scale(queue, average, 1.0f / static_cast<float>(queue.size()));
                         add(queue, share, in_type(queue, average, share.dtype()));
                       });
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<GivenUnits>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
