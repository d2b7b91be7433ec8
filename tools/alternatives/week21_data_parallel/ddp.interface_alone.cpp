// 21.7 from ddp.hpp alone: a class of its own, which remembers when each parameter became ready in a set, sends rank
// 0's values down a chain, and waits for every bucket's ticket.
#include "labs/week21_data_parallel/ddp.hpp"

#include <set>
#include <utility>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void broadcast_values(Rank dp, Slice values) {
  Scope scope = dp.region("broadcast", values.bytes());
  if (dp.rank() > 0) dp.exchange({receive(dp.rank() - 1, values)});
  if (dp.rank() + 1 < dp.size()) dp.exchange({send(dp.rank() + 1, values)});
}

void average(Rank dp, Slice gradients, const AllReduce& all_reduce) {
  all_reduce(dp, gradients);
  Slice factor = dp.allocate(1, DType::f32, Category::buffer);
  fill(dp, factor, 1.0f / static_cast<float>(dp.size()));
  scale(dp, gradients, factor);
}

namespace {

class SetOfReady final : public Ddp {
 public:
  SetOfReady(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce)
      : dp_(dp),
        queue_(options.overlap ? dp.stream("comm") : dp),
        parameters_(std::move(parameters)),
        options_(options),
        all_reduce_(std::move(all_reduce)),
        buckets_(bucket_layout(parameters_, options)),
        used_by_any_(parameters_.list.size(), true) {
    broadcast_values(dp_, parameters_.values);
  }

  void gradient_ready(std::size_t index) override {
    if (!ready_.insert(index).second)
      usage_error("the gradient of " + parameters_.list.at(index).name + " became ready twice in one pass");
    used_here_.insert(index);
    if (!paused()) launch_what_is_complete();
  }

  void finish() override {
    const bool communicates = !paused();
    if (communicates) {
      for (std::size_t i = parameters_.list.size(); i-- > 0;) {
        if (ready_.count(i) > 0) continue;
        if (!options_.find_unused)
          usage_error("finish() without a gradient of " + parameters_.list[i].name +
                      ": what a pass does not use needs options.find_unused");
        ready_.insert(i);
      }
      launch_what_is_complete();
      for (const Ticket& ticket : tickets_) dp_.wait(ticket);
      tickets_.clear();
      launched_ = 0;
      if (options_.find_unused) exchange_usage();
    }
    ready_.clear();
  }

  bool used(std::size_t index) const override { return used_by_any_.at(index); }
  const std::vector<Bucket>& buckets() const override { return buckets_; }

 private:
  bool complete(const Bucket& bucket) const {
    std::size_t here = 0;
    for (std::size_t i = 0; i < bucket.count; ++i) here += ready_.count(bucket.first + i);
    return here == bucket.count;
  }

  void launch_what_is_complete() {
    while (launched_ < buckets_.size() && complete(buckets_[launched_])) {
      const auto work = [gradients = buckets_[launched_].gradients, sum = all_reduce_](Rank queue) {
        average(queue, gradients, sum);
      };
      ++launched_;
      if (options_.overlap)
        tickets_.push_back(dp_.run(queue_, work));
      else
        work(dp_);
    }
  }

  void exchange_usage() {
    std::vector<float> flags(parameters_.list.size(), 0.0f);
    for (std::size_t index : used_here_) flags[index] = 1;
    Slice sums = dp_.allocate(flags.size(), DType::f32, Category::buffer);
    upload(dp_, sums, flags);
    all_reduce_(dp_, sums);
    for (std::size_t i = 0; i < flags.size(); ++i) used_by_any_[i] = flags[i] != 0 || read(dp_, sums.cut(i, 1), 1) != 0;
    used_here_.clear();
  }

  Rank dp_, queue_;
  Parameters parameters_;
  DdpOptions options_;
  AllReduce all_reduce_;
  std::vector<Bucket> buckets_;
  std::set<std::size_t> ready_, used_here_;
  std::size_t launched_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<bool> used_by_any_;
};

}  // namespace

std::unique_ptr<Ddp> make_ddp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce) {
  return std::make_unique<SetOfReady>(dp, std::move(parameters), options, std::move(all_reduce));
}

void run_window(Ddp& ddp, int microbatches, const std::function<void(int microbatch)>& backward) {
  for (int i = 0; i < microbatches; ++i) {
    std::unique_ptr<NoSync> quiet;
    if (i < microbatches - 1) quiet = std::make_unique<NoSync>(ddp);
    backward(i);
    ddp.finish();
  }
}

}  // namespace lockstep::week21
