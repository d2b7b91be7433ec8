// 22.4 on the given bookkeeping: units gathered straight into their place by an exchange with each peer, averages taken
// on a scratch, and units wrapped by the key that their tensors share.
#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  std::vector<std::string> keys;
  std::size_t full = 0, elements = 0;  // units of at_least so far, and what the next one has
  std::string outside = "before";
  for (const Parameter& tensor : table) {
    const bool in_block = tensor.name.rfind("blocks.", 0) == 0;
    if (in_block) outside = "after";
    switch (wrapping.kind) {
      case Wrapping::Kind::whole_model: keys.emplace_back(); break;
      case Wrapping::Kind::each_block:
        keys.push_back(in_block ? tensor.name.substr(0, tensor.name.find('.', 7)) : outside);
        break;
      case Wrapping::Kind::each_layer: keys.push_back(tensor.name.substr(0, tensor.name.find_last_of('.'))); break;
      case Wrapping::Kind::at_least:
        if (elements >= wrapping.elements && elements > 0) ++full, elements = 0;
        elements += tensor.size;
        keys.push_back(std::to_string(full));
    }
  }
  std::vector<Unit> units;
  for (std::size_t first = 0, next; first < table.size(); first = next) {
    for (next = first; next < table.size() && keys[next] == keys[first];) ++next;
    units.push_back(make_unit(table, first, next - first));
  }
  return units;
}

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
    return communicate("reduce_scatter", whole.size() * bytes_of(wire), [whole, share, wire](Rank queue) {
      const Slice sums = in_type(queue, whole, wire);
      week21::ring_reduce_scatter(queue, sums);
      const Slice own = chunk(sums, queue.rank(), queue.size());
      Slice average = queue.allocate(own.size(), wire, Category::buffer);
      copy(queue, average, own);
      scale(queue, average, 1.0f / static_cast<float>(queue.size()));
      add(queue, share, in_type(queue, average, share.dtype()));
    });
  }

  void prefetch(const std::vector<std::size_t>& order) override {
    while (gathered_ < order.size() && gathered_ - used_ < static_cast<std::size_t>(options_.prefetch))
      gather(order[gathered_++]);
  }

  static Slice in_type(Rank queue, const Slice& from, DType type) {
    if (from.dtype() == type) return from;
    const Slice to = queue.allocate(from.size(), type, Category::buffer);
    cast(queue, to, from);
    return to;
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<GivenUnits>(dp, std::move(model), options, std::move(bind));
}

}  // namespace lockstep::week22
