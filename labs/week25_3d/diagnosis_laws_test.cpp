// Tests of exercise 25.4c: laws that are known, from times that follow them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <climits>

#include "common/error.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week25_3d/diagnosis.hpp"

namespace lockstep::week25::diagnosis_laws_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto fit_strong = testing::answer<week25::fit_strong>;
constexpr auto fit_weak = testing::answer<week25::fit_weak>;
constexpr auto most_ranks = testing::answer<week25::most_ranks>;

std::vector<Measured> strong_times(double s) {
  std::vector<Measured> times;
  for (int p : {1, 2, 4, 8})
    for (double noise : {0.99, 1.01}) times.push_back({p, noise * 2 / week21::amdahl_speedup(s, p)});
  return times;
}
std::vector<Measured> weak_times(double s) {
  std::vector<Measured> times;
  for (int p : {1, 2, 4, 8})
    for (double noise : {0.99, 1.01}) times.push_back({p, noise * 2 * p / week21::gustafson_speedup(s, p)});
  return times;
}

/// `s`, or with --seed another up to a tenth away from it.
double near_drawn(double s) {
  const auto of = static_cast<std::uint64_t>(1e4 * s);
  return s * (1 + static_cast<double>(testing::drawn({25, 10, of}, 1000)) / 1e4);
}

void expect_fraction(const week21::SerialFraction& found, double s, const std::string& law) {
  EXPECT_NEAR(found.value, s, 0.01) << law;
  EXPECT_LE(found.low, s) << law << ": the interval contains the true value";
  EXPECT_GE(found.high, s) << law << ": the interval contains the true value";
  EXPECT_LT(found.high - found.low, 0.1) << law << ": 1% of noise, but an interval too wide to be useful";
}

TEST(Lab25_4c, RecoversAFractionThatIsKnown) {
  for (double about : {0.02, 0.1, 0.3}) {
    const double s = near_drawn(about);
    expect_fraction(fit_strong(strong_times(s)), s, fmt::format("Amdahl, s = {}", s));
    expect_fraction(fit_weak(weak_times(s)), s, fmt::format("Gustafson, s = {}", s));
  }
}

TEST(Lab25_4c, TheIntervalIsStudents) {
  // Speedups of 1.8 and 1.6 on two ranks: s = 0.3 with a standard error of 0.1, and t(1) = 12.706.
  const week21::SerialFraction s = fit_weak({{1, 1}, {2, 2 / 1.8}, {2, 2 / 1.6}});
  EXPECT_NEAR(s.value, 0.3, 1e-9) << "s of speedups of 1.8 and 1.6 on two ranks: the mean of 0.2 and 0.4";
  EXPECT_NEAR(s.high - s.value, 1.2706, 1e-4) << "half of the interval is t times the standard error";
  EXPECT_NEAR(s.value - s.low, 1.2706, 1e-4) << "half of the interval is t times the standard error";
}

TEST(Lab25_4c, TheSerialTimeIsTheMeanOfAll) {
  // T(1) = 2: speedups of 1.6 on two ranks, and of 2.2 on four.
  const week21::SerialFraction s = fit_weak({{1, 1}, {1, 4}, {1, 1}, {2, 2 * 2 / 1.6}, {4, 4 * 2 / 2.2}});
  EXPECT_NEAR(s.value, (0.4 * 1 + 1.8 * 3) / 10, 1e-9)
      << "times on one rank are 1, 4 and 1 s, their mean 2; p − S(p) is 0.4 and 1.8 for p − 1 = 1 and 3: least squares "
         "through 0";
}

TEST(Lab25_4c, TimesWithoutCoresAreLeftOut) {
  for (double about : {0.02, 0.2}) {
    const double s = near_drawn(about);
    std::vector<Measured> strong = strong_times(s), weak = weak_times(s);
    for (int p : {16, 32})  // ranks that share cores
      for (std::vector<Measured>* times : {&strong, &weak}) times->push_back({p, 9, false});
    EXPECT_NEAR(fit_strong(strong).value, s, 0.01) << "a time without a core for each rank does not measure scaling";
    EXPECT_NEAR(fit_weak(weak).value, s, 0.01) << "a time without a core for each rank does not measure scaling";
  }
  const auto refused = [](const auto& fit) {
    try {
      fit();
      return false;
    } catch (const Error& error) {
      return error.verdict() == Verdict::usage;
    }
  };
  EXPECT_TRUE(refused([] {
    fit_strong({{1, 1}, {2, 0.6, false}, {4, 0.4, false}});
  })) << "strong scaling: one time with enough cores is too few for a fit, a USAGE error";
  EXPECT_TRUE(refused([] {
    fit_weak({{1, 1}, {2, 1.1}, {4, 1.2, false}});
  })) << "weak scaling: one time on several ranks with enough cores is too few for a fit, a USAGE error";
  EXPECT_TRUE(refused([] {
    fit_weak({{2, 1.1}, {4, 1.2}});
  })) << "weak scaling: without a time on one rank there is nothing to compare with, a USAGE error";
}

TEST(Lab25_4c, TheMostRanksThatAreWorthIt) {
  for (double about : {0.01, 0.1, 0.5})
    for (double efficiency : {0.25, 0.35, 0.5, 0.6, 0.9, 1.0}) {
      const double s = near_drawn(about);
      const int most = most_ranks(s, efficiency);
      const auto reached = [&](int p) { return week21::amdahl_speedup(s, p) / p; };
      if (reached(most) < efficiency * (1 - 1e-9))
        FAIL() << fmt::format("s = {}: on {} ranks the efficiency is {:.6g}, less than {}", s, most, reached(most),
                              efficiency);
      if (reached(most + 1) >= efficiency)
        FAIL() << fmt::format(
            "s = {}: {} are not the most ranks: on one more the efficiency is {:.6g}, still at least {}", s, most,
            reached(most + 1), efficiency);
    }
  for (double about : {0.01, 0.03, 0.1, 0.3, 0.7})
    for (int p = 1; p <= 60; ++p)
      if (const double s = near_drawn(about); most_ranks(s, 1 / (1 + s * (p - 1))) != p)
        FAIL() << "s = " << s << ": the efficiency of " << p << " ranks is reached on " << p
               << " ranks, not on at most " << most_ranks(s, 1 / (1 + s * (p - 1)))
               << ". Rounding may put a value just below a whole number";
  EXPECT_EQ(most_ranks(0, 0.5), INT_MAX) << "nothing serial: no limit";
  EXPECT_EQ(most_ranks(-0.01, 0.5), INT_MAX) << "a fitted fraction below 0: no limit";
  EXPECT_EQ(most_ranks(1e-12, 0.5), INT_MAX) << "more than an int holds";
  EXPECT_THROW(most_ranks(0.1, 0), Error) << "an efficiency of 0 is invalid";
}

}  // namespace
}  // namespace lockstep::week25::diagnosis_laws_test
