// Tests of exercise 22.11, part c: the relative errors of both sums, and how they grow with p.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/chunk.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/listener.hpp"
#include "labs/week22_zero/sixteen_bit_sums.hpp"
#include "labs/week22_zero/sixteen_bit_sums_testing.hpp"

namespace lockstep::week22::sixteen_bit_sums_error_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::drawn;
using testing::run_cases;

constexpr std::size_t kElements = 301;

/// Whole numbers from −127 to 127 and their halves and quarters, which differ from rank to rank (as gradients of small
/// batches do), or not.
std::vector<std::vector<float>> arrays(std::size_t ranks, bool agree) {
  std::mt19937 random(static_cast<unsigned>(ranks + drawn({22, 11, ranks, 4}, 1000)));
  std::vector<std::vector<float>> all(ranks);
  for (std::vector<float>& array : all)
    for (std::size_t i = 0; i < kElements; ++i) {
      const auto number = static_cast<int>(random() % 255) - 127;
      array.push_back(std::ldexp(static_cast<float>(number), -static_cast<int>(random() % 3)));
    }
  if (agree) all.assign(ranks, all[0]);
  return all;
}

SumErrors right_errors(const std::vector<std::vector<float>>& values) {
  const auto p = static_cast<int>(values.size());
  double ring = 0, once = 0, all = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    std::vector<float> column;
    for (const std::vector<float>& array : values) column.push_back(array[i]);
    float sum = 0;
    double exact = 0;
    for (float value : column) sum += value, exact += value;
    const double in_ring = in_a_ring(column, chunk_of(kElements, i, p)) - exact, at_end = in_bf16(sum) - exact;
    ring += in_ring * in_ring, once += at_end * at_end, all += exact * exact;
  }
  return {std::sqrt(ring / all), std::sqrt(once / all)};
}

/// Checks the values of part c: 256 on rank 0 of eight and 1 on the others, in chunk 0 and so on.
std::string wrong_ring(const Values& seen, std::size_t at) {
  for (int chunk = 0; chunk < 8; ++chunk)
    if (const double found = seen.at(at + static_cast<std::size_t>(chunk)), right = in_a_ring(by_rank(0, 8), chunk);
        found != right)
      return fmt::format("22.11a first: of 256 and seven times 1, chunk {} is {:.9g}, expected {:.9g}. Seen here: ",
                         chunk, found, right);
  return "";
}

TEST(Lab22_11c, TheRingsErrorGrowsWithP) {
  std::string differing, agreeing;
  const auto program = [](Rank, const Case& c) {
    const SumErrors errors = errors_of(arrays(c.size, false)), agree = errors_of(arrays(c.size, true));
    Values seen{errors.ring, errors.once, agree.ring, agree.once};
    for (int chunk = 0; chunk < 8; ++chunk) seen.push_back(ring_sum(by_rank(0, 8), chunk));
    return seen;
  };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const Values& seen = outcome.values[0];
    for (std::size_t agree = 0; agree < 2; ++agree) {
      const SumErrors right = right_errors(arrays(c.size, agree == 1));
      for (std::size_t way = 0; way < 2; ++way) {
        const double found = seen[2 * agree + way], expected = way == 0 ? right.ring : right.once;
        if (!(std::abs(found - expected) <= 1e-6 * expected))
          return wrong_ring(seen, 4) +
                 fmt::format("numbers that {}: the relative error of {} is {:.6g}, expected {:.6g}{}",
                             agree == 1 ? "all ranks agree on" : "differ from rank to rank",
                             way == 0 ? "the ring" : "sums that are rounded once", found, expected,
                             way == 0 ? ". Element i is in chunk chunk_of(n, i, p)" : "");
      }
    }
    const char* between = differing.empty() ? "" : ", ";
    differing += fmt::format("{}{:.2f} ({:.2f})", between, 100 * seen[0], 100 * seen[1]);
    agreeing += fmt::format("{}{:.2f} ({:.2f})", between, 100 * seen[2], 100 * seen[3]);
    return "";
  };
  CasePlan plan = plan_of_rings({2, 8, 64, 512});
  plan.together = true;
  run_cases(program, judge, plan);
  if (HasFailure() || differing.empty()) return;
  testing::note(fmt::format(
      "error of a ring in bf16 on 2, 8, 64 and 512 ranks, in % (rounded once): {}; where all ranks have the "
      "same numbers: {}",
      differing, agreeing));
}

}  // namespace
}  // namespace lockstep::week22::sixteen_bit_sums_error_test
