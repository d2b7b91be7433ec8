// Shared by the tests of 22.11: rounding, and a ring of numbers, by the runtime's own conversions.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "common/runtime/convert.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"

namespace lockstep::week22 {

/// Tests of numbers that one rank computes; a case's size is the number of ranks in the ring.
inline testing::CasePlan plan_of_rings(std::vector<std::size_t> rings) {
  return {.ranks = {1}, .sizes = testing::sizes_of(std::move(rings)), .unit = "", .which = "ranks in the ring:"};
}

inline float in_bf16(float value) { return from_bf16(to_bf16(value)); }

/// The result of 21.2's ring in bf16 for an element of that chunk, of which rank r has values[r].
inline float in_a_ring(const std::vector<float>& values, int chunk) {
  const std::size_t p = values.size();
  float sum = 0;
  for (std::size_t step = 1; step <= p; ++step)
    sum = in_bf16(sum + values[(static_cast<std::size_t>(chunk) + step) % p]);
  return sum;
}

/// The values of p ranks: 256 on rank `which` and 1 on the others; from p on, numbers with signs.
inline std::vector<float> by_rank(std::size_t which, std::size_t ranks) {
  std::vector<float> values(ranks, 1);
  if (which < ranks) values[which] = 256;
  for (std::uint64_t r = 0; which >= ranks && r < ranks; ++r)
    values[r] = static_cast<float>((r * 89 + which * 31 + testing::drawn({22, 11, r, which}, 255)) % 255) - 127;
  return values;
}

}  // namespace lockstep::week22
