// Compares a number that an answer computes by a formula with the test's own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <source_location>
#include <sstream>
#include <string>
#include <string_view>

namespace lockstep::testing {

/// Relative tolerance for two correct formulas whose operations are in a different order and round differently.
inline constexpr double kAnyOrder = 1e-9;

/// ExpectNear(found, expected) << "what": fails with a sentence that has both numbers and their unit. The tolerance is
/// relative to `expected`, and absolute if that is below 1.
class ExpectNear {
 public:
  ExpectNear(double found, double expected, double tolerance = kAnyOrder, std::string_view unit = "",
             std::source_location where = std::source_location::current())
      : right_(std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected))),
        numbers_(fmt::format(": expected {:.9g}{}, yours is {:.9g}{}", expected, unit, found, unit)),
        where_(where) {}
  ExpectNear(const ExpectNear&) = delete;
  ~ExpectNear() {
    if (!right_) ADD_FAILURE_AT(where_.file_name(), static_cast<int>(where_.line())) << what_.str() << numbers_;
  }
  template <class T>
  ExpectNear& operator<<(const T& part) {
    what_ << part;
    return *this;
  }

 private:
  bool right_;
  std::string numbers_;
  std::source_location where_;
  std::ostringstream what_;
};

/// The same for seconds.
inline ExpectNear expect_seconds(double found, double expected,
                                 std::source_location where = std::source_location::current()) {
  return ExpectNear(found, expected, kAnyOrder, " s", where);
}

}  // namespace lockstep::testing
