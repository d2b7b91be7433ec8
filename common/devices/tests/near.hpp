// Permitted distance between a result and the exact value, derived from its type and its sum.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/dtype.hpp"

namespace lockstep::testing {

/// Half a unit in the last place, relative: the largest change by rounding to nearest.
inline double rounding(DType dtype) {
  switch (dtype) {
    case DType::bf16: return std::ldexp(1, -8);
    case DType::f16: return std::ldexp(1, -11);
    default: return std::ldexp(1, -24);
  }
}
/// The same for numbers too small for that: half the smallest subnormal.
inline double smallest(DType dtype) { return dtype == DType::f16 ? std::ldexp(1, -25) : 1e-40; }

/// |actual − exact| ≤ one rounding to `dtype` of the result, plus `roundings` roundings of float of numbers as large as
/// magnitude[i] (a single value applies to all). NaN is never near.
inline void expect_near(const std::vector<double>& actual, const std::vector<double>& exact, DType dtype,
                        double roundings, const std::vector<double>& magnitude, const char* what) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double scale = magnitude[magnitude.size() == 1 ? 0 : i];
    const double bound = rounding(dtype) * std::fabs(exact[i]) + smallest(dtype) +
                         (1 + rounding(dtype)) * roundings * rounding(DType::f32) * scale;
    ASSERT_LE(std::fabs(actual[i] - exact[i]), bound) << what << " [" << i << "] of " << exact.size() << ", "
                                                      << to_string(dtype) << ": " << actual[i] << " for " << exact[i];
  }
}

inline void expect_all_near(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << i;
}

inline double largest(const std::vector<double>& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::fabs(value));
  return result;
}

/// The gradient of `f` at x by central differences.
template <class F>
std::vector<double> finite_differences(std::vector<double> x, const F& f, double step = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + step;
    const double up = f(x);
    x[i] = before - step;
    gradient[i] = (up - f(x)) / (2 * step);
    x[i] = before;
  }
  return gradient;
}

inline constexpr DType kFloating[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace lockstep::testing
