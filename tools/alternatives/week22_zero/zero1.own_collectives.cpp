// 22.2 with one struct for all that concerns a bucket, each bucket gathered as soon as it is updated, and steps of the
// all-gather written out.
#include "labs/week22_zero/zero1.hpp"

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

void sum_own_chunk(Rank queue, const Slice& gradients) {
  Scope scope = queue.region("reduce_scatter", gradients.bytes());
  week21::ring_reduce_scatter(queue, gradients);
}

/// Every rank sends its chunk to every other rank.
void hand_out(Rank dp, const Slice& values) {
  Scope scope = dp.region("all_gather", values.bytes());
  for (int distance = 1; distance < dp.size(); ++distance) {
    const int to = (dp.rank() + distance) % dp.size(), from = (dp.rank() + dp.size() - distance) % dp.size();
    dp.exchange({receive(from, chunk(values, from, dp.size())), send(to, chunk(values, dp.rank(), dp.size()))});
  }
}

class Buckets final : public Zero1 {
 public:
  Buckets(Rank dp, Parameters parameters, const week21::DdpOptions& options, const AdamW& adamw)
      : dp_(dp), ddp_(week21::make_ddp(dp, parameters, options, sum_own_chunk)) {
    for (const week21::Bucket& bucket : ddp_->buckets()) {
      const std::size_t first = parameters.list.at(bucket.first).offset, size = bucket.gradients.size();
      const ChunkRange own = chunk_range(size, dp.rank(), dp.size());
      values_.push_back(parameters.values.cut(first, size));
      shares_.push_back(bucket.gradients.cut(own.offset, own.size));
      optimizers_.emplace_back(dp, parameters, adamw, Range{first + own.offset, own.size});
    }
  }

  week21::Ddp& ddp() override { return *ddp_; }
  std::vector<Slice> gradient_shares() const override { return shares_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (std::size_t b = 0; b < optimizers_.size(); ++b) {
      optimizers_[b].step(dp_, learning_rate, gradient_factor, skip, skipped);
      hand_out(dp_, values_[b]);
    }
  }

 private:
  Rank dp_;
  std::unique_ptr<week21::Ddp> ddp_;
  std::vector<Slice> values_, shares_;
  std::vector<Optimizer> optimizers_;
};

}  // namespace

void clip_shares(Rank dp, Slice factor, Slice sum, const std::vector<Slice>& shares, float max_norm) {
  Slice mine = dp.allocate(1, DType::f32, Category::buffer);
  fill(dp, mine, 0);
  for (std::size_t i = shares.size(); i-- > 0;) add_squares(dp, mine, shares[i]);
  week21::ring_all_reduce(dp, mine);
  copy(dp, sum, mine);
  clip_factor(dp, factor, sum, max_norm);
}

std::unique_ptr<Zero1> make_zero1(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW options) {
  return std::make_unique<Buckets>(dp, std::move(parameters), buckets, options);
}

}  // namespace lockstep::week22
