#include "tools/scale/law.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/stats/stats.hpp"

namespace lockstep::scaling {
namespace {

/// s = (p − S)/(p − 1) of each weak point's scaled speedup S, through the origin.
Estimate fit_gustafson(double serial_seconds, const std::vector<week21::Measurement>& points) {
  std::vector<std::vector<double>> design;
  std::vector<double> missing;
  for (const week21::Measurement& point : points) {
    const double p = point.ranks;
    design.push_back({p - 1});
    missing.push_back(p - p * week21::weak_efficiency(serial_seconds, point.seconds));
  }
  const Fit fit = least_squares(design, missing);
  const double s = fit.coefficients[0], half = student_t95(fit.degrees_of_freedom) * fit.standard_errors[0];
  return {s, s - half, s + half};
}

Estimate fit_amdahl(double serial_seconds, const std::vector<week21::Measurement>& points) {
  std::vector<week21::Measurement> times{{1, serial_seconds}};
  times.insert(times.end(), points.begin(), points.end());
  const week21::SerialFraction s = week21::fit_amdahl(times);
  return {s.value, s.low, s.high};
}

}  // namespace

bool is_fraction(const Estimate& e) {
  return e.value <= 1 + 1e-9 && (std::isfinite(e.high) ? std::max(e.value, e.high) : e.value) >= -1e-9;
}

LawFit fit_law(bool weak, double serial_seconds, const std::vector<week21::Measurement>& points) {
  const std::string law = weak ? "Gustafson" : "Amdahl";
  const std::size_t numbers = points.size() + 1;
  if (numbers < 3)
    return {{},
            fmt::format(
                "{}: no fit: {} of ranks with a core each; a fit needs 3, otherwise it only repeats the speedup above",
                law, numbers == 1 ? "no number but 1" : "1 and one more number")};
  Estimate fraction = weak ? fit_gustafson(serial_seconds, points) : fit_amdahl(serial_seconds, points);
  const bool interval = numbers > 3;
  if (!interval) fraction.low = fraction.high = std::nan("");
  if (!is_fraction(fraction))
    return {{},
            fmt::format("{}: no serial fraction describes these times: {}", law,
                        fraction.value > 1 ? "more ranks take longer, which is overhead that grows with them"
                                           : "ranks are faster than their share, so that each does less than the "
                                             "serial program (caches, memory, other products)")};
  const std::string range =
      interval ? fmt::format("95 %: {:.4f} – {:.4f}", fraction.low, fraction.high) : "too few for an interval";
  return {fraction, fmt::format("{}: serial fraction {:.4f}, from {} numbers of ranks ({})", law, fraction.value,
                                numbers, range)};
}

}  // namespace lockstep::scaling
