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
  todo("21.7a", "the sum over all ranks, divided by their number");
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
    todo("21.7b",
         "this bucket is missing one less; launch every bucket that is missing none, but never before its "
         "predecessors: all ranks must communicate in the same order");
  }

  /// Averages a complete bucket: at once, or on the queue "comm" while main goes on.
  void launch(const Bucket& bucket) {
    if (!options_.overlap) return average(dp_, bucket.gradients, all_reduce_);
    todo("21.7c", "run the average on comm_; capture by value what it needs; keep the ticket in last_launched_");
  }

  void wait_for_averages() override {
    todo("21.7c", "main waits for the last bucket's average, which also waits for all before it");
  }

  /// The pass is over: parameters that are not ready yet have no gradient from it. Those of an earlier pass of the
  /// window, or of another rank, still count, so their buckets are launched like all others.
  void mark_unused() override {
    todo("21.7e", "mark every parameter that is not ready, so that each rank launches each bucket");
  }

  /// used_[i]: did any rank use parameter i in this window? used_here_[i] is 1 if this rank did, else 0.
  void share_usage() override {
    todo("21.7e",
         "upload used_here_ into usage_ and sum it over the ranks; then fill used_. What I used counts as used: only "
         "the others need `read`, which makes the host wait for the device. Finally zero used_here_");
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
  todo("21.7d", "all passes but the last inside a NoSync scope; finish() after each, in the same block");
}

}  // namespace lockstep::week21
