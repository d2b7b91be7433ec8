// For the tests of 21.7: a run of the scripted model under DDP, and the judges of its results.
#pragma once

#include <fmt/format.h>

#include <string>

#include "common/arithmetic.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/regions.hpp"
#include "common/testing/scripted_model.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {

using testing::Case;
using testing::ScriptedWindow;

/// The ring, counted: each call visits the region "bucket".
inline void counted_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("bucket", data.bytes());
  ring_all_reduce(me, data);
}

/// A run of the scripted model.
struct Script {
  DdpOptions options;
  int windows = 3;
  int passes = 1;
  testing::Uses uses;                                            // empty: everything
  std::function<std::size_t(int rank, std::size_t step)> order;  // empty: from the last parameter to the first
};

inline constexpr DdpOptions kOnMain{.bucket_bytes = 48, .first_bucket_bytes = 16, .overlap = false};
inline constexpr DdpOptions kOverlap{.bucket_bytes = 48, .first_bucket_bytes = 16, .overlap = true};

inline void backward(Rank dp, Ddp& ddp, const Parameters& parameters, const Script& script, int window, int pass) {
  for (std::size_t step = 0; step < parameters.list.size(); ++step) {
    const std::size_t i = script.order ? script.order(dp.rank(), step) : parameters.list.size() - 1 - step;
    if (script.uses && !script.uses(dp.rank(), window, pass, i)) continue;
    testing::add_scripted_gradient(dp, parameters, i, dp.rank(), window, pass);
    ddp.gradient_ready(i);
  }
}

/// All windows; returns the flat gradient after each, then, with find_unused, whether each parameter was used.
inline Values train_script(Rank dp, std::size_t tensors, const Script& script) {
  const Parameters parameters = testing::scripted_parameters(dp, tensors);
  const auto ddp = make_ddp(dp, parameters, script.options, counted_all_reduce);
  Values seen;
  for (int window = 0; window < script.windows; ++window) {
    fill(dp, parameters.gradients, 0);
    const auto pass = [&](int i) { backward(dp, *ddp, parameters, script, window, i); };
    if (script.passes > 1) {
      run_window(*ddp, script.passes, pass);
    } else {
      pass(0);
      ddp->finish();
    }
    testing::append(dp, parameters.gradients, seen);
    for (std::size_t i = 0; script.options.find_unused && i < tensors; ++i) seen.push_back(ddp->used(i));
  }
  return seen;
}

/// The table of the scripted model and its buckets' bytes, worked out apart from the code under test.
struct Expected {
  std::vector<std::size_t> offsets{0};  // of parameter i; one more at the end
  int buckets = 0;

  Expected(std::size_t tensors, const DdpOptions& options) {
    for (std::size_t i = 0; i < tensors; ++i) offsets.push_back(offsets.back() + 1 + (i * 7 + 3) % 13);
    std::size_t bytes = 0;
    for (std::size_t i = tensors; i-- > 0;) {
      bytes += 4 * (offsets[i + 1] - offsets[i]);
      if (i > 0 && bytes < (buckets == 0 ? options.first_bucket_bytes : options.bucket_bytes)) continue;
      ++buckets;
      bytes = 0;
    }
  }
};

inline bool used_by_any(const ScriptedWindow& window, std::size_t index) {
  for (int rank = 0; rank < window.ranks; ++rank)
    for (int pass = 0; pass < window.passes; ++pass)
      if (!window.uses || window.uses(rank, window.window, pass, index)) return true;
  return false;
}

/// Used in the window before, but not in this one.
inline bool used_before(ScriptedWindow window, std::size_t index) {
  return !used_by_any(window, index) && window.window-- > 0 && used_by_any(window, index);
}

/// The first gradient that is not the average, or the first wrong `used`; "" when all is right.
inline std::string wrong_values(const Case& c, const Outcome& outcome, const Script& script) {
  const Expected expected(c.size, script.options);
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::size_t at = 0;
    for (int w = 0; w < script.windows; ++w) {
      const ScriptedWindow window{c.ranks, w, script.passes, script.uses};
      for (std::size_t i = 0; i < c.size; ++i)
        for (std::size_t e = expected.offsets[i]; e < expected.offsets[i + 1]; ++e, ++at)
          if (outcome.values[rank].at(at) != window.average(i, e))
            return fmt::format("rank {}, window {}: the gradient of layer{}[{}] is {}, expected {}. It is {}.", rank, w,
                               i, e - expected.offsets[i], outcome.values[rank][at], window.average(i, e),
                               window.explain(outcome.values[rank][at], rank, i, e));
      for (std::size_t i = 0; script.options.find_unused && i < c.size; ++i, ++at)
        if (outcome.values[rank].at(at) != used_by_any(window, i))
          return fmt::format("rank {}, window {}: used({}) is {}, but {} used it in this window{}", rank, w, i,
                             outcome.values[rank][at] != 0, used_by_any(window, i) ? "some rank" : "no rank",
                             used_before(window, i)
                                 ? ". Some rank did in the one before: is used_here_ zeroed at the end of each window?"
                                 : "");
    }
  }
  return "";
}

/// Exactly one all-reduce for each bucket and window, of all gradients (and one for the usage, with find_unused).
inline std::string wrong_counts(const Case& c, const Outcome& outcome, const Script& script) {
  const Expected expected(c.size, script.options);
  const std::uint64_t extra = script.options.find_unused ? 1 : 0;
  const std::uint64_t visits = script.windows * (expected.buckets + extra);
  const std::uint64_t bytes = 4 * script.windows * (expected.offsets.back() + extra * c.size);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const RegionTotal buckets = testing::visits_to(outcome.ledgers[rank], "bucket");
    const std::uint64_t seen = buckets.visits, seen_bytes = buckets.bytes;
    const bool usage_sums = extra > 0 && seen_bytes == bytes + (seen - visits) * 4 * c.size;
    const std::string plan = fmt::format("{} windows of {} pass{} with {} bucket{}{}", script.windows, script.passes,
                                         script.passes == 1 ? "" : "es", expected.buckets,
                                         expected.buckets == 1 ? "" : "s", extra ? " and the usage" : "");
    if (seen != visits)
      return fmt::format("rank {} started {} all-reduce{} in {}: expected {}, one for each bucket and window. {}", rank,
                         seen, seen == 1 ? "" : "s", plan, visits,
                         seen < visits ? extra ? "Some bucket was never averaged, or the usage never summed."
                                               : "Some bucket was never averaged."
                         : usage_sums ? "The others are sums of the usage: was finish() called outside no_sync after a "
                                        "pass inside it (part d)?"
                         : script.passes > 1 ? "Passes inside no_sync must not communicate."
                                             : "Some bucket was averaged more than once.");
    if (seen_bytes != bytes)
      return fmt::format("rank {} all-reduced {} bytes in {}: expected {}, every gradient once", rank, seen_bytes, plan,
                         bytes);
  }
  return "";
}

}  // namespace lockstep::week21
