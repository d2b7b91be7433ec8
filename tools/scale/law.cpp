#include "tools/scale/law.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labs/week25_3d/diagnosis.hpp"

namespace lockstep::scaling {

bool is_fraction(const Estimate& e) {
  return e.value <= 1 + 1e-9 && (std::isfinite(e.high) ? std::max(e.value, e.high) : e.value) >= -1e-9;
}

LawFit fit_law(bool weak, double serial_seconds, const std::vector<week21::Measurement>& points) {
  const std::string law = weak ? "Gustafson" : "Amdahl";
  const std::size_t numbers = points.size() + 1;
  if (numbers < 3)
    return {{},
            fmt::format(
                "{}: no fit, which needs measurements at 3 numbers of ranks with a core for each rank; there are {}",
                law, numbers)};
  std::vector<week25::Measured> times{{1, serial_seconds}};
  for (const week21::Measurement& point : points) times.push_back({point.ranks, point.seconds});
  const week21::SerialFraction s = weak ? week25::fit_weak(times) : week25::fit_strong(times);
  Estimate fraction{s.value, s.low, s.high};
  const bool interval = numbers > 3;
  if (!interval) fraction.low = fraction.high = std::nan("");
  if (!is_fraction(fraction))
    return {{},
            fmt::format("{}: no serial fraction describes these times: {}", law,
                        fraction.value > 1 ? "more ranks take longer, which is overhead that grows with them"
                                           : "ranks are faster than their share, so each does less than the serial "
                                             "program (caches, memory, other products)")};
  const std::string range =
      interval ? fmt::format("95%: {:.4f} – {:.4f}", fraction.low, fraction.high) : "too few for an interval";
  return {fraction, fmt::format("{}: serial fraction {:.4f}, from {} numbers of ranks ({})", law, fraction.value,
                                numbers, range)};
}

}  // namespace lockstep::scaling
