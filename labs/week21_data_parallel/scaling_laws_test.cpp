// Tests of exercise 21.10: scaling laws.
#include "labs/week21_data_parallel/scaling_laws.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "common/error.hpp"
#include "common/testing/answered.hpp"

namespace lockstep::week21::scaling_laws_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto speedup = testing::answer<week21::speedup>;
constexpr auto efficiency = testing::answer<week21::efficiency>;
constexpr auto weak_efficiency = testing::answer<week21::weak_efficiency>;
constexpr auto amdahl_speedup = testing::answer<week21::amdahl_speedup>;
constexpr auto gustafson_speedup = testing::answer<week21::gustafson_speedup>;
constexpr auto karp_flatt = testing::answer<week21::karp_flatt>;
constexpr auto fit_amdahl = testing::answer<week21::fit_amdahl>;

constexpr int kRanks[] = {1, 2, 3, 4, 8, 16, 64, 1024};

/// Fails with the value found, the value expected, and why. Formulas are compared to the ninth digit.
void expect_value(const std::string& what, double seen, double expected, const std::string& why,
                  double tolerance = 1e-9) {
  if (!(std::abs(seen - expected) <= tolerance * std::max(1.0, std::abs(expected))))
    ADD_FAILURE() << fmt::format("{} is {:.10g}, expected {:.10g}: {}", what, seen, expected, why);
}
void expect_that(bool holds, const std::string& sentence) {
  if (!holds) ADD_FAILURE() << sentence;
}

TEST(Lab21_10, SpeedupAndEfficiency) {
  expect_value("speedup(12, 4)", speedup(12, 4), 3, "12 s on one rank and 4 s on many: 3 times faster");
  expect_value("efficiency(12, 4, 4)", efficiency(12, 4, 4), 0.75,
               "a speedup of 3 on 4 ranks: each rank is worth 3/4 of one");
  expect_value("efficiency(12, 12, 1)", efficiency(12, 12, 1), 1, "one rank is as fast as itself");
  expect_value("weak_efficiency(12, 15)", weak_efficiency(12, 15), 0.8, "p times the work in 15 s instead of 12 s");
  expect_value("karp_flatt(3, 4)", karp_flatt(speedup(12, 4), 4), 1.0 / 9,
               "of 12 s 4/3 are serial, since 4/3 + (32/3)/4 = 4: Karp–Flatt must trace back to s = 1/9. (1 / ranks of "
               "an int is 0 in C++)");
}

TEST(Lab21_10, Amdahl) {
  for (int p : kRanks) {
    expect_value(fmt::format("amdahl_speedup(0, {})", p), amdahl_speedup(0, p), p,
                 "without a serial part p ranks are p times faster. Is s the serial fraction, not the parallel one?");
    expect_value(fmt::format("amdahl_speedup(1, {})", p), amdahl_speedup(1, p), 1,
                 "where all is serial, more ranks change nothing");
    expect_that(amdahl_speedup(0.05, p) < 20, "a serial part of 5% limits the speedup to 1/s = 20");
  }
  expect_value("amdahl_speedup(0.05, 8)", amdahl_speedup(0.05, 8), 5.925925925925926, "1/(0.05 + 0.95/8)");
  expect_value("karp_flatt(5.93, 8)", karp_flatt(5.925925925925926, 8), 0.05, "and back");
}

TEST(Lab21_10, Gustafson) {
  for (int p : kRanks) {
    expect_value(fmt::format("gustafson_speedup(0, {})", p), gustafson_speedup(0, p), p,
                 "without a serial part the speedup is p");
    expect_value(fmt::format("gustafson_speedup(1, {})", p), gustafson_speedup(1, p), 1,
                 "where all is serial, more ranks change nothing");
    expect_that(gustafson_speedup(0.05, p) >= amdahl_speedup(0.05, p), "a problem that grows is easier to speed up");
  }
  expect_value("gustafson_speedup(0.05, 8)", gustafson_speedup(0.05, 8), 7.65,
               "the serial part once, the parallel part 8 times: 0.05 + 0.95·8");
  expect_value("karp_flatt(7.65, 8)", karp_flatt(7.65, 8), 0.05 / 7.65,
               "s is a fraction of the time on p ranks; of one rank's, S times as long, the serial part is s/S");
}

TEST(Lab21_10, KarpFlattIsAmdahlSolvedForTheSerialFraction) {
  for (int p : {2, 3, 4, 8, 16, 64, 1024})
    for (double s : {0.0, 0.01, 0.1, 0.5, 1.0})
      expect_value(fmt::format("karp_flatt({:.6g}, {})", amdahl_speedup(s, p), p), karp_flatt(amdahl_speedup(s, p), p),
                   s, fmt::format("that is Amdahl's speedup with s = {}, which must be traced back to s", s));
  expect_value("karp_flatt(4.4, 4)", karp_flatt(4.4, 4), (1 / 4.4 - 0.25) / 0.75,
               "a speedup above p has no serial fraction: the metric is negative");
}

std::vector<Measurement> amdahl_times(double serial_fraction, double seconds, const std::vector<int>& ranks,
                                      const std::function<double()>& noise) {
  std::vector<Measurement> times;
  for (int p : ranks) times.push_back({p, seconds * (serial_fraction + (1 - serial_fraction) / p) * (1 + noise())});
  return times;
}

/// Uniform in ±width: the same sequence for a seed, everywhere (SplitMix64).
class Noise {
 public:
  Noise(std::uint64_t seed, double width) : state_(seed * 0x9e3779b97f4a7c15u), width_(width) {}
  double operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return width_ * (2 * static_cast<double>((z ^ (z >> 31)) >> 11) / 9007199254740992.0 - 1);
  }

 private:
  std::uint64_t state_;
  double width_;
};

TEST(Lab21_10, TheFitFindsTheFractionOfExactTimes) {
  for (double s : {-0.1, 0.0, 0.01, 0.25, 1.0, 1.3})
    for (double seconds : {1e-4, 3600.0}) {
      const SerialFraction fit = fit_amdahl(amdahl_times(s, seconds, {1, 2, 4, 8}, [] { return 0.0; }));
      expect_value(
          "the fit's value", fit.value, s,
          fmt::format("times that follow Amdahl exactly, with T(1) = {} s: the fit must return s itself, in any "
                      "unit of time, and not clipped to [0, 1]",
                      seconds),
          1e-9);
      expect_value("the width of the interval", fit.high - fit.low, 0, "without noise the interval has no width", 1e-6);
    }
}

/// The contract's fit worked out otherwise: the normal equations of A/p + B·(1 − 1/p), each divided by its time, and
/// the error of s = B/A to first order.
struct ByHand {
  double s = 0, error = 0, freedom = 0;

  explicit ByHand(const std::vector<Measurement>& measurements)
      : freedom(static_cast<double>(measurements.size()) - 2) {
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0, squares = 0;
    for (const Measurement& m : measurements) {
      const double u = 1 / (m.ranks * m.seconds), v = (1 - 1.0 / m.ranks) / m.seconds;
      uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
    }
    const double determinant = uu * vv - uv * uv, a = (vv * u1 - uv * v1) / determinant;
    s = (uu * v1 - uv * u1) / determinant / a;
    for (const Measurement& m : measurements)
      squares += std::pow(a * (1.0 / m.ranks + s * (1 - 1.0 / m.ranks)) / m.seconds - 1, 2);
    error = std::sqrt(squares / freedom / determinant * (uu + 2 * s * uv + s * s * vv)) / a;
  }
};

/// Student's t for 95 %, two-sided, as tables print it.
double printed_t95(double freedom) {
  constexpr double kTable[] = {12.7062, 4.30265, 3.18245, 2.77645, 2.57058,
                               2.44691, 2.36462, 2.30600, 2.26216, 2.22814};
  return kTable[static_cast<int>(freedom) - 1];
}

TEST(Lab21_10, TheFitIsThatOfTheContractOnAnyTimes) {
  for (int seed = 1; seed <= 40; ++seed) {
    Noise noise(seed, 0.2), at_random(1000 + seed, 1);
    std::vector<int> ranks{1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256};
    ranks.resize(3 + static_cast<std::size_t>(seed) % 10);
    const std::vector<Measurement> times =
        amdahl_times(0.45 + 0.4 * at_random(), 0.01 * seed, ranks, [&] { return noise(); });
    const SerialFraction fit = fit_amdahl(times);
    const ByHand expected(times);
    const std::string where = fmt::format("{} times with 20% noise: ", times.size());
    expect_value("the fit's value", fit.value, expected.s,
                 where + "least squares over s and T(1), residuals relative to the measured times, weights 1/T²", 1e-9);
    const double half = printed_t95(expected.freedom) * expected.error;
    const std::string why =
        where + fmt::format(
                    "s ± Student's t of {} degrees of freedom ({:.5g}), two less than the number of times, times the "
                    "standard error of s, {:.5g}",
                    expected.freedom, printed_t95(expected.freedom), expected.error);
    expect_value("the interval's lower end", fit.low, expected.s - half, why, 1e-5);
    expect_value("the interval's upper end", fit.high, expected.s + half, why, 1e-5);
    if (HasFailure()) return;
  }
}

TEST(Lab21_10, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  constexpr int kExperiments = 400;
  constexpr double kTruth = 0.05;
  int held = 0;
  for (int seed = 1; seed <= kExperiments; ++seed) {
    const SerialFraction fit = fit_amdahl(amdahl_times(kTruth, 2.5, {1, 2, 4, 8, 16, 32}, Noise(seed, 0.03)));
    held += fit.low <= kTruth && kTruth <= fit.high;
  }
  expect_that(
      held >= 0.91 * kExperiments && held <= 0.99 * kExperiments,
      fmt::format("the interval holds the true fraction in {} of {} experiments, expected 95 of 100: half of it "
                  "is Student's t times the standard error of s",
                  held, kExperiments));
}

/// Expects that `call` is refused with a sentence that has `part`.
void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected a refusal that mentions \"" << part << "\"";
  } catch (const Error& error) {
    expect_that(error.verdict() == Verdict::usage && std::string(error.what()).find(part) != std::string::npos,
                fmt::format("refused with \"{}\", expected a USAGE error that says \"{}\"", error.what(), part));
  }
}

TEST(Lab21_10, NonsenseIsRefused) {
  karp_flatt(1.5, 2);  // so that this test begins where the others do
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  expect_refused([] { speedup(1, 0); }, "0 is not a time");
  expect_refused([] { speedup(-1, 1); }, "-1 is not a time");
  expect_refused([=] { efficiency(nan, 1, 2); }, "nan is not a time");
  expect_refused([=] { weak_efficiency(1, infinity); }, "inf is not a time");
  expect_refused([] { efficiency(1, 1, 0); }, "0 ranks");
  expect_refused([] { amdahl_speedup(1.5, 2); }, "serial fraction 1.5");
  expect_refused([] { amdahl_speedup(0.5, -3); }, "-3 ranks");
  expect_refused([] { gustafson_speedup(-0.1, 2); }, "serial fraction -0.1");
  expect_refused([] { karp_flatt(1, 1); }, "1 ranks: at least 2");
  expect_refused([] { karp_flatt(0, 2); }, "0 is not a speedup");
  expect_refused([] { fit_amdahl({}); }, "there are 0");
  expect_refused([] { fit_amdahl({{1, 1.0}, {2, 0.6}}); }, "there are 2");
  expect_refused([] { fit_amdahl({{2, 1.0}, {2, 1.1}, {2, 0.9}}); }, "3 at 1");
  expect_refused([] { fit_amdahl({{1, 1.0}, {2, -0.6}, {4, 0.3}}); }, "-0.6 is not a time");
}

}  // namespace
}  // namespace lockstep::week21::scaling_laws_test
