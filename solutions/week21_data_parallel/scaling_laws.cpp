// Exercise 21.10: scaling laws. Read labs/week21_data_parallel/scaling_laws.hpp first.
//
// Given are the refusals, the least-squares solver and Student's t; yours are the laws and the fit.
#include "labs/week21_data_parallel/scaling_laws.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

#include "common/error.hpp"

namespace lockstep::week21 {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

void check_seconds(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) refuse(fmt::format("{} is not a time: seconds must be > 0", seconds));
}

void check_ranks(int ranks, int least = 1) {
  if (ranks < least) refuse(fmt::format("{} ranks: at least {} needed", ranks, least));
}

void check_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) refuse(fmt::format("serial fraction {} is not within [0, 1]", fraction));
}

void check_measurements(const std::vector<Measurement>& measurements) {
  std::set<int> ranks;
  for (const Measurement& m : measurements) {
    check_ranks(m.ranks);
    check_seconds(m.seconds);
    ranks.insert(m.ranks);
  }
  if (measurements.size() < 3 || ranks.size() < 2)
    refuse(fmt::format("a fit needs 3 measurements at 2 different numbers of ranks; there are {} at {}",
                       measurements.size(), ranks.size()));
}

/// a and b that minimise Σ (1 − a·u[i] − b·v[i])², with the variances and the covariance that the residuals leave.
struct Estimate {
  double a = 0;
  double b = 0;
  double variance_a = 0;
  double variance_b = 0;
  double covariance = 0;
};
Estimate least_squares(const std::vector<double>& u, const std::vector<double>& v) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    uu += u[i] * u[i];
    uv += u[i] * v[i];
    vv += v[i] * v[i];
    u1 += u[i];
    v1 += v[i];
  }
  const double determinant = uu * vv - uv * uv;
  const double a = (vv * u1 - uv * v1) / determinant, b = (uu * v1 - uv * u1) / determinant;
  double squares = 0;
  for (std::size_t i = 0; i < u.size(); ++i) squares += std::pow(1 - a * u[i] - b * v[i], 2);
  const double variance = squares / static_cast<double>(u.size() - 2);
  return {a, b, variance * vv / determinant, variance * uu / determinant, -variance * uv / determinant};
}

/// Student's t: 95 % of a symmetric distribution with `freedom` ≥ 1 degrees lie within ± this many standard errors.
double student_t(std::size_t freedom) {
  constexpr std::array<double, 30> table = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                            2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                            2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return freedom <= table.size() ? table[freedom - 1] : 1.960 + 2.42 / static_cast<double>(freedom);
}

}  // namespace

double speedup(double serial_seconds, double parallel_seconds) {
  check_seconds(serial_seconds);
  check_seconds(parallel_seconds);
  // lab 21.10 begin: how many times faster
  return serial_seconds / parallel_seconds;
  // lab end
}

double efficiency(double serial_seconds, double parallel_seconds, int ranks) {
  check_ranks(ranks);
  // lab 21.10 begin: the speedup of each rank
  return speedup(serial_seconds, parallel_seconds) / ranks;
  // lab end
}

double weak_efficiency(double serial_seconds, double parallel_seconds) {
  // lab 21.10 begin: p ranks do p times the work, in ideally the same time
  return speedup(serial_seconds, parallel_seconds);
  // lab end
}

double amdahl_speedup(double serial_fraction, int ranks) {
  check_fraction(serial_fraction);
  check_ranks(ranks);
  // lab 21.10 begin: the serial part keeps its time, the rest is divided by p
  return 1 / (serial_fraction + (1 - serial_fraction) / ranks);
  // lab end
}

double gustafson_speedup(double serial_fraction, int ranks) {
  check_fraction(serial_fraction);
  check_ranks(ranks);
  // lab 21.10 begin: how long one rank would take for what p ranks do in one unit of time
  return serial_fraction + (1 - serial_fraction) * ranks;
  // lab end
}

double karp_flatt(double speedup, int ranks) {
  check_ranks(ranks, 2);
  if (!(speedup > 0) || !std::isfinite(speedup)) refuse(fmt::format("{} is not a speedup: it must be > 0", speedup));
  // lab 21.10 begin: solve 1/S = s + (1 − s)/p for s
  return (1 / speedup - 1.0 / ranks) / (1 - 1.0 / ranks);
  // lab end
}

SerialFraction fit_amdahl(const std::vector<Measurement>& measurements) {
  check_measurements(measurements);
  // lab 21.10 begin: T = a + b/p, divided by T: 1 = a·u + b·v with u = 1/T and v = 1/(p·T). least_squares gives a and
  // b; s = a/(a + b), and its variance by the derivatives of s with respect to a and b
  std::vector<double> u, v;
  for (const Measurement& m : measurements) {
    u.push_back(1 / m.seconds);
    v.push_back(1 / (m.ranks * m.seconds));
  }
  const Estimate e = least_squares(u, v);
  const double total = e.a + e.b, by_a = e.b / (total * total), by_b = -e.a / (total * total);
  const double variance = by_a * by_a * e.variance_a + by_b * by_b * e.variance_b + 2 * by_a * by_b * e.covariance;
  const double value = e.a / total, reach = student_t(measurements.size() - 2) * std::sqrt(std::max(0.0, variance));
  return {value, value - reach, value + reach};
  // lab end
}

}  // namespace lockstep::week21
