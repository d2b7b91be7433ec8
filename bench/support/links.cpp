#include "bench/support/links.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "bench/support/link_acts.hpp"
#include "bench/support/measure.hpp"
#include "common/arithmetic.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {
namespace {

constexpr std::array<std::size_t, 7> kElements = {1, 256, 1024, 8192, 32768, 65536, 262144};
Line line_through(const Values& seconds, std::size_t first) {
  std::vector<double> bytes, weights;
  for (std::size_t i = 0; i < kElements.size(); ++i) {
    bytes.push_back(4.0 * static_cast<double>(kElements[i]));
    weights.push_back(1 / (seconds[first + i] * seconds[first + i]));
  }
  return fit_line(bytes, std::span(seconds).subspan(first, kElements.size()), weights);
}

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

/// For each point, kLinkSamples values: the median of the slowest ranks' times.
Values medians_of(const Outcome& outcome) {
  Values seconds;
  for (std::size_t i = 0; i < outcome.values[0].size(); i += kLinkSamples)
    seconds.push_back(std::max(median_of_slowest(outcome, i), 1e-9));
  return seconds;
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
  const Outcome outcome = run(options, [](Rank me) {
    const LinkActs acts(me, kElements.back());
    Values samples;
    for (const std::size_t n : kElements)
      append(samples, acts.samples(acts.additions(n), LinkActs::repeats_of(4.0 * static_cast<double>(n))));
    if (me.size() > 1)
      for (const std::size_t n : kElements) append(samples, acts.samples(acts.exchanges(n)));
    return samples;
  });
  const Values seconds = medians_of(outcome.check());
  const Line adding = line_through(seconds, 0);
  LinkPrices prices{.gamma = std::max(adding.slope, 1e-15), .launch = std::max(adding.intercept, 0.0)};
  if (options.ranks == 1) return prices;
  const Line sending = line_through(seconds, kElements.size());
  prices.alpha = std::max(sending.intercept, 1e-9);
  prices.beta = std::max(sending.slope, 1e-15);
  return prices;
}

namespace {

constexpr int kPasses = 2;      // through all sizes
constexpr int kMostStates = 4;  // more are noise

std::size_t elements_of(double bytes) { return static_cast<std::size_t>(bytes) / 4; }

double message_now(const RunOptions& options) {
  const Outcome outcome = run(options, [](Rank me) {
    const std::size_t n = elements_of(Probes::kBytes);
    const LinkActs acts(me, n);
    return acts.samples(acts.exchanges(n));
  });
  return medians_of(outcome.check())[0];
}

/// Three values for each size: warm, cold, one direction.
Values messages_now(const RunOptions& options, const std::vector<SizePrice>& sizes) {
  std::vector<std::vector<double>> passes(3 * sizes.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    const Outcome outcome = run(options, [&](Rank me) {
      const LinkActs acts(me, elements_of(4 * sizes.back().bytes));
      Values samples;
      for (const SizePrice& size : sizes) {
        const std::size_t n = elements_of(size.bytes);
        for (const Timed& act : {acts.exchanges(n), acts.cold_exchanges(n), acts.there_and_back(n)})
          append(samples, acts.samples(act));
      }
      return samples;
    });
    const Values of_pass = medians_of(outcome.check());
    for (std::size_t i = 0; i < passes.size(); ++i) passes[i].push_back(of_pass[i] / (i % 3 == 2 ? 2 : 1));
  }
  Values seconds;
  for (const auto& of_point : passes) seconds.push_back(median(of_point).value);
  return seconds;
}

}  // namespace

const MeasuredPrices& LinkStates::now(const RunOptions& options) {
  const double seconds = message_now(options);
  const auto change = [&](const MeasuredPrices& known) {
    return std::abs(seconds / line_at(known.exchanges, Probes::kBytes, 0).at(Probes::kBytes) - 1);
  };
  const auto nearest = std::min_element(states_.begin(), states_.end(),
                                        [&](const auto& a, const auto& b) { return change(a) < change(b); });
  if (change(*nearest) <= Probes::kSame || states() == kMostStates) return *nearest;
  MeasuredPrices found = states_.front();
  const Values all = messages_now(options, found.exchanges);
  found.one_way = found.exchanges;
  for (std::size_t i = 0; i < found.exchanges.size(); ++i) {
    found.exchanges[i].seconds = all[3 * i];
    found.exchanges[i].cold_seconds = all[3 * i + 1];
    found.one_way[i].seconds = found.one_way[i].cold_seconds = all[3 * i + 2];
  }
  states_.push_back(std::move(found));
  return states_.back();
}

}  // namespace lockstep::bench
