// Exercise 22.2: ZeRO stage 1. Read labs/week22_zero/zero1.hpp first.
//
// Everything but the state of the optimizer is as in 21.7: values and gradients are whole on every rank.
#include "labs/week22_zero/zero1.hpp"

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {

void clip_shares(Rank dp, Slice factor, Slice sum, const std::vector<Slice>& shares, float max_norm) {
  fill(dp, sum, 0);
  // lab 22.2c begin: `sum`, which is 0, becomes the squares of all shares of all ranks, and `factor` clips by the norm
  // that follows from it; the same on all ranks
  for (const Slice& share : shares) add_squares(dp, sum, share);
  week21::ring_all_reduce(dp, sum);
  clip_factor(dp, factor, sum, max_norm);
  // lab end
}

namespace {

/// Sums a bucket's gradients before they are divided by p.
void sum_my_chunk(Rank dp, Slice bucket) {
  Scope scope = dp.region("reduce_scatter", bucket.bytes());
  // lab 22.2a begin: afterwards this rank's chunk of the bucket is the sum over all ranks: half an all-reduce (21.2)
  week21::ring_reduce_scatter(dp, bucket);
  // lab end
}

class BucketedZero1 final : public Zero1 {
 public:
  BucketedZero1(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW options)
      : dp_(dp),
        parameters_(std::move(parameters)),
        options_(options),
        ddp_(week21::make_ddp(dp, parameters_, buckets, sum_my_chunk)) {
    for (const week21::Bucket& bucket : ddp_->buckets()) optimizers_.push_back(optimizer_of(bucket));
  }

  week21::Ddp& ddp() override { return *ddp_; }
  std::vector<Optimizer>& optimizers() override { return optimizers_; }

  std::vector<Slice> gradient_shares() const override {
    std::vector<Slice> shares;
    for (const week21::Bucket& bucket : ddp_->buckets())
      shares.push_back(chunk(bucket.gradients, dp_.rank(), dp_.size()));
    return shares;
  }

  void step(float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) override {
    // lab 22.2b begin: every rank has the new values of all parameters, of which it has updated only its own chunk of
    // every bucket
    for (Optimizer& optimizer : optimizers_) optimizer.step(dp_, learning_rate, gradient_factor, skip, skipped);
    for (const week21::Bucket& bucket : ddp_->buckets()) gather(values_of(bucket));
    // lab end
  }

 private:
  /// Offset of a bucket's first element in the flat slices.
  std::size_t offset_of(const week21::Bucket& bucket) const { return parameters_.list[bucket.first].offset; }
  Slice values_of(const week21::Bucket& bucket) const {
    return parameters_.values.cut(offset_of(bucket), bucket.gradients.size());
  }

  /// AdamW on some range of all parameters, with state for that range and no more.
  Optimizer optimizer_of(const week21::Bucket& bucket) const {
    // lab 22.2a begin: return an Optimizer (common/gpt/model/optimizer.hpp) for the elements of the flat slices that
    // are this rank's chunk of the bucket: offset_of(bucket) gives the bucket's first element, chunk_range this rank's
    // part of it
    const ChunkRange mine = chunk_range(bucket.gradients.size(), dp_.rank(), dp_.size());
    return Optimizer(dp_, parameters_, options_, Range{offset_of(bucket) + mine.offset, mine.size});
    // lab end
  }

  /// This rank's chunk of `values` is complete; afterwards all of it is.
  void gather(Slice values) {
    Scope scope = dp_.region("all_gather", values.bytes());
    // lab 22.2b begin: the other half of the all-reduce
    week21::ring_all_gather(dp_, values);
    // lab end
  }

  Rank dp_;
  Parameters parameters_;
  AdamW options_;
  std::unique_ptr<week21::Ddp> ddp_;
  std::vector<Optimizer> optimizers_;  // by bucket
};

}  // namespace

std::unique_ptr<Zero1> make_zero1(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW options) {
  return std::make_unique<BucketedZero1>(dp, std::move(parameters), buckets, options);
}

}  // namespace lockstep::week22
