// 22.2 with the buckets updated and gathered from the front of the model to its end.
#include "labs/week22_zero/zero1.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

void clip_shares(Rank dp, Slice factor, Slice sum, const std::vector<Slice>& shares, float max_norm) {
  fill(dp, sum, 0);
  std::for_each(shares.begin(), shares.end(), [&](const Slice& share) { add_squares(dp, sum, share); });
  week21::ring_reduce_scatter(dp, sum);
  week21::ring_all_gather(dp, sum);
  clip_factor(dp, factor, sum, max_norm);
}

namespace {

class Backwards final : public Zero1 {
 public:
  Backwards(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW adamw)
      : dp_(dp), parameters_(std::move(parameters)) {
    ddp_ = week21::make_ddp(dp, parameters_, buckets, [](Rank queue, const Slice& bucket) {
      Scope scope = queue.region("reduce_scatter", bucket.bytes());
      week21::ring_reduce_scatter(queue, bucket);
    });
    optimizers_.reserve(ddp_->buckets().size());
    for (const week21::Bucket& bucket : ddp_->buckets()) {
      const ChunkRange own = chunk_range(bucket.gradients.size(), dp_.rank(), dp_.size());
      optimizers_.push_back(Optimizer(dp_, parameters_, adamw, Range{first_of(bucket) + own.offset, own.size}));
    }
  }

  week21::Ddp& ddp() override { return *ddp_; }

  std::vector<Slice> gradient_shares() const override {
    std::vector<Slice> shares(ddp_->buckets().size());
    std::transform(ddp_->buckets().begin(), ddp_->buckets().end(), shares.begin(),
                   [&](const week21::Bucket& bucket) { return chunk(bucket.gradients, dp_.rank(), dp_.size()); });
    return shares;
  }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    for (std::size_t b = optimizers_.size(); b-- > 0;) {
      optimizers_[b].step(dp_, learning_rate, gradient_factor, skip, skipped);
      const week21::Bucket& bucket = ddp_->buckets()[b];
      const Slice values = parameters_.values.cut(first_of(bucket), bucket.gradients.size());
      Scope scope = dp_.region("all_gather", values.bytes());
      week21::ring_all_gather(dp_, values);
    }
  }

  std::vector<Optimizer>& optimizers() override { return optimizers_; }

 private:
  std::size_t first_of(const week21::Bucket& bucket) const { return parameters_.list[bucket.first].offset; }

  Rank dp_;
  Parameters parameters_;
  std::unique_ptr<week21::Ddp> ddp_;
  std::vector<Optimizer> optimizers_;
};

}  // namespace

std::unique_ptr<Zero1> make_zero1(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW options) {
  return std::make_unique<Backwards>(dp, std::move(parameters), buckets, options);
}

}  // namespace lockstep::week22
