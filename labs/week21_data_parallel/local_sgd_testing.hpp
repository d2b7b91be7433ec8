// Shared by the tests of 21.12: inputs drawn by the secret seed, and an outer step in double.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/compression_testing.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21::local_sgd_testing {

/// θ₀ of an element: the same on all ranks.
inline float start_of(std::size_t i) { return rough(99, i, static_cast<int>(drawn({21, 12}, 100))); }
/// The change that local step `step` of a rank adds to an element.
inline float local_change(int rank, std::size_t i, int step) {
  return rough(rank, i, step + 1 + static_cast<int>(drawn({21, 12, 1}, 100))) / 4;
}

inline constexpr double kRounding = 2e-6;  // of values below 10, added over 8 ranks in any order

/// One element in double.
struct OuterElement {
  double start = 0, v = 0;

  void step(const OuterSgd& how, double g) {
    v = static_cast<double>(how.momentum) * v + g;
    start -= static_cast<double>(how.learning_rate) * (how.nesterov ? g + static_cast<double>(how.momentum) * v : v);
  }
};

}  // namespace lockstep::week21::local_sgd_testing
