// Exercise 21.15: errors that no loss curve shows. A mean over the tokens of all ranks, the samples that each rank
// reads, and ranks that run out of them.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "labs/week21_data_parallel/ddp.hpp"  // AllReduce

namespace lockstep::week21 {

// a. A count, exactly -------------------------------------------------------------------------------------------------

/// The sum of `own` over all ranks, exactly, on every rank. Each is less than 2^36, and there are at most 4,096 ranks.
/// Every rank of the group calls it, also with 0. A floating-point slice holds all integers up to 2^24 in f32, and up
/// to 2^8 in bf16; an i32 slice cannot be read back.
std::uint64_t count_over_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce);

// b. Tokens, not batches ----------------------------------------------------------------------------------------------

/// Runs forward and backward of one of this rank's microbatches: adds weight × ∇(sum of its tokens' losses) to the
/// gradients, and weight × that sum to the loss.
using BackwardOfSum = std::function<void(std::size_t microbatch, float weight)>;

/// Overwrites `gradients` and `loss` (f32, the loss one element) with those of the mean over all tokens of all ranks'
/// microbatches, on every rank. This rank's microbatch i has tokens[i] ≥ 0 tokens with a target. Ranks may have
/// different numbers of microbatches, also none; at least one rank has a token. Run each microbatch with tokens once,
/// in any order; one without may be left out. Gradients and loss go through all_reduce once, after the last microbatch,
/// and besides them at most 8 · p elements, where p is the number of ranks.
void mean_over_tokens(Rank dp, Slice gradients, Slice loss, const std::vector<std::uint64_t>& tokens,
                      const BackwardOfSum& backward, const AllReduce& all_reduce);

// c and d. Which samples a rank reads, and where a run is -------------------------------------------------------------

struct Sampler {
  std::uint64_t samples = 1;  ///< in the data set, ≥ 1; with drop_last ≥ ranks
  int ranks = 1;
  std::uint64_t batch = 1;  ///< samples per rank and step, ≥ 1
  std::uint64_t seed = 0;
  bool drop_last = false;
};
/// All ranks together have read the first `done` ≤ samples of the epoch's order. That is all that a checkpoint needs:
/// another number of ranks, with another batch, may continue from there.
struct Position {
  std::uint64_t epoch = 0, done = 0;
};

/// Given: an epoch's order, which is the numbers 0 … samples − 1 as shuffled by (seed, epoch) and nothing else.
inline std::vector<std::uint64_t> shuffled(std::uint64_t samples, std::uint64_t seed, std::uint64_t epoch) {
  std::seed_seq key{seed, seed >> 32, epoch, epoch >> 32};
  std::mt19937_64 random(key);
  std::vector<std::uint64_t> order(samples);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  for (std::uint64_t i = samples; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

/// Returns how many samples each rank still reads in an epoch that has `left` to go: equally many, so that all take the
/// same steps. What p does not divide is dropped (drop_last), or as few as possible are read a second time.
std::uint64_t samples_per_rank(const Sampler& how, std::uint64_t left);

/// The samples of `rank` from `from` to the end of its epoch, in order: elements done + rank, done + rank + p, … of the
/// epoch's order, dealt out in turn. Where the order ends, it begins again at its first element, as often as needed.
std::vector<std::uint64_t> samples_of(const Sampler& how, Position from, int rank);

/// d: position of a run `steps` ≥ 0 steps after `from`. In a step each rank reads its next `batch` samples, in the last
/// step of an epoch the rest. Where no step of an epoch is left, the run is at {epoch + 1, 0}, also after 0 steps.
Position position_after(const Sampler& how, Position from, std::uint64_t steps);

// e. Ranks that run out of data ---------------------------------------------------------------------------------------

/// On every rank, `gradients` (f32) becomes the average over the ranks that have data, and zeros if none has. Returns
/// how many have. A rank without takes part, and what its gradients held does not count, even if it was NaN.
int average_of_active(Rank dp, Slice gradients, bool has_data, const AllReduce& all_reduce);

}  // namespace lockstep::week21
