// 25.4 with arrays of costs; and Gustafson's fraction by the sums of least squares through 0, not by a library.
#include "labs/week25_3d/diagnosis.hpp"

#include <array>
#include <climits>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::week25 {
namespace {

double mean_of(const StepLedgers& step, double RankStep::*what) {
  const double sum = std::accumulate(step.ranks.begin(), step.ranks.end(), 0.0,
                                     [&](double so_far, const RankStep& rank) { return so_far + rank.*what; });
  return sum / static_cast<double>(step.ranks.size());
}

std::array<double, 5> costs_of(const Decomposition& d) {
  return {d.compute, d.launch, d.imbalance, d.exposed, d.bubble};
}

}  // namespace

Decomposition decompose(const StepLedgers& step) {
  std::size_t busy = 0;
  for (std::size_t r = 1; r < step.ranks.size(); ++r)
    if (step.ranks[r].arithmetic >= step.ranks[busy].arithmetic) busy = r;  // of several, the last
  const RankStep& rank = step.ranks[busy];
  Decomposition d;
  d.launch = mean_of(step, &RankStep::launch);
  d.compute = mean_of(step, &RankStep::arithmetic) - d.launch;
  d.imbalance = rank.arithmetic - (d.compute + d.launch);
  d.wire = rank.messages * step.latency + rank.bytes * step.seconds_per_byte;
  d.bubble = step.seconds - rank.arithmetic;
  if (d.wire > rank.hidden) d.exposed = std::min(d.bubble, d.wire - rank.hidden);
  d.bubble -= d.exposed;
  return d;
}

Diagnosis name_limit(const Decomposition& parallel, const Decomposition& serial, int ranks, Scaling scaling) {
  const double share = scaling == Scaling::weak ? 1.0 : 1.0 / static_cast<double>(ranks);
  const Limit wire = parallel.wire >= parallel.compute + parallel.launch ? Limit::communication : Limit::not_overlapped;
  const std::array<Limit, 5> limits = {Limit::repeated, Limit::launch, Limit::imbalance, wire, Limit::bubble};
  std::map<double, Limit> losses;
  const auto with = costs_of(parallel), alone = costs_of(serial);
  for (std::size_t i = 0; i < limits.size(); ++i) losses[with[i] - share * alone[i]] = limits[i];
  Diagnosis d;
  d.ideal = share * serial.seconds();
  d.lost = parallel.seconds() - d.ideal;
  if (d.lost >= kWorthNaming * parallel.seconds()) {
    d.most = losses.rbegin()->first;
    d.limit = losses.rbegin()->second;
  }
  return d;
}

week21::SerialFraction fit_strong(const std::vector<Measured>& times) {
  std::vector<week21::Measurement> usable;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i].has_cores) usable.push_back({.ranks = times[i].ranks, .seconds = times[i].seconds});
  return week21::fit_amdahl(usable);
}

week21::SerialFraction fit_weak(const std::vector<Measured>& times) {
  std::vector<double> alone, x, y;
  for (const Measured& time : times)
    if (time.ranks == 1) alone.push_back(time.seconds);
  if (alone.empty()) throw Error(Verdict::usage, "no time on one rank");
  for (const Measured& time : times)
    if (time.ranks > 1 && time.has_cores) {
      x.push_back(time.ranks - 1);
      y.push_back(time.ranks * (1 - mean(alone) / time.seconds));
    }
  if (x.size() < 2) throw Error(Verdict::usage, "two times on several ranks, with a core each, are needed");
  const double xx = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  const double s = std::inner_product(x.begin(), x.end(), y.begin(), 0.0) / xx;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (y[i] - s * x[i]) * (y[i] - s * x[i]);
  const int freedom = static_cast<int>(x.size()) - 1;
  const double half = student_t95(freedom) * std::sqrt(squares / freedom / xx);
  return {.value = s, .low = s - half, .high = s + half};
}

int most_ranks(double serial_fraction, double efficiency) {
  if (efficiency > 1 || !(efficiency > 0)) throw Error(Verdict::usage, "an efficiency is above 0 and at most 1");
  const double more = (1 - efficiency) / (efficiency * serial_fraction);
  if (serial_fraction <= 0 || more >= INT_MAX) return INT_MAX;
  return 1 + static_cast<int>(more + 1e-9);
}

}  // namespace lockstep::week25
