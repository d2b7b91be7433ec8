// Given: the bookkeeping of 21.7's wrapper. Which parameters are ready, which bucket each belongs to, and in what order
// a pass ends; ddp.cpp adds when a bucket is averaged, on which queue, and where main waits.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::week21 {

class BucketedDdp : public Ddp {
 public:
  BucketedDdp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce)
      : dp_(dp),
        comm_(options.overlap ? dp.stream("comm") : dp),
        parameters_(std::move(parameters)),
        options_(options),
        buckets_(bucket_layout(parameters_, options)),
        all_reduce_(named(std::move(all_reduce))),
        ready_(parameters_.list.size(), false),
        used_here_(parameters_.list.size(), 0.0f),
        used_(parameters_.list.size(), true),
        bucket_of_(parameters_.list.size()) {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (std::size_t i = 0; i < buckets_[b].count; ++i) bucket_of_[buckets_[b].first + i] = b;
    if (options_.find_unused) usage_ = dp_.allocate(parameters_.list.size(), DType::f32, Category::buffer);
    broadcast_values(dp_, parameters_.values);
  }

  void gradient_ready(std::size_t index) override {
    if (used_here_.size() != parameters_.list.size())
      usage_error("used_here_ has lost its entries: fill it with zeros, do not clear() it");
    used_here_.at(index) = 1.0f;
    mark(index);
  }

  void finish() override {
    if (!paused()) {
      if (options_.find_unused) mark_unused();
      refuse_missing();
      if (options_.overlap) wait_for_averages();
      if (options_.find_unused) share_usage();
    }
    start_pass();
  }

  bool used(std::size_t index) const override { return used_.at(index); }
  const std::vector<Bucket>& buckets() const override { return buckets_; }

 protected:
  // Added by ddp.cpp.

  /// Part b, at the start of a pass: no bucket has a final gradient yet.
  virtual void expect_all() = 0;
  /// Part b: one more parameter of this bucket has its final gradient.
  virtual void count_ready(std::size_t bucket) = 0;
  /// Part c, at the end of a window with options_.overlap.
  virtual void wait_for_averages() = 0;
  /// Part e, at the end of a window with options_.find_unused: before all buckets are launched, and after.
  virtual void mark_unused() = 0;
  virtual void share_usage() = 0;

  /// A new backward pass: no parameter is ready.
  void start_pass() {
    std::fill(ready_.begin(), ready_.end(), false);
    expect_all();
  }

  /// Parameter `index` has its final gradient, or is known to have none. Inside no_sync no bucket counts it.
  void mark(std::size_t index, Location where = Location::current()) {
    if (ready_[index])
      usage_error("the gradient of " + parameters_.list[index].name +
                      " became ready twice in one pass. A pass ends with finish(), inside no_sync too",
                  where);
    ready_[index] = true;
    if (!paused()) count_ready(bucket_of_[index]);
  }

  Rank dp_;    // on main
  Rank comm_;  // the same ranks on the queue "comm" with options_.overlap, else on main
  Parameters parameters_;
  DdpOptions options_;
  std::vector<Bucket> buckets_;
  AllReduce all_reduce_;          // of a bucket, in a region "bucket 0 of 5" to "bucket 4 of 5"
  std::vector<bool> ready_;       // by parameter, in this pass
  std::vector<float> used_here_;  // by parameter, in this window: 1 or 0
  std::vector<bool> used_;        // by parameter, in the last window, by any rank
  Slice usage_;                   // for the sum of used_here_

 private:
  AllReduce named(AllReduce all_reduce) const {
    std::map<std::size_t, std::string> names;  // by where the bucket begins
    for (const Bucket& bucket : buckets_)
      names.try_emplace(bucket.gradients.offset_bytes(),
                        "bucket " + std::to_string(names.size()) + " of " + std::to_string(buckets_.size()));
    return [all_reduce = std::move(all_reduce), gradients = parameters_.gradients,
            names = std::make_shared<const std::map<std::size_t, std::string>>(std::move(names))](
               Rank me, const Slice& data, Location where) {
      const auto known = data.shares_memory_with(gradients) ? names->find(data.offset_bytes()) : names->end();
      if (known == names->end()) return all_reduce(me, data, where);  // what ranks exchange besides the gradients
      Scope scope = me.region(known->second.c_str(), kPhase, where);
      all_reduce(me, data, where);
    };
  }

  /// With a parameter that is not ready, the other ranks would wait forever for its bucket and all later ones.
  void refuse_missing(Location where = Location::current()) const {
    for (std::size_t i = ready_.size(); i-- > 0;)
      if (!ready_[i])
        usage_error("finish() without a gradient of " + parameters_.list[i].name + ": bucket " +
                        std::to_string(bucket_of_[i]) + " can never be averaged. " +
                        (options_.find_unused ? "options.find_unused is on: mark_unused() must mark it"
                                              : "Parameters that a pass does not use need options.find_unused"),
                    where);
  }

  std::vector<std::size_t> bucket_of_;  // by parameter
};

}  // namespace lockstep::week21
