// 21.10: Karp and Flatt, and Amdahl, multiplied out by p.
#include "labs/week21_data_parallel/scaling_laws.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::week21 {

namespace {

[[noreturn]] void reject(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

void check_seconds(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) reject(fmt::format("{} is not a time: seconds must be > 0", seconds));
}

void check_ranks(int ranks, int least = 1) {
  if (ranks < least) reject(fmt::format("{} ranks: at least {} needed", ranks, least));
}

void check_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) reject(fmt::format("serial fraction {} is not within [0, 1]", fraction));
}

void check_measurements(const std::vector<Measurement>& measurements) {
  std::set<int> ranks;
  for (const Measurement& m : measurements) {
    check_ranks(m.ranks);
    check_seconds(m.seconds);
    ranks.insert(m.ranks);
  }
  if (measurements.size() < 3 || ranks.size() < 2)
    reject(fmt::format("a fit needs 3 measurements at 2 different numbers of ranks; there are {} at {}",
                       measurements.size(), ranks.size()));
}

/// Weights of squared residuals so that errors count relative to the time: 1/T².
std::vector<double> relative_weights(const std::vector<Measurement>& measurements) {
  std::vector<double> weights;
  for (const Measurement& m : measurements) weights.push_back(1 / (m.seconds * m.seconds));
  return weights;
}

}  // namespace

double speedup(double serial_seconds, double parallel_seconds) {
  check_seconds(serial_seconds);
  check_seconds(parallel_seconds);
  return serial_seconds / parallel_seconds;
}

double efficiency(double serial_seconds, double parallel_seconds, int ranks) {
  check_ranks(ranks);
  return speedup(serial_seconds, parallel_seconds) / ranks;
}

double weak_efficiency(double serial_seconds, double parallel_seconds) {
  return speedup(serial_seconds, parallel_seconds);
}

double amdahl_speedup(double serial_fraction, int ranks) {
  check_fraction(serial_fraction);
  check_ranks(ranks);
  return ranks / (serial_fraction * ranks + 1 - serial_fraction);
}

double gustafson_speedup(double serial_fraction, int ranks) {
  check_fraction(serial_fraction);
  check_ranks(ranks);
  return serial_fraction + (1 - serial_fraction) * ranks;
}

double karp_flatt(double speedup, int ranks) {
  check_ranks(ranks, 2);
  if (!(speedup > 0) || !std::isfinite(speedup)) reject(fmt::format("{} is not a speedup: it must be > 0", speedup));
  return (ranks / speedup - 1) / (ranks - 1);
}

SerialFraction fit_amdahl(const std::vector<Measurement>& measurements) {
  check_measurements(measurements);
  std::vector<double> seconds;
  for (const Measurement& m : measurements) seconds.push_back(m.seconds);
  const std::vector<double> weights = relative_weights(measurements);
  std::vector<std::vector<double>> parts, around;
  for (const Measurement& m : measurements) parts.push_back({1.0 / m.ranks, 1 - 1.0 / m.ranks});
  const Fit fit = least_squares(parts, seconds, weights);
  const double s = fit.coefficients[1] / fit.coefficients[0];
  for (const Measurement& m : measurements)
    around.push_back({1.0 / m.ranks + s * (1 - 1.0 / m.ranks), 1 - 1.0 / m.ranks});
  const Fit rest = least_squares(around, seconds, weights);
  const double reach = student_t95(rest.degrees_of_freedom) * rest.standard_errors[1] / rest.coefficients[0];
  return {s, s - reach, s + reach};
}

}  // namespace lockstep::week21
