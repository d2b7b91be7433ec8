#include "bench/programs/heavy_tails.hpp"

#include <cmath>
#include <cstdint>

#include "common/support/stats/mix.hpp"

namespace lockstep::bench {
namespace {
double pareto(std::uint64_t bits) {
  const double uniform = (static_cast<double>(mix(bits) >> 12U) + 1) * 0x1p-52;  // in (0, 1]
  const double size = 1 / std::cbrt(uniform) - 1;
  return mix(~bits) % 2 == 0 ? size : -size;
}
}  // namespace

float heavy_tailed(int rank, std::size_t element) {
  const double shared = pareto(element), own = pareto((static_cast<std::uint64_t>(rank) + 1) << 40 | element);
  return static_cast<float>(shared + own / 2);
}

}  // namespace lockstep::bench
