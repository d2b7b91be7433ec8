#include "bench/support/links.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {
namespace {

constexpr std::array<std::size_t, 7> kElements = {1, 256, 1024, 8192, 32768, 65536, 262144};
constexpr int kSamples = 15;
constexpr int kRepeats = 4;  // acts a sample

/// Median seconds of `act` for each size, one act after the other; sample by sample through all sizes.
template <class Act>
Values medians(Rank me, const Act& act) {
  std::array<std::vector<double>, kElements.size()> samples;
  for (int s = -1; s < kSamples; ++s)  // the first is warm-up
    for (std::size_t i = 0; i < kElements.size(); ++i) {
      const double begin = me.now();
      for (int r = 0; r < kRepeats; ++r) act(kElements[i]);
      if (s >= 0) samples[i].push_back((me.now() - begin) / kRepeats);
    }
  Values result;
  for (const auto& of_size : samples) result.push_back(std::max(median(of_size).value, 1e-9));
  return result;
}

Line line_through(const Values& seconds, std::size_t first) {
  std::vector<double> bytes, weights;
  for (std::size_t i = 0; i < kElements.size(); ++i) {
    bytes.push_back(4.0 * static_cast<double>(kElements[i]));
    weights.push_back(1 / (seconds[first + i] * seconds[first + i]));
  }
  return fit_line(bytes, std::span(seconds).subspan(first, kElements.size()), weights);
}

}  // namespace

LinkPrices LinkPrices::at(double bytes, double cold_messages, double cold_additions) const {
  if (tables.exchanges.empty()) return *this;
  const PriceLine message = line_at(tables.exchanges, bytes, cold_messages);
  const PriceLine addition = line_at(tables.additions, bytes, cold_additions);
  LinkPrices around{.gamma = addition.per_byte, .launch = addition.fixed};
  if (alpha == 0 && beta == 0) return around;  // one rank
  around.alpha = message.fixed;
  around.beta = message.per_byte;
  return around;
}

LinkPrices LinkPrices::one_way_at(double bytes) const {
  LinkPrices around = at(bytes);
  if (tables.one_way.empty() || (alpha == 0 && beta == 0)) return around;
  const PriceLine message = line_at(tables.one_way, bytes, 0);
  around.alpha = message.fixed;
  around.beta = message.per_byte;
  return around;
}

LinkPrices measure_links(RunOptions options) {
  options.ranks = std::min(options.ranks, 2);
  Outcome outcome = run(options, [](Rank me) -> Values {
    Slice here = me.allocate(kElements.back(), DType::f32, Category::buffer);
    Slice there = me.allocate(kElements.back(), DType::f32, Category::buffer);
    fill(me, here, 0);
    fill(me, there, 0);
    Values seconds = medians(me, [&](std::size_t n) { add(me, here.cut(0, n), there.cut(0, n)); });
    if (me.size() == 1) return seconds;
    const int peer = 1 - me.rank();
    // What came last goes next, as in collectives: a slice that nobody wrote to meanwhile is still in its reader's
    // cache.
    const Values messages = medians(me, [&](std::size_t n) {
      me.exchange({send(peer, here.cut(0, n)), receive(peer, there.cut(0, n))});
      std::swap(here, there);
    });
    seconds.insert(seconds.end(), messages.begin(), messages.end());
    return seconds;
  });
  outcome.check();
  Values seconds = outcome.values[0];
  for (const Values& of_rank : outcome.values)
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::max(seconds[i], of_rank[i]);
  const Line adding = line_through(seconds, 0);
  LinkPrices prices{.gamma = std::max(adding.slope, 1e-15), .launch = std::max(adding.intercept, 0.0)};
  if (options.ranks == 1) return prices;
  const Line sending = line_through(seconds, kElements.size());
  prices.alpha = std::max(sending.intercept, 1e-9);
  prices.beta = std::max(sending.slope, 1e-15);
  return prices;
}

}  // namespace lockstep::bench
