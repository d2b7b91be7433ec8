#include "common/runtime/machine/measured_prices.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

double seconds_of(const SizePrice& point, double cold_share) {
  return point.seconds + cold_share * (point.cold_seconds - point.seconds);
}

/// Position of a value on an axis: between two points, at fraction `share`; outside, at the first or last point.
struct AxisPosition {
  std::size_t below = 0, above = 0;
  double share = 0;
  double beyond = 1;  // multiple of the last point
};
AxisPosition position_on(const std::vector<double>& axis, double value) {
  const auto next = static_cast<std::size_t>(std::upper_bound(axis.begin(), axis.end(), value) - axis.begin());
  if (next == 0) return {};
  if (next == axis.size()) return {next - 1, next - 1, 0, value / axis.back()};
  return {next - 1, next, (value - axis[next - 1]) / (axis[next] - axis[next - 1]), 1};
}

}  // namespace

PriceLine line_at(const std::vector<SizePrice>& table, double bytes, double cold_share) {
  const auto above =
      std::lower_bound(table.begin(), table.end(), bytes, [](const SizePrice& p, double b) { return p.bytes < b; });
  if (above == table.end()) return {0, seconds_of(table.back(), cold_share) / table.back().bytes};
  if (above == table.begin()) return {seconds_of(*above, cold_share), 0};
  const SizePrice& below = *(above - 1);
  const double at_below = seconds_of(below, cold_share);
  const double slope = (seconds_of(*above, cold_share) - at_below) / (above->bytes - below.bytes);
  return {at_below - slope * below.bytes, slope};
}

double MeasuredPrices::walk_seconds(double bytes, double live_bytes) const {
  const double added = bytes / 3, walked = live_bytes / 2;  // bytes of x in y += x
  const double alone = line_at(additions, added, 0).at(added);
  if (walked <= added) return alone;
  return std::max(alone, added * line_at(additions, walked, 0).at(walked) / walked);
}

double MeasuredPrices::cold_share(double footprint_bytes) const {
  // If the largest footprint is hardly slower than the smallest, the curve is only noise.
  if (footprints.size() < 2 || footprints.back().seconds < 1.2 * footprints.front().seconds)
    return footprint_bytes > cache_bytes ? 1 : 0;
  const double warm = footprints.front().seconds, rise = footprints.back().seconds - warm;
  const auto above = std::find_if(footprints.begin(), footprints.end(),
                                  [&](const FootprintPrice& point) { return point.bytes >= footprint_bytes; });
  if (above == footprints.begin()) return 0;
  if (above == footprints.end()) return 1;
  const FootprintPrice& below = *(above - 1);
  const double way = std::log(footprint_bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return std::clamp((below.seconds + way * (above->seconds - below.seconds) - warm) / rise, 0.0, 1.0);
}

double MeasuredPrices::product_seconds(double m, double nk) const {
  std::vector<double> rows, sizes;
  for (const ProductPrice& point : products) {
    if (rows.empty() || rows.back() != point.m) rows.push_back(point.m);
    if (rows.size() == 1) sizes.push_back(point.nk);
  }
  const AxisPosition row = position_on(rows, m), size = position_on(sizes, nk);
  const auto along = [&](std::size_t r) {
    const double below = products[r * sizes.size() + size.below].seconds;
    return below + size.share * (products[r * sizes.size() + size.above].seconds - below);
  };
  const double below = along(row.below);
  return (below + row.share * (along(row.above) - below)) * row.beyond * size.beyond;
}

}  // namespace lockstep
