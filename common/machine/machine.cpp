// What arithmetic and messages cost on a machine. Every result is the same to the last bit on every computer: only + −
// × ÷ are used, contraction to fused multiply-adds is off, and the logarithm is our own.
#include "common/machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.hpp"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// log2(x) for x > 0, to about 1e-13: exponent + 2/ln 2 · atanh((m − 1)/(m + 1)), with the mantissa m in [√½, √2).
double log2_everywhere(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  double t = (mantissa - 1) / (mantissa + 1);
  double t2 = t * t, power = t, sum = 0;
  for (int k = 1; k <= 17; k += 2) {
    sum += power / k;
    power *= t2;
  }
  return exponent + sum * 2.8853900817779268;
}

}  // namespace

double Machine::matmul_efficiency(double flop) const {
  if (efficiency.empty()) return 1;
  if (flop <= efficiency.front().flop) return efficiency.front().fraction;
  if (flop >= efficiency.back().flop) return efficiency.back().fraction;
  auto above = std::upper_bound(efficiency.begin(), efficiency.end(), flop,
                                [](double value, const EfficiencyPoint& point) { return value < point.flop; });
  auto below = above - 1;
  double share = log2_everywhere(flop / below->flop) / log2_everywhere(above->flop / below->flop);
  return below->fraction + share * (above->fraction - below->fraction);
}

double Machine::seconds(const Operation& operation) const {
  double rate = peak_flop_per_second[static_cast<std::size_t>(operation.dtype)];
  if (operation.matmul) rate *= matmul_efficiency(operation.flop);
  return std::max(operation.flop / rate, operation.bytes / memory_bytes_per_second) + launch;
}

int Machine::level_between(int a, int b) const {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    int ranks = levels[level].ranks;
    if (ranks == 0 || a / ranks == b / ranks) return static_cast<int>(level);
  }
  throw Error(Verdict::usage, fmt::format("machine {} holds {} ranks; no link joins ranks {} and {}", name, capacity(),
                                          std::min(a, b), std::max(a, b)));
}

double Machine::alpha(int level) const {
  double sum = 0;
  for (int l = 0; l <= level; ++l) sum += levels[l].latency;
  return sum;
}

double Machine::beta(int level) const {
  double smallest = kInfinity;
  for (int l = 0; l <= level; ++l) smallest = std::min(smallest, levels[l].bytes_per_second);
  return 1 / smallest;
}

Machine Machine::uniform(double alpha, double beta, double gamma) {
  Machine machine;
  machine.description = "every pair of ranks joined alike";
  machine.levels = {{.name = "link", .ranks = 0, .latency = alpha, .bytes_per_second = 1 / beta}};
  machine.peak_flop_per_second.fill(kInfinity);
  machine.memory_bytes = kInfinity;
  machine.memory_bytes_per_second = 3 / gamma;
  return machine;
}

}  // namespace lockstep
