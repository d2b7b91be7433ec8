// Exercise 21.15: errors that no loss curve shows. Read labs/week21_data_parallel/tokens_and_samples.hpp first.
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

std::uint64_t count_over_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce) {
  // lab 21.15a begin: the exact sum of `own` over the ranks. all_reduce sums floats, so each of them must stay below
  // 2^24, also as a sum over 4,096 = 2^12 ranks
  const std::uint64_t base = 1 << 12;
  std::vector<float> digits;
  for (; digits.size() < 3; own /= base) digits.push_back(static_cast<float>(own % base));
  Slice sums = dp.allocate(digits.size(), DType::f32, Category::buffer);
  upload(dp, sums, digits);
  all_reduce(dp, sums);
  std::uint64_t count = 0;
  for (std::size_t i = digits.size(); i-- > 0;)
    count = count * base + static_cast<std::uint64_t>(read(dp, sums.cut(i, 1), 0));
  return count;
  // lab end
}

void mean_over_tokens(Rank dp, Slice gradients, Slice loss, const std::vector<std::uint64_t>& tokens,
                      const BackwardOfSum& backward, const AllReduce& all_reduce) {
  // lab 21.15b begin: gradients and loss of the mean over all tokens of all ranks. Every token has the same weight,
  // wherever it is. Which ranks take part in which all-reduce?
  const std::uint64_t own = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
  const std::uint64_t all = count_over_ranks(dp, own, all_reduce);
  fill(dp, gradients, 0);
  fill(dp, loss, 0);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] > 0) backward(i, 1.0f / static_cast<float>(all));
  all_reduce(dp, gradients);
  all_reduce(dp, loss);
  // lab end
}

std::uint64_t samples_per_rank(const Sampler& how, std::uint64_t left) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  // lab 21.15c begin: left/p, rounded down or up
  return how.drop_last ? left / p : (left + p - 1) / p;
  // lab end
}

std::vector<std::uint64_t> samples_of(const Sampler& how, Position from, int rank) {
  const auto p = static_cast<std::uint64_t>(how.ranks), r = static_cast<std::uint64_t>(rank);
  std::vector<std::uint64_t> mine;
  // lab 21.15c begin: every p-th sample of the epoch's order, of those that are not yet done. All ranks must have the
  // same order, and another one in every epoch
  const std::vector<std::uint64_t> order = shuffled(how.samples, how.seed, from.epoch);
  const std::uint64_t count = samples_per_rank(how, how.samples - from.done);
  for (std::uint64_t i = 0; i < count; ++i) mine.push_back(order[(from.done + i * p + r) % how.samples]);
  // lab end
  return mine;
}

Position position_after(const Sampler& how, Position from, std::uint64_t steps) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  // lab 21.15d begin: steps · batch · p samples further on, if the epoch has those steps left; else in a later epoch
  while (true) {
    const std::uint64_t left = (samples_per_rank(how, how.samples - from.done) + how.batch - 1) / how.batch;  // steps
    if (steps < left) return {from.epoch, from.done + steps * how.batch * p};
    steps -= left;
    from = {from.epoch + 1, 0};
  }
  // lab end
}

int average_of_active(Rank dp, Slice gradients, bool has_data, const AllReduce& all_reduce) {
  // lab 21.15e begin: the average over the ranks that have data, and how many they are. Nobody has any: zeros
  const auto active = static_cast<int>(count_over_ranks(dp, has_data ? 1 : 0, all_reduce));
  if (!has_data) fill(dp, gradients, 0);
  all_reduce(dp, gradients);
  if (active > 0) scale(dp, gradients, 1.0f / static_cast<float>(active));
  return active;
  // lab end
}

}  // namespace lockstep::week21
