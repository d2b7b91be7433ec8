// Exercise 21.15 in another way: sums are divided after they have travelled, the loss and the count travel in bytes, a
// sampler pads a list and takes every p-th of it as PyTorch's does, and positions are found step by step.
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

#include <algorithm>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

std::uint64_t count_over_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce) {
  std::vector<float> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<float>(own >> (8 * i) & 255));
  Slice sums = dp.allocate(8, DType::f32, Category::buffer);
  upload(dp, sums, bytes);
  all_reduce(dp, sums);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < 8; ++i) count += static_cast<std::uint64_t>(read(dp, sums.cut(i, 1), 0)) << (8 * i);
  return count;
}

void mean_over_tokens(Rank dp, Slice gradients, Slice loss, const std::vector<std::uint64_t>& tokens,
                      const BackwardOfSum& backward, const AllReduce& all_reduce) {
  fill(dp, loss, 0);
  fill(dp, gradients, 0);
  std::uint64_t own = 0;
  for (std::size_t i = tokens.size(); i-- > 0; own += tokens[i]) backward(i, 1);
  all_reduce(dp, loss);
  all_reduce(dp, gradients);
  const auto all = static_cast<double>(count_over_ranks(dp, own, all_reduce));
  for (const Slice& sum : {loss, gradients}) scale(dp, sum, static_cast<float>(1 / all));
}

std::uint64_t samples_per_rank(const Sampler& how, std::uint64_t left) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  return left / p + (!how.drop_last && left % p != 0 ? 1 : 0);
}

std::vector<std::uint64_t> samples_of(const Sampler& how, Position from, int rank) {
  const std::vector<std::uint64_t> order = shuffled(how.samples, how.seed, from.epoch);
  std::vector<std::uint64_t> all(order.begin() + static_cast<std::ptrdiff_t>(from.done), order.end());
  const auto p = static_cast<std::uint64_t>(how.ranks);
  const std::uint64_t size = samples_per_rank(how, all.size()) * p;
  for (std::size_t i = 0; all.size() < size; ++i) all.push_back(order[i % order.size()]);
  all.resize(size);
  std::vector<std::uint64_t> mine;
  for (auto i = static_cast<std::size_t>(rank); i < all.size(); i += p) mine.push_back(all[i]);
  return mine;
}

Position position_after(const Sampler& how, Position from, std::uint64_t steps) {
  const std::uint64_t together = how.batch * static_cast<std::uint64_t>(how.ranks);
  const auto ended = [&] { return samples_per_rank(how, how.samples - from.done) == 0; };
  if (ended()) from = {from.epoch + 1, 0};
  for (; steps > 0; --steps) {
    from.done += std::min(together, how.samples - from.done);
    if (ended()) from = {from.epoch + 1, 0};
  }
  return from;
}

int average_of_active(Rank dp, Slice gradients, bool has_data, const AllReduce& all_reduce) {
  const auto active = static_cast<int>(count_over_ranks(dp, has_data, all_reduce));
  if (has_data)
    scale(dp, gradients, 1.0f / static_cast<float>(active));
  else
    fill(dp, gradients, 0);
  all_reduce(dp, gradients);
  return active;
}

}  // namespace lockstep::week21
