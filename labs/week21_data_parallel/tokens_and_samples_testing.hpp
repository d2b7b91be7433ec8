// Shared by the tests of exercise 21.15.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "common/arithmetic.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/described_cases_testing.hpp"
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

/// "The ranks' counts are 100, 10."; `of_rank(case, rank)`: of one of them.
template <class F>
testing::CaseWords by_rank(const char* what, const F& of_rank) {
  return [=](const Case& c) {
    std::string text;
    for (int rank = 0; rank < c.ranks; ++rank) text += fmt::format("{} {}", rank == 0 ? what : ",", of_rank(c, rank));
    return text + ".";
  };
}

/// 21.2's ring, once all ranks have called it with as many elements. Where one does not, messages name the line that
/// calls, which is the answer's.
inline void all_reduce_of_callers(Rank me, const Slice& data, Location where) {
  const int p = me.size(), r = me.rank();
  const Slice theirs = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int distance = 1; distance < p; distance *= 2)
    me.exchange({send((r + distance) % p, data), receive((r + p - distance) % p, theirs)}, where);
  ring_all_reduce(me, data);
}

/// Appends a slice's values.
inline void append(Rank me, const Slice& data, Values& seen) { testing::append(me, data, seen); }

}  // namespace lockstep::week21::tokens_and_samples_test
