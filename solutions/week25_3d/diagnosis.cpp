// Exercise 25.4: the diagnosis. Read labs/week25_3d/diagnosis.hpp first.
#include "labs/week25_3d/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <string>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::week25 {

Decomposition decompose(const StepLedgers& step) {
  Decomposition d;
  // lab 25.4a begin: the costs, and `wire`, as the contract defines them. Which of them are means over the ranks, and
  // which are of the busy rank alone?
  const RankStep& busy =
      *std::max_element(step.ranks.begin(), step.ranks.end(),
                        [](const RankStep& a, const RankStep& b) { return a.arithmetic < b.arithmetic; });
  const auto ranks = static_cast<double>(step.ranks.size());
  for (const RankStep& rank : step.ranks) {
    d.compute += (rank.arithmetic - rank.launch) / ranks;
    d.launch += rank.launch / ranks;
  }
  d.imbalance = busy.arithmetic - d.compute - d.launch;
  d.wire = busy.messages * step.latency + busy.bytes * step.seconds_per_byte;
  const double waiting = step.seconds - busy.arithmetic;
  d.exposed = std::min(std::max(0.0, d.wire - busy.hidden), waiting);
  d.bubble = waiting - d.exposed;
  // lab end
  return d;
}

Diagnosis name_limit(const Decomposition& parallel, const Decomposition& serial, int ranks, Scaling scaling) {
  struct Loss {
    Limit limit;
    double seconds;
  };
  // lab 25.4b begin: the largest of the losses against this rank's share of the serial step, or no limit where little
  // is lost. Lost to messages: could arithmetic have hidden them?
  const double share = scaling == Scaling::weak ? 1 : 1.0 / ranks;
  Diagnosis d{.ideal = share * serial.seconds()};
  d.lost = parallel.seconds() - d.ideal;
  if (d.lost < kWorthNaming * parallel.seconds()) return d;
  const bool could_hide = parallel.wire <= parallel.compute + parallel.launch;
  const std::array<Loss, 5> losses = {
      Loss{could_hide ? Limit::not_overlapped : Limit::communication, parallel.exposed - share * serial.exposed},
      Loss{Limit::bubble, parallel.bubble - share * serial.bubble},
      Loss{Limit::imbalance, parallel.imbalance - share * serial.imbalance},
      Loss{Limit::launch, parallel.launch - share * serial.launch},
      Loss{Limit::repeated, parallel.compute - share * serial.compute}};
  const Loss& most = *std::max_element(losses.begin(), losses.end(),
                                       [](const Loss& a, const Loss& b) { return a.seconds < b.seconds; });
  d.limit = most.limit;
  d.most = most.seconds;
  return d;
  // lab end
}

week21::SerialFraction fit_strong(const std::vector<Measured>& times) {
  std::vector<week21::Measurement> usable;
  for (const Measured& time : times)
    if (time.has_cores) usable.push_back({time.ranks, time.seconds});
  return week21::fit_amdahl(usable);
}

namespace {

/// The mean of the times on one rank. Throws where there is none.
double serial_seconds(const std::vector<Measured>& times) {
  std::vector<double> alone;
  for (const Measured& time : times)
    if (time.ranks == 1) alone.push_back(time.seconds);
  if (alone.empty()) throw Error(Verdict::usage, "weak scaling is measured against one rank: its time is missing");
  return mean(alone);
}

}  // namespace

week21::SerialFraction fit_weak(const std::vector<Measured>& times) {
  const double serial = serial_seconds(times);
  std::vector<std::vector<double>> design;  // one row a time, of one column: p − 1
  std::vector<double> missing;              // p − S(p)
  // lab 25.4c begin: fill both, from the times with has_cores; least_squares gives s and its standard error,
  // student_t95 half of the interval
  for (const Measured& time : times) {
    if (time.ranks == 1 || !time.has_cores) continue;
    design.push_back({time.ranks - 1.0});
    missing.push_back(time.ranks - time.ranks * serial / time.seconds);
  }
  if (design.size() < 2) throw Error(Verdict::usage, "a fit needs two times on several ranks with a core each");
  const Fit fit = least_squares(design, missing);
  const double s = fit.coefficients[0], half = student_t95(fit.degrees_of_freedom) * fit.standard_errors[0];
  return {s, s - half, s + half};
  // lab end
}

int most_ranks(double serial_fraction, double efficiency) {
  if (!(efficiency > 0 && efficiency <= 1))
    throw Error(Verdict::usage, std::to_string(efficiency) + " is no efficiency: it is above 0 and at most 1");
  // lab 25.4c begin: E(p) = 1/(1 + s·(p − 1)), solved for p, rounded down (with a small tolerance for rounding errors)
  if (serial_fraction <= 0) return INT_MAX;
  const double most = 1 + (1 / efficiency - 1) / serial_fraction;
  return most < INT_MAX ? static_cast<int>(std::floor(most + 1e-9)) : INT_MAX;
  // lab end
}

}  // namespace lockstep::week25
