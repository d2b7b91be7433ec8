// Exercise 21.7: distributed data parallelism (DDP). Every rank holds the whole model and a shard of the batch; during
// the backward pass the gradients are averaged over the ranks, bucket by bucket, while the pass continues.
//
// Follows Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
//
//   auto ddp = make_ddp(dp, model.parameters(), {}, ring_all_reduce);   // rank 0's values, everywhere
//   for (…) {
//     fill(dp, gradients, 0);
//     model.backward(batch, [&](std::size_t i) { ddp->gradient_ready(i); });
//     ddp->finish();                                                    // gradients are the average over the ranks
//     adamw(…);
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/gpt/model/parameters.hpp"
#include "common/rank.hpp"

namespace lockstep::week21 {

/// Sums `data` over all ranks of `me`'s group, in place: 21.2's ring_all_reduce, or any other. Called as
/// all_reduce(me, data); what goes wrong may be reported at `where`, the line that calls it.
class AllReduce {
 public:
  AllReduce() = default;
  template <std::invocable<Rank, Slice> F>
  AllReduce(F sum) : sum_([sum = std::move(sum)](Rank me, const Slice& data, Location) { sum(me, data); }) {}
  template <std::invocable<Rank, Slice, Location> F>
  AllReduce(F sum) : sum_(std::move(sum)) {}
  void operator()(Rank me, const Slice& data, Location where = Location::current()) const { sum_(me, data, where); }
  explicit operator bool() const { return static_cast<bool>(sum_); }

 private:
  std::function<void(Rank, const Slice&, Location)> sum_;
};
/// Returns how many optimizer steps are done, including those before a checkpoint.
using StepsDone = std::function<std::uint64_t()>;
/// Makes one that keeps state between steps for these parameters' gradients (21.9). Collective over `dp`, at set-up.
using MakeAllReduce = std::function<AllReduce(Rank dp, const Parameters& parameters, StepsDone steps)>;

// Part a: what every data-parallel step does ------------------------------------------------------------------------

/// Given: the factor for the mean loss of a rank's shard, so that the plain average of all ranks' gradients is the
/// gradient of the mean over the whole batch, even when the shards are not equally long: its `mine` samples against the
/// `samples` ≥ 1 of all `ranks`. 1 when the shards are equal, 0 for an empty one. A rank's shard is
/// chunk_range(samples, rank, ranks): the longer ones first.
inline float shard_weight(std::size_t mine, std::size_t samples, int ranks) {
  return static_cast<float>(mine) * static_cast<float>(ranks) / static_cast<float>(samples);
}

/// Rank 0's `values` on every rank, so that all replicas start equal; every other rank receives them once. In a region
/// "broadcast".
void broadcast_values(Rank dp, Slice values);

/// `gradients` becomes its average over the group: one all-reduce, then one multiplication by 1/p.
/// Runs on whichever queue `dp` is on.
void average(Rank dp, Slice gradients, const AllReduce& all_reduce);

// Parts b to e: the wrapper ------------------------------------------------------------------------------------------

struct DdpOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;       ///< a bucket is closed once it holds this much
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  ///< the first one, smaller: communication starts early
  bool overlap = true;       ///< average buckets on the queue "comm", while main continues with the backward pass
  bool find_unused = false;  ///< allow parameters without a gradient, also different ones on different ranks
};

/// Neighbouring parameters whose gradients are averaged together: a slice of the flat gradient, so nothing is copied.
struct Bucket {
  std::size_t first = 0;  ///< index of its first parameter in Parameters::list
  std::size_t count = 0;  ///< parameters
  Slice gradients;
};
/// Given: bucket 0 holds the last parameters of the list, whose gradients are ready first; and so on to the front.
/// Every parameter is in exactly one bucket. A parameter larger than the limit closes its bucket.
inline std::vector<Bucket> bucket_layout(const Parameters& parameters, const DdpOptions& options) {
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

/// Averages the gradients of one replica with its peers. Made by make_ddp; all calls are made on the main queue.
///
/// A *window* is everything between two optimizer steps: any number of backward passes inside no_sync and one outside.
/// Each bucket is all-reduced exactly once per window, in bucket order on every rank, whatever the order in which its
/// gradients became ready.
class Ddp {
 public:
  virtual ~Ddp() = default;

  /// Called by the backward pass as soon as the gradient of parameter `index` is final; once for each parameter.
  /// Launches the average of every bucket that this completes. Called twice in one pass: a USAGE error.
  virtual void gradient_ready(std::size_t index) = 0;

  /// Ends a backward pass. Outside no_sync, all gradients are averages when it returns (in main's order of work), and
  /// the next window may begin. A parameter that never became ready is a USAGE error that names it, unless
  /// options.find_unused.
  virtual void finish() = 0;

  /// With find_unused, after finish(): did any rank use parameter `index` in this window? An optimizer leaves the
  /// others alone (no weight decay, no momentum). Always true without find_unused. To find out, finish() sums one f32
  /// per parameter over the ranks, once per window and with the same all_reduce, after the last bucket.
  virtual bool used(std::size_t index) const = 0;

  virtual const std::vector<Bucket>& buckets() const = 0;

  /// Inside no_sync: see NoSync.
  bool paused() const { return paused_; }

 private:
  friend class NoSync;
  bool paused_ = false;
};

/// While one is alive, backward passes only add to this rank's own gradients and nothing is sent; the next pass outside
/// averages the sum. Every rank must do the same.
class NoSync {
 public:
  explicit NoSync(Ddp& ddp) : ddp_(ddp), before_(ddp.paused_) { ddp.paused_ = true; }
  ~NoSync() { ddp_.paused_ = before_; }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Ddp& ddp_;
  bool before_;
};

/// Collective over `dp`, at set-up: broadcasts rank 0's values, once and nothing else, and prepares the buckets. `dp`
/// is on the main queue. Gradients are not changed.
std::unique_ptr<Ddp> make_ddp(Rank dp, Parameters parameters, DdpOptions options, AllReduce all_reduce);

/// Part d. One window of `microbatches` ≥ 1 backward passes: pass i runs backward(i), which adds to the gradients and
/// calls gradient_ready; only the last one communicates. finish() is called after each, inside no_sync where
/// its pass was: outside, it ends the window.
void run_window(Ddp& ddp, int microbatches, const std::function<void(int microbatch)>& backward);

}  // namespace lockstep::week21
