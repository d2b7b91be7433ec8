// 21.7 on the given bookkeeping, with buckets that count up, complete ones in a set, a broadcast over a tree, and
// windows by recursion.
#include "labs/week21_data_parallel/ddp.hpp"

#include <algorithm>
#include <set>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/bucketed_ddp.hpp"

namespace lockstep::week21 {

void broadcast_values(Rank dp, Slice values) {
  Scope scope = dp.region("broadcast", values.bytes());
  for (int have = 1; have < dp.size(); have *= 2) {  // ranks 0 … have − 1 have the values
    if (dp.rank() < have && dp.rank() + have < dp.size()) dp.exchange({send(dp.rank() + have, values)});
    if (dp.rank() >= have && dp.rank() < 2 * have) dp.exchange({receive(dp.rank() - have, values)});
  }
}

void average(Rank dp, Slice gradients, const AllReduce& all_reduce) {
  const float share = 1.0f / static_cast<float>(dp.size());
  all_reduce(dp, gradients);
  scale(dp, gradients, share);
}

namespace {

class CountsUp final : public BucketedDdp {
 public:
  CountsUp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce)
      : BucketedDdp(dp, std::move(parameters), options, std::move(all_reduce)), counts_(buckets_.size(), 0) {
    start_pass();
  }

 private:
  void expect_all() override {
    std::fill(counts_.begin(), counts_.end(), 0);
    complete_.clear();
    launched_ = 0;
  }

  void count_ready(std::size_t bucket) override {
    if (++counts_[bucket] == buckets_[bucket].count) complete_.insert(bucket);
    for (auto next = complete_.find(launched_); next != complete_.end(); next = complete_.find(launched_)) {
      ++launched_;
      launch(*next);
    }
  }

  void launch(std::size_t bucket) {
    const Slice gradients = buckets_[bucket].gradients;
    if (!options_.overlap) return average(dp_, gradients, all_reduce_);
    tickets_.push_back(dp_.run(comm_, [gradients, sum = all_reduce_](Rank queue) { average(queue, gradients, sum); }));
  }

  void wait_for_averages() override {
    for (; !tickets_.empty(); tickets_.pop_back()) dp_.wait(tickets_.back());
  }

  void mark_unused() override {
    for (std::size_t i = ready_.size(); i-- > 0;)
      if (!ready_[i]) mark(i);
  }

  void share_usage() override {
    upload(dp_, usage_, used_here_);
    all_reduce_(dp_, usage_);
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const float ranks = used_here_[i] == 1.0f ? 1.0f : read(dp_, usage_.cut(i, 1), 1);
      used_[i] = ranks >= 1;
      used_here_[i] = 0;
    }
  }

  std::vector<std::size_t> counts_;  // by bucket: parameters that are ready
  std::set<std::size_t> complete_;   // buckets
  std::size_t launched_ = 0;
  std::vector<Ticket> tickets_;
};

void passes_from(Ddp& ddp, int first, int last, const std::function<void(int)>& backward) {
  if (first == last) {
    backward(last);
    return ddp.finish();
  }
  {
    NoSync quiet(ddp);
    backward(first);
    ddp.finish();
  }
  passes_from(ddp, first + 1, last, backward);
}

}  // namespace

std::unique_ptr<Ddp> make_ddp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce) {
  return std::make_unique<CountsUp>(dp, std::move(parameters), options, std::move(all_reduce));
}

void run_window(Ddp& ddp, int microbatches, const std::function<void(int microbatch)>& backward) {
  passes_from(ddp, 0, microbatches - 1, backward);
}

}  // namespace lockstep::week21
