// Operations that are timed to price messages and additions on this computer. ./lab calibrate makes its tables from
// them; every benchmark repeats some, to check that the tables are still valid.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "common/runtime/run.hpp"

namespace lockstep::bench {

using Timed = std::function<void()>;

/// Sent and received by every rank before a point, so that all begin it together.
struct Tokens {
  Slice sent, received;
};

Slice filled(Rank me, std::size_t elements, DType dtype = DType::f32);

/// Samples per point.
constexpr int kLinkSamples = 9;

/// Seconds of kLinkSamples acts on this rank, each after a barrier, in the same way as a benchmark's measurements.
/// `repeats`: acts per sample, for local operations. In virtual time all samples equal the first.
Values timed_samples(Rank me, const Tokens& tokens, const Timed& act, int repeats = 1);

/// Median of kLinkSamples values from `first` on, each of which is the slowest rank's.
double median_of_slowest(const Outcome& outcome, std::size_t first);

/// Returns the parts of a slice in turn, so that each has left the caches before it is used again.
class InTurn {
 public:
  InTurn(Slice whole, std::size_t elements) : whole_(std::move(whole)), elements_(elements) {}
  Slice next();

 private:
  Slice whole_;
  std::size_t elements_, first_ = 0;
};

/// Messages between the first and the last rank while the others wait, and additions on all ranks at once, with at most
/// `elements` elements.
class LinkActs {
 public:
  LinkActs(Rank me, std::size_t elements);

  /// Sends the slice received last, as in collectives: if nobody has written to it, it is still in its reader's cache.
  Timed exchanges(std::size_t n) const;
  /// Sends a slice that has left the caches into the buffer of the previous message, as in a ring's first step.
  Timed cold_exchanges(std::size_t n) const;
  /// Two messages, one after the other.
  Timed there_and_back(std::size_t n) const;
  Timed additions(std::size_t n) const;
  /// Adds a slice that has just arrived to one that has left the caches.
  Timed cold_additions(std::size_t n) const;
  /// Adds to n elements after the previous ones of `within`, cycling through them.
  Timed additions_within(std::size_t n, std::size_t within) const;
  Timed copies(std::size_t n) const;

  Values samples(const Timed& act, int repeats = 1) const { return timed_samples(me_, tokens_, act, repeats); }
  /// Acts per sample of local additions and copies of `bytes`: several if they are short.
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
