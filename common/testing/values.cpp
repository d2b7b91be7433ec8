#include "common/testing/values.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::testing {

void append(Rank me, const Slice& data, Values& seen) {
  const std::vector<float> values = to_host(me, data);
  seen.insert(seen.end(), values.begin(), values.end());
}

double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

std::size_t first_unlike(std::span<const double> values, std::span<const double> exact, double tolerance) {
  std::size_t i = 0;
  while (i < values.size() && std::abs(values[i] - exact[i]) <= tolerance) ++i;
  return i;
}

}  // namespace lockstep::testing
