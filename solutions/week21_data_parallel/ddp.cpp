// Exercise 21.7: distributed data parallelism. Read labs/week21_data_parallel/ddp.hpp first, and for parts b to e
// bucketed_ddp.hpp, whose members the class below uses.
#include "labs/week21_data_parallel/ddp.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/bucketed_ddp.hpp"

namespace lockstep::week21 {

void broadcast_values(Rank dp, Slice values) {
  Scope scope = dp.region("broadcast", values.bytes());
  if (dp.rank() != 0) return dp.exchange({receive(0, values)});
  std::vector<Transfer> batch;
  for (int peer = 1; peer < dp.size(); ++peer) batch.push_back(send(peer, values));
  dp.exchange(batch);
}

void average(Rank dp, Slice gradients, const AllReduce& all_reduce) {
  // lab 21.7a begin: the sum over all ranks, divided by their number
  all_reduce(dp, gradients);
  scale(dp, gradients, 1.0f / static_cast<float>(dp.size()));
  // lab end
}

namespace {

class OverlappedDdp final : public BucketedDdp {
 public:
  OverlappedDdp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce)
      : BucketedDdp(dp, std::move(parameters), options, std::move(all_reduce)) {
    start_pass();
  }

 private:
  /// Every bucket misses all its parameters, and bucket 0 is the next to launch.
  void expect_all() override {
    missing_.clear();
    for (const Bucket& bucket : buckets_) missing_.push_back(bucket.count);
    next_ = 0;
  }

  void count_ready(std::size_t bucket) override {
    // lab 21.7b begin: a bucket is launched as soon as none of its gradients is missing_, but never before its
    // predecessors: all ranks must communicate in the same order
    --missing_[bucket];
    for (; next_ < buckets_.size() && missing_[next_] == 0; ++next_) launch(buckets_[next_]);
    // lab end
  }

  /// Averages a complete bucket: at once, or on the queue "comm" while main continues.
  void launch(const Bucket& bucket) {
    if (!options_.overlap) return average(dp_, bucket.gradients, all_reduce_);
    // lab 21.7c begin: the bucket's average happens on comm_ while main continues, and last_launched_ is its ticket.
    // The closure outlives this call
    last_launched_ = dp_.run(comm_, [gradients = bucket.gradients, all_reduce = all_reduce_](Rank queue) {
      average(queue, gradients, all_reduce);
    });
    // lab end
  }

  void wait_for_averages() override {
    // lab 21.7c begin: on return all averages are complete
    dp_.wait(last_launched_);
    // lab end
  }

  /// The pass is over: parameters that are not ready yet have no gradient from it. Those of an earlier pass of the
  /// window, or of another rank, still count, so their buckets are launched like all others.
  void mark_unused() override {
    // lab 21.7e begin: afterwards each rank has launched each bucket, whatever it used
    for (std::size_t i = 0; i < ready_.size(); ++i)
      if (!ready_[i]) mark(i);
    // lab end
  }

  /// used_[i]: did any rank use parameter i in this window? used_here_[i] is 1 if this rank did, else 0.
  void share_usage() override {
    // lab 21.7e begin: used_ says what any rank has used since the last time, and used_here_ begins again with zeros.
    // The host waits for the device in each `read`: spare it where you know the answer
    upload(dp_, usage_, used_here_);
    all_reduce_(dp_, usage_);
    for (std::size_t i = 0; i < used_.size(); ++i)
      used_[i] = used_here_[i] > 0 || read(dp_, usage_.cut(i, 1), /*if_phantom=*/1) > 0;
    std::fill(used_here_.begin(), used_here_.end(), 0.0f);
    // lab end
  }

  std::vector<std::size_t> missing_;  // by bucket: parameters that are not ready
  std::size_t next_ = 0;              // the first bucket that was not launched
  Ticket last_launched_;
};

}  // namespace

std::unique_ptr<Ddp> make_ddp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce) {
  return std::make_unique<OverlappedDdp>(dp, std::move(parameters), options, std::move(all_reduce));
}

void run_window(Ddp& ddp, int microbatches, const std::function<void(int microbatch)>& backward) {
  // lab 21.7d begin: `microbatches` passes, of which only the last one communicates. finish() ends each, while its
  // NoSync lasts
  const auto pass = [&](int i) {
    backward(i);
    ddp.finish();
  };
  for (int i = 0; i + 1 < microbatches; ++i) {
    NoSync quiet(ddp);
    pass(i);
  }
  pass(microbatches - 1);
  // lab end
}

}  // namespace lockstep::week21
