// Shared by the tests of exercise 25.5, which compare with these: the expected waste and its least place in long
// double, and a run that is added up failure by failure and not step by step.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/testing/drawn.hpp"
#include "labs/week25_3d/failing_run.hpp"

namespace lockstep::week25::save_interval_test {

inline double waste_of(const SavingCosts& costs, double interval) {
  const long double m = costs.mtbf;
  const long double taken = m * std::exp(costs.restart / m) * std::expm1((interval + costs.save) / m);
  return static_cast<double>((taken - interval) / taken);
}

/// The interval of least waste, to about six digits: thirds of (0, 4 M) are thrown away on a logarithmic scale.
inline double best_by_scan(const SavingCosts& costs) {
  double low = std::log(1e-9 * costs.mtbf), high = std::log(4 * costs.mtbf);
  for (int i = 0; i < 200; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    // The waste grows with ln(e^((τ + δ)/M) − 1) − ln τ, of which the small differences are left.
    const auto of = [&](double x) {
      const long double t = std::exp(static_cast<long double>(x)), m = costs.mtbf;
      return std::log(std::expm1((t + costs.save) / m)) - static_cast<long double>(x);
    };
    (of(a) < of(b) ? high : low) = of(a) < of(b) ? b : a;
  }
  return std::exp((low + high) / 2);
}

/// From 0 to 1: always the same without --seed too.
inline double draw(std::uint64_t what, std::uint64_t which) {
  return static_cast<double>(mix(mix(what) ^ mix(which + testing::drawn({what, which}, 1u << 30))) >> 11) * 0x1p-53;
}
/// A whole number from `least` to `most`, as a double.
inline double draw_whole(std::uint64_t what, std::uint64_t which, int least, int most) {
  return least + std::floor(draw(what, which) * (most - least + 1));
}

/// The same as simulate(), where `gaps` are followed by no more failures.
inline TimeSpent added_up(const SavingCosts& costs, double interval, double seconds, const std::vector<double>& gaps) {
  TimeSpent sum;
  const double turn = interval + costs.save;
  double before = 0;  // of restarting, at the beginning of the gap
  for (std::size_t n = 0; n <= gaps.size(); ++n) {
    const bool last = n == gaps.size() || gaps[n] >= seconds;
    const double gap = last ? seconds : gaps[n], restart = std::min(gap, before), rest = gap - restart;
    const double turns = std::floor(rest / turn), unsaved = std::min(rest - turns * turn, interval);
    sum.restarts += restart;
    sum.work += turns * interval + (last ? unsaved : 0);
    sum.lost += last ? 0 : unsaved;
    sum.saves += rest - turns * interval - unsaved;
    if (last) break;
    ++sum.failures;
    seconds -= gap;
    before = costs.restart;
  }
  return sum;
}

/// Gaps as a function of their number; none after the last.
inline auto in_turn(const std::vector<double>& gaps) {
  return [&gaps](std::uint64_t n) { return n < gaps.size() ? gaps[n] : INFINITY; };
}

}  // namespace lockstep::week25::save_interval_test
