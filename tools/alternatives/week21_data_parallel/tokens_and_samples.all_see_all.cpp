// Exercise 21.15 in another way: each rank's count has a place of its own in what is summed, so that all see all of
// them; parts c and d are computed without a loop over ranks or epochs.
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

/// `own` of every rank, below 2^48, as two halves of 24 bits to which the other ranks add zeros.
std::vector<std::uint64_t> of_all_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce) {
  const auto p = static_cast<std::size_t>(dp.size()), r = static_cast<std::size_t>(dp.rank());
  std::vector<float> halves(2 * p, 0.0f);
  halves[2 * r] = static_cast<float>(own >> 24);
  halves[2 * r + 1] = static_cast<float>(own & 0xffffff);
  Slice sums = dp.allocate(2 * p, DType::f32, Category::buffer);
  upload(dp, sums, halves);
  all_reduce(dp, sums);
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < p; ++i)
    counts.push_back((static_cast<std::uint64_t>(read(dp, sums.cut(2 * i, 1), 0)) << 24) +
                     static_cast<std::uint64_t>(read(dp, sums.cut(2 * i + 1, 1), 0)));
  return counts;
}

std::uint64_t steps_in(const Sampler& how, std::uint64_t left) {
  return (samples_per_rank(how, left) + how.batch - 1) / how.batch;
}

}  // namespace

std::uint64_t count_over_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce) {
  const std::vector<std::uint64_t> counts = of_all_ranks(dp, own, all_reduce);
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

void mean_over_tokens(Rank dp, Slice gradients, Slice loss, const std::vector<std::uint64_t>& tokens,
                      const BackwardOfSum& backward, const AllReduce& all_reduce) {
  fill(dp, gradients, 0);
  fill(dp, loss, 0);
  std::uint64_t own = 0;
  for (const std::uint64_t count : tokens) own += count;
  const float weight = 1 / static_cast<float>(count_over_ranks(dp, own, all_reduce));
  for (std::size_t i = tokens.size(); i-- > 0;)
    if (tokens[i] != 0) backward(i, weight);
  const std::size_t half = gradients.size() / 2;
  all_reduce(dp, gradients.cut(0, half));
  all_reduce(dp, gradients.cut(half, gradients.size() - half));
  all_reduce(dp, loss);
}

std::uint64_t samples_per_rank(const Sampler& how, std::uint64_t left) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  return how.drop_last || left == 0 ? left / p : (left - 1) / p + 1;
}

std::vector<std::uint64_t> samples_of(const Sampler& how, Position from, int rank) {
  const std::vector<std::uint64_t> order = shuffled(how.samples, how.seed, from.epoch);
  std::vector<std::uint64_t> mine(samples_per_rank(how, how.samples - from.done));
  std::uint64_t at = from.done + static_cast<std::uint64_t>(rank);
  for (std::uint64_t& sample : mine) {
    while (at >= how.samples) at -= how.samples;
    sample = order[at];
    at += static_cast<std::uint64_t>(how.ranks);
  }
  return mine;
}

Position position_after(const Sampler& how, Position from, std::uint64_t steps) {
  const std::uint64_t together = how.batch * static_cast<std::uint64_t>(how.ranks);
  const std::uint64_t left = steps_in(how, how.samples - from.done), epoch = steps_in(how, how.samples);
  if (steps < left) return {from.epoch, from.done + steps * together};
  return {from.epoch + 1 + (steps - left) / epoch, (steps - left) % epoch * together};
}

int average_of_active(Rank dp, Slice gradients, bool has_data, const AllReduce& all_reduce) {
  int active = 0;
  for (const std::uint64_t rank : of_all_ranks(dp, has_data ? 1 : 0, all_reduce)) active += rank == 1 ? 1 : 0;
  if (!has_data) fill(dp, gradients, 0);
  all_reduce(dp, gradients);
  scale(dp, gradients, 1.0f / static_cast<float>(active == 0 ? 1 : active));
  return active;
}

}  // namespace lockstep::week21
