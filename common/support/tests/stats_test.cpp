// Statistics, compared with known values, and with their guarantees on simulated samples.
#include "common/support/stats/stats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "common/error.hpp"
#include "common/support/stats/bus_factor.hpp"

namespace lockstep {
namespace {

std::vector<double> numbers_to(int n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// Ranks of the interval as in Le Boudec's table for the median: n = 6: 1, 6; n = 31: 10, 22; n = 70: 27, 44.
TEST(Median, IntervalIsThatOfTheOrderStatistics) {
  Median six = median(numbers_to(6));
  EXPECT_EQ(six.value, 3.5);
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  EXPECT_NEAR(six.confidence, 1 - 2.0 / 64, 1e-12);
  Median thirty_one = median(numbers_to(31));
  EXPECT_EQ(thirty_one.value, 16);
  EXPECT_EQ(thirty_one.low, 10);
  EXPECT_EQ(thirty_one.high, 22);
  Median seventy = median(numbers_to(70));
  EXPECT_EQ(seventy.low, 27);
  EXPECT_EQ(seventy.high, 44);
}

TEST(Median, FewSamplesPromiseLess) {
  Median one = median({3});
  EXPECT_EQ(one.value, 3);
  EXPECT_EQ(one.confidence, 0);
  Median three = median({5, 1, 2});
  EXPECT_EQ(three.value, 2);
  EXPECT_EQ(three.low, 1);
  EXPECT_EQ(three.high, 5);
  EXPECT_NEAR(three.confidence, 0.75, 1e-12);
  EXPECT_THROW(median({}), Error);
  EXPECT_THROW(median({1, std::nan("")}), Error);
}

TEST(Median, IntervalCoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> skewed(0, 1);  // median 1
  int covered = 0;
  const int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> samples(31);
    for (double& sample : samples) sample = skewed(random);
    Median m = median(samples);
    covered += m.low <= 1 && 1 <= m.high;
  }
  // Exact coverage at n = 31 is 0.9707; four standard errors of 4000 trials are 0.011.
  EXPECT_NEAR(static_cast<double>(covered) / trials, 0.9707, 0.011);
}

TEST(Statistics, QuantilesAndMeans) {
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_EQ(mean(values), 5);
}

TEST(Statistics, StudentsT) {
  EXPECT_NEAR(student_t95(1), 12.7062, 1e-3);
  EXPECT_NEAR(student_t95(2), 4.3027, 1e-4);
  EXPECT_NEAR(student_t95(10), 2.2281, 1e-4);
  EXPECT_NEAR(student_t95(1e6), 1.95997, 1e-4);
}

TEST(LeastSquares, RecoversALineExactlyAndKnowsItsErrors) {
  std::vector<double> x{1, 2, 3, 4}, y{3, 5, 7, 9};
  Line exact = fit_line(x, y);
  EXPECT_NEAR(exact.intercept, 1, 1e-13);
  EXPECT_NEAR(exact.slope, 2, 1e-13);
  EXPECT_NEAR(exact.r_squared, 1, 1e-13);
  // By hand: x̄ = 2.5, Sxx = 5, y = {1, 3, 2, 4}: slope 0.8, residual sum 1.8, s² = 0.9, error √(0.9/5).
  std::vector<double> noisy{1, 3, 2, 4};
  Line line = fit_line(x, noisy);
  EXPECT_NEAR(line.slope, 0.8, 1e-13);
  EXPECT_NEAR(line.intercept, 0.5, 1e-13);
  EXPECT_NEAR(line.slope_error, std::sqrt(0.9 / 5), 1e-13);
  EXPECT_NEAR(line.intercept_error, std::sqrt(0.9 * (1.0 / 4 + 6.25 / 5)), 1e-13);
  EXPECT_NEAR(line.r_squared, 1 - 1.8 / 5, 1e-13);
}

TEST(LeastSquares, AlphaAndBetaOverNineDecadesOfSizes) {
  std::vector<double> bytes, seconds, weights;
  for (double n = 8; n < 1e10; n *= 8) {
    bytes.push_back(n);
    seconds.push_back(3.4e-6 + n / 235e9);
    weights.push_back(1 / (seconds.back() * seconds.back()));
  }
  Line line = fit_line(bytes, seconds, weights);
  EXPECT_NEAR(line.intercept / 3.4e-6, 1, 1e-9);
  EXPECT_NEAR(line.slope * 235e9, 1, 1e-9);
}

TEST(LeastSquares, RefusesWhatCannotBeSolved) {
  std::vector<double> x{2, 2, 2}, y{1, 2, 3}, one{1};
  EXPECT_THROW(fit_line(x, y), Error);
  EXPECT_THROW(fit_line(one, one), Error);
}

TEST(Bootstrap, IsDeterministicAndBracketsTheMean) {
  std::vector<double> values = numbers_to(100);
  auto statistic = [&](std::span<const std::size_t> chosen) {
    double sum = 0;
    for (std::size_t index : chosen) sum += values[index];
    return sum / static_cast<double>(chosen.size());
  };
  Interval first = bootstrap(100, statistic), again = bootstrap(100, statistic);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  // The mean's standard error is 2.89: the interval is about 50.5 ± 5.66.
  EXPECT_NEAR(first.low, 50.5 - 5.66, 0.8);
  EXPECT_NEAR(first.high, 50.5 + 5.66, 0.8);
}

TEST(BusFactor, IsThatOfNcclTests) {
  for (const char* gathers : {"all_gather", "reduce_scatter", "all_to_all"})
    EXPECT_DOUBLE_EQ(bus_factor(gathers, 4), 0.75) << gathers;
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 1), 0) << "one rank sends nothing";
  EXPECT_DOUBLE_EQ(bus_factor("broadcast", 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor("send", 4), 1);
}

}  // namespace
}  // namespace lockstep
