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
  todo("25.4a",
       "the costs, and `wire`, as the contract defines them. Which of them are means over the ranks, and which are "
       "of the busy rank alone?");
  return d;
}

Diagnosis name_limit(const Decomposition& parallel, const Decomposition& serial, int ranks, Scaling scaling) {
  struct Loss {
    Limit limit;
    double seconds;
  };
  todo("25.4b",
       "the largest of the losses against this rank's share of the serial step, or no limit where little is lost. "
       "Lost to messages: could arithmetic have hidden them?");
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
  todo("25.4c",
       "fill both, from the times with has_cores; least_squares gives s and its standard error, student_t95 half of "
       "the interval");
}

int most_ranks(double serial_fraction, double efficiency) {
  if (!(efficiency > 0 && efficiency <= 1))
    throw Error(Verdict::usage, std::to_string(efficiency) + " is no efficiency: it is above 0 and at most 1");
  todo("25.4c", "E(p) = 1/(1 + s·(p − 1)), solved for p, rounded down (with a small tolerance for rounding errors)");
}

}  // namespace lockstep::week25
