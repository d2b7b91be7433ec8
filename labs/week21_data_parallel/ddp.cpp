// Exercise 21.7: distributed data parallelism. Read labs/week21_data_parallel/ddp.hpp first.
//
// Given are the bucket layout, and who belongs to which bucket; yours is when a bucket is averaged, on which queue,
// and when somebody must wait.
#include "labs/week21_data_parallel/ddp.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

float shard_weight(std::size_t mine, std::size_t samples, int ranks) {
  todo("21.7a", "a shard's share of all samples, times p, because the average divides by p");
}

void broadcast_values(Rank dp, Slice values) {
  Scope scope = dp.region("broadcast", values.bytes());
  todo("21.7a", "rank 0 sends `values` to every other rank, in one batch; the others receive it");
}

void average(Rank dp, Slice gradients, const AllReduce& all_reduce) {
  todo("21.7a", "the sum over all ranks, divided by their number");
}

std::vector<Bucket> bucket_layout(const Parameters& parameters, const DdpOptions& options) {
  std::vector<Bucket> buckets;
  std::size_t end = parameters.list.size();  // parameters from `end` on have a bucket
  while (end > 0) {
    const std::size_t limit = buckets.empty() ? options.first_bucket_bytes : options.bucket_bytes;
    std::size_t first = end, bytes = 0;
    do bytes += parameters.gradient(--first).bytes();
    while (first > 0 && bytes < limit);
    const std::size_t offset = parameters.list[first].offset;
    const std::size_t last = parameters.list[end - 1].offset + parameters.list[end - 1].size;
    buckets.push_back({first, end - first, parameters.gradients.cut(offset, last - offset)});
    end = first;
  }
  return buckets;
}

namespace {

class BucketedDdp final : public Ddp {
 public:
  BucketedDdp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce)
      : dp_(dp),
        comm_(options.overlap ? dp.stream("comm") : dp),
        parameters_(std::move(parameters)),
        options_(options),
        all_reduce_(std::move(all_reduce)),
        buckets_(bucket_layout(parameters_, options)),
        bucket_of_(parameters_.list.size()),
        ready_(parameters_.list.size(), false),
        used_here_(parameters_.list.size(), 0.0f),
        used_(parameters_.list.size(), true) {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (std::size_t i = 0; i < buckets_[b].count; ++i) bucket_of_[buckets_[b].first + i] = b;
    if (options_.find_unused) usage_ = dp_.allocate(parameters_.list.size(), DType::f32, Category::buffer);
    broadcast_values(dp_, parameters_.values);
    arm();
  }

  void gradient_ready(std::size_t index) override {
    used_here_.at(index) = 1.0f;
    mark(index);
  }

  void finish() override {
    if (paused()) {
      todo("21.7d", "the window goes on: the next pass starts with no parameter ready, and nothing is sent");
    }
    if (options_.find_unused) mark_unused();
    refuse_missing();
    if (options_.overlap) {
      todo("21.7c", "main goes on when the last bucket's average is done (and with it all before)");
    }
    if (options_.find_unused) share_usage();
    arm();
  }

  bool used(std::size_t index) const override { return used_.at(index); }
  const std::vector<Bucket>& buckets() const override { return buckets_; }

 private:
  /// A new backward pass: no parameter is ready, no bucket was launched.
  void arm() {
    std::fill(ready_.begin(), ready_.end(), false);
    todo("21.7b", "every bucket misses all its parameters, and bucket 0 is the next to launch");
  }

  /// Parameter `index` has its final gradient, or is known to have none.
  void mark(std::size_t index) {
    if (ready_[index])
      usage_error("the gradient of " + parameters_.list[index].name + " became ready twice in one pass");
    ready_[index] = true;
    if (paused()) {
      todo("21.7d", "inside no_sync nothing is averaged");
    }
    todo("21.7b",
         "its bucket misses one less; launch every bucket that misses none, but never before its predecessors: all "
         "ranks must communicate in the same order");
  }

  /// Averages a complete bucket: at once, or on the queue "comm" while main goes on.
  void launch(const Bucket& bucket) {
    if (!options_.overlap) return average(dp_, bucket.gradients, all_reduce_);
    todo("21.7c", "run the average on comm_; capture by value what it needs; keep the ticket in last_launched_");
  }

  /// The pass is over: parameters that are not ready yet have no gradient from it. Those of an earlier pass of the
  /// window, or of another rank, still count, so their buckets are launched like all others.
  void mark_unused() {
    todo("21.7e", "mark every parameter that is not ready, so that each rank launches each bucket");
  }

  /// used_[i]: did any rank use parameter i in this window? used_here_[i] is 1 if this rank did, else 0.
  void share_usage() {
    todo("21.7e",
         "upload used_here_ into usage_ and sum it over the ranks; then fill used_. What I used, somebody used: only "
         "the others need `read`, which makes the host wait for the device. Last, zero used_here_");
  }

  /// A parameter that is not ready would leave its bucket, and all after it, waiting for ever on the other ranks.
  void refuse_missing() const {
    for (std::size_t i = ready_.size(); i-- > 0;)
      if (!ready_[i])
        usage_error("finish() without a gradient of " + parameters_.list[i].name + ": bucket " +
                    std::to_string(bucket_of_[i]) +
                    " can never be averaged. Parameters that a pass does not use need options.find_unused");
  }

  Rank dp_;
  Rank comm_;
  Parameters parameters_;
  DdpOptions options_;
  AllReduce all_reduce_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<bool> ready_;             // by parameter, in this pass
  std::vector<float> used_here_;        // by parameter, in this window: 1 or 0
  std::vector<bool> used_;              // by parameter, in the last window, by any rank
  Slice usage_;                         // for the sum of used_here_

  std::vector<std::size_t> missing_;  // by bucket: parameters that are not ready
  std::size_t next_ = 0;              // the first bucket that was not launched
  Ticket last_launched_;
};

}  // namespace

std::unique_ptr<Ddp> make_ddp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce) {
  return std::make_unique<BucketedDdp>(dp, std::move(parameters), options, std::move(all_reduce));
}

void run_window(Ddp& ddp, int microbatches, const std::function<void(int microbatch)>& backward) {
  todo("21.7d", "all passes but the last inside a NoSync scope; finish() after each");
}

}  // namespace lockstep::week21
