// Tests of exercise 21.15, parts c and d: which samples each rank reads, as sets over all ranks, and where a run is
// after some steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/support/text/counted.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

namespace lockstep::week21::sampler_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto samples_per_rank = testing::answer<week21::samples_per_rank>;
constexpr auto samples_of = testing::answer<week21::samples_of>;
constexpr auto position_after = testing::answer<week21::position_after>;

using Samples = std::vector<std::uint64_t>;

std::string list(const Samples& samples) {
  std::string words;
  for (const std::uint64_t sample : samples) words += (words.empty() ? "" : " ") + std::to_string(sample);
  return words.empty() ? "none" : words;
}

std::string words(const Sampler& how, Position from) {
  return fmt::format("{} on {}, {}, epoch {}, {} done", counted(how.samples, "sample"), counted(how.ranks, "rank"),
                     how.drop_last ? "the last dropped" : "padded", from.epoch, from.done);
}

std::uint64_t per_rank(const Sampler& how, std::uint64_t left) {
  std::uint64_t count = left / static_cast<std::uint64_t>(how.ranks);
  if (!how.drop_last && count * static_cast<std::uint64_t>(how.ranks) < left) ++count;
  return count;
}

/// Element by element, dealt out in turn.
Samples expected_of(const Sampler& how, Position from, int rank) {
  const Samples order = shuffled(how.samples, how.seed, from.epoch);
  Samples mine;
  const std::uint64_t all = per_rank(how, how.samples - from.done) * static_cast<std::uint64_t>(how.ranks);
  int turn = 0;
  for (std::uint64_t i = 0, at = from.done; i < all; ++i, at = at + 1 >= how.samples ? 0 : at + 1) {
    if (turn == rank) mine.push_back(order[at]);
    turn = turn + 1 == how.ranks ? 0 : turn + 1;
  }
  return mine;
}

/// Compares what all ranks read from `from` on, as a set, with all that is left, once, but for what p does not divide.
std::string wrong_set(const Sampler& how, Position from) {
  const std::uint64_t left = how.samples - from.done, count = per_rank(how, left);
  const Samples order = shuffled(how.samples, how.seed, from.epoch);
  std::vector<int> readers(how.samples, -1);  // the first rank that read it
  std::uint64_t twice = 0;
  std::string overlap;
  for (int rank = 0; rank < how.ranks; ++rank) {
    const Samples mine = samples_of(how, from, rank);
    if (mine.size() != count)
      return fmt::format("rank {} reads {}, expected {}, as on every rank", rank, counted(mine.size(), "sample"),
                         count);
    for (const std::uint64_t sample : mine) {
      if (sample >= how.samples) return fmt::format("rank {} reads sample {}, and there is none", rank, sample);
      int& reader = readers[sample];
      if (reader >= 0 && twice++ == 0)
        overlap = fmt::format("sample {} is read by rank {} and by rank {}", sample, reader, rank);
      if (reader < 0) reader = rank;
    }
  }
  const std::uint64_t all = count * static_cast<std::uint64_t>(how.ranks), padding = all > left ? all - left : 0;
  if (twice > padding)
    return fmt::format("{}. {} read a second time, expected {}: {}", overlap, counted(twice, "sample"), padding,
                       padding > 0   ? "as many as let all ranks read equally many"
                       : all == left ? "what is left divides evenly among the ranks"
                                     : "what does not divide evenly is dropped");
  std::uint64_t done_again = 0;
  for (std::uint64_t i = 0; i < from.done; ++i) done_again += readers[order[i]] >= 0;
  if (done_again > padding) return fmt::format("{} samples are read that were done already", done_again);
  std::uint64_t missing = 0, which = 0;
  for (std::uint64_t i = from.done; i < how.samples; ++i)
    if (readers[order[i]] < 0) ++missing, which = order[i];
  if (missing > (all < left ? left - all : 0)) return fmt::format("sample {} is read by no rank", which);
  return "";
}

std::string wrong_epoch(const Sampler& how, Position from) {
  const std::uint64_t left = how.samples - from.done, count = samples_per_rank(how, left);
  if (count != per_rank(how, left))
    return fmt::format("{}: samples_per_rank of {} left is {}, expected {}", words(how, from), left, count,
                       per_rank(how, left));
  if (const std::string wrong = wrong_set(how, from); !wrong.empty()) return words(how, from) + ": " + wrong;
  for (int rank = 0; rank < how.ranks; ++rank) {
    const Samples mine = samples_of(how, from, rank), expected = expected_of(how, from, rank);
    if (mine == expected) continue;
    const bool epoch_0 = mine == expected_of(how, {0, from.done}, rank);
    return fmt::format("{}: rank {} reads {}, expected {}, of the order {}{}", words(how, from), rank, list(mine),
                       list(expected), list(shuffled(how.samples, how.seed, from.epoch)),
                       epoch_0 ? ": those are epoch 0's, and every epoch has an order of its own" : "");
  }
  return "";
}

constexpr std::uint64_t kSizes[] = {1, 2, 3, 5, 8, 10, 12, 13, 31};
constexpr int kRanks[] = {1, 2, 3, 4, 5, 8};

std::vector<Sampler> samplers(std::uint64_t batch) {
  std::vector<Sampler> all;
  for (const std::uint64_t samples : kSizes)
    for (const int ranks : kRanks)
      for (const bool drop_last : {false, true})
        if (!drop_last || samples >= static_cast<std::uint64_t>(ranks))
          all.push_back({samples, ranks, batch, 3 + testing::drawn({21, 15, 3}, 1000), drop_last});
  return all;
}

TEST(Lab21_15c, EveryEpochReadsEverySampleOnce) {
  for (const Sampler& how : samplers(1))
    for (const std::uint64_t epoch : {0u, 1u, 6u})
      if (const std::string wrong = wrong_epoch(how, {epoch, 0}); !wrong.empty()) FAIL() << wrong;
}

TEST(Lab21_15c, TheRestOfAnEpoch) {
  for (const Sampler& how : samplers(1))
    for (const std::uint64_t done : {how.samples / 3, how.samples / 2, how.samples - 1, how.samples})
      if (const std::string wrong = wrong_epoch(how, {2, done}); !wrong.empty()) FAIL() << wrong;
}

// Part d --------------------------------------------------------------------------------------------------------------

/// Step by step.
Position expected_after(const Sampler& how, Position at, std::uint64_t steps) {
  const auto p = static_cast<std::uint64_t>(how.ranks);
  while (true) {
    std::uint64_t mine = per_rank(how, how.samples - at.done);
    if (mine == 0) {
      at = {at.epoch + 1, 0};
      continue;
    }
    if (steps-- == 0) return at;
    if (mine <= how.batch)
      at = {at.epoch + 1, 0};
    else
      at.done += how.batch * p;
  }
}

std::string wrong_position(const Sampler& how, Position from, std::uint64_t steps) {
  const Position seen = position_after(how, from, steps), expected = expected_after(how, from, steps);
  if (seen.epoch == expected.epoch && seen.done == expected.done) return "";
  return fmt::format("{}, {} per step: after {} step{} the run is at epoch {} with {} done, expected epoch {} with {}",
                     words(how, from), how.batch, steps, steps == 1 ? "" : "s", seen.epoch, seen.done, expected.epoch,
                     expected.done);
}

TEST(Lab21_15d, StepsFromTheBeginning) {
  for (const std::uint64_t batch : {1u, 2u, 3u, 7u})
    for (const Sampler& how : samplers(batch))
      for (std::uint64_t steps = 0; steps < 9; ++steps)
        if (const std::string wrong = wrong_position(how, {0, 0}, steps); !wrong.empty()) FAIL() << wrong;
}

TEST(Lab21_15d, StepsFromTheMiddle) {
  for (const std::uint64_t batch : {1u, 2u})
    for (const Sampler& how : samplers(batch))
      for (const std::uint64_t done : {how.samples / 2, how.samples - 1, how.samples})
        for (const std::uint64_t steps : {0u, 1u, 5u, 40u})
          if (const std::string wrong = wrong_position(how, {4, done}, steps); !wrong.empty()) FAIL() << wrong;
}

/// A run on 4 ranks ends after some steps and continues on `then` ranks: together they have read each sample once.
std::string wrong_restart(std::uint64_t samples, std::uint64_t steps, int then) {
  const Sampler before{.samples = samples, .ranks = 4, .batch = 2, .seed = 9};
  const Position at = position_after(before, {1, 0}, steps);
  if (at.epoch != 1 || at.done > samples)
    return fmt::format("after {} steps the run is at epoch {} with {} of {} samples done, expected epoch 1", steps,
                       at.epoch, at.done, samples);
  std::vector<std::uint64_t> times(samples, 0);
  for (int rank = 0; rank < before.ranks; ++rank) {
    const Samples mine = samples_of(before, {1, 0}, rank);
    for (std::size_t i = 0; i < std::min<std::size_t>(2 * steps, mine.size()); ++i) ++times.at(mine[i]);
  }
  const Sampler after{.samples = samples, .ranks = then, .batch = 3, .seed = 9};
  for (int rank = 0; rank < then; ++rank)
    for (const std::uint64_t sample : samples_of(after, at, rank)) ++times.at(sample);
  for (std::uint64_t sample = 0; sample < samples; ++sample)
    if (times[sample] != 1)
      return fmt::format(
          "{} samples, {} steps of 2 on each of 4 ranks, then {} ranks until the epoch ends: sample {} is read {} "
          "times",
          samples, steps, then, sample, times[sample]);
  return "";
}

TEST(Lab21_15, ARestartOnOtherRanksReadsTheRest) {
  for (const int then : {1, 2, 4, 8})
    for (const std::uint64_t steps : {1u, 2u})
      if (const std::string wrong = wrong_restart(32, steps, then); !wrong.empty()) FAIL() << wrong;
  for (const int then : {1, 3, 5})
    if (const std::string wrong = wrong_restart(23, 1, then); !wrong.empty()) FAIL() << wrong;
}

}  // namespace
}  // namespace lockstep::week21::sampler_test
