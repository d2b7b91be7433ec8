// Shared by the tests of exercise 21.15.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/arithmetic.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week21_data_parallel/tokens_and_samples.hpp"

namespace lockstep::week21::tokens_and_samples_test {

using testing::Case;
using testing::CasePlan;
using testing::drawn;
using testing::run_cases;
using testing::sizes_of;

using Tokens = std::vector<std::uint64_t>;

/// Cases 0 to `cases` − 1.
inline CasePlan plan_of(std::size_t cases, const char* which) {
  std::vector<std::size_t> numbers(cases);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of(numbers), .which = which};
}

/// Appends a slice's values.
inline void append(Rank me, const Slice& data, Values& seen) { testing::append(me, data, seen); }

}  // namespace lockstep::week21::tokens_and_samples_test
