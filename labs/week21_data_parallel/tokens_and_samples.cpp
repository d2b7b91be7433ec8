// Exercise 21.15: errors that no loss curve shows. Read labs/week21_data_parallel/tokens_and_samples.hpp first.
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

std::uint64_t count_over_ranks(Rank dp, std::uint64_t own, const AllReduce& all_reduce) {
  todo("21.15a",
       "the exact sum of `own` over the ranks. all_reduce sums floats, so each of them must stay below 2^24, also as "
       "a sum over 4,096 = 2^12 ranks");
}

void mean_over_tokens(Rank dp, Slice gradients, Slice loss, const std::vector<std::uint64_t>& tokens,
                      const BackwardOfSum& backward, const AllReduce& all_reduce) {
  todo("21.15b",
       "gradients and loss of the mean over all tokens of all ranks. Every token has the same weight, wherever it "
       "is. Which ranks take part in which all-reduce?");
}

std::uint64_t samples_per_rank(const Sampler& how, std::uint64_t left) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  todo("21.15c", "left/p, rounded down or up");
}

std::vector<std::uint64_t> samples_of(const Sampler& how, Position from, int rank) {
  const auto p = static_cast<std::uint64_t>(how.ranks), r = static_cast<std::uint64_t>(rank);
  std::vector<std::uint64_t> mine;
  todo("21.15c",
       "every p-th sample of the epoch's order, of those that are not yet done. All ranks must have the same order, "
       "and another one in every epoch");
  return mine;
}

Position position_after(const Sampler& how, Position from, std::uint64_t steps) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  todo("21.15d", "steps · batch · p samples further on, if the epoch has those steps left; else in a later epoch");
}

int average_of_active(Rank dp, Slice gradients, bool has_data, const AllReduce& all_reduce) {
  todo("21.15e", "the average over the ranks that have data, and how many they are. Nobody has any: zeros");
}

}  // namespace lockstep::week21
