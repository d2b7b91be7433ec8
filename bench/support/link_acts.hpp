// What is timed to know messages and additions on this computer. ./lab calibrate makes its tables of these acts; every
// benchmark repeats some, to see whether the tables still hold.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "common/runtime/run.hpp"

namespace lockstep::bench {

using Timed = std::function<void()>;

/// What every rank sends and receives before a point, so that all begin it together.
struct Tokens {
  Slice sent, received;
};

Slice filled(Rank me, std::size_t elements, DType dtype = DType::f32);

/// Of each point so many samples.
constexpr int kLinkSamples = 9;

/// Seconds of kLinkSamples acts on this rank, each after all have arrived, as a benchmark times what it measures; of
/// what is local, each of several. In virtual time all are as the first.
Values timed_samples(Rank me, const Tokens& tokens, const Timed& act, int repeats = 1);

/// Of kLinkSamples values from `first` on, each the slowest rank's: the median.
double median_of_slowest(const Outcome& outcome, std::size_t first);

/// Parts of a slice in turn, so that each is long out of the caches when its turn comes again.
class InTurn {
 public:
  InTurn(Slice whole, std::size_t elements) : whole_(std::move(whole)), elements_(elements) {}
  Slice next();

 private:
  Slice whole_;
  std::size_t elements_, first_ = 0;
};

/// Messages between the first and the last rank, while the others wait, and additions on all at once, of at most so
/// many elements.
class LinkActs {
 public:
  LinkActs(Rank me, std::size_t elements);

  /// What came last goes next, as in collectives: a slice that nobody wrote to meanwhile is still in its reader's
  /// cache.
  Timed exchanges(std::size_t n) const;
  /// What goes was long untouched; it arrives where the one before it did, as in a ring's first step.
  Timed cold_exchanges(std::size_t n) const;
  /// Two messages, one after the other.
  Timed there_and_back(std::size_t n) const;
  Timed additions(std::size_t n) const;
  /// To what was long untouched, from what has just come.
  Timed cold_additions(std::size_t n) const;
  /// To n elements after the others of `within`, and then from the beginning.
  Timed additions_within(std::size_t n, std::size_t within) const;
  Timed copies(std::size_t n) const;

  Values samples(const Timed& act, int repeats = 1) const { return timed_samples(me_, tokens_, act, repeats); }
  /// Of additions and copies of `bytes`, which are local: short ones are timed several at once.
  static int repeats_of(double bytes) { return bytes < (1 << 20) ? 4 : 1; }
  const Tokens& tokens() const { return tokens_; }

 private:
  Rank me_;
  int last_, peer_;
  bool talks_;
  Slice here_, there_;
  Tokens tokens_;
};

}  // namespace lockstep::bench
