// Tests of exercise 21.10: scaling laws.
#include "labs/week21_data_parallel/scaling_laws.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "common/error.hpp"

namespace lockstep::week21 {
namespace {

constexpr int kRanks[] = {1, 2, 3, 4, 8, 16, 64, 1024};

TEST(Lab21_10, SpeedupAndEfficiency) {
  EXPECT_DOUBLE_EQ(speedup(12, 4), 3) << "12 s on one rank and 4 s on many: 3 times faster";
  EXPECT_DOUBLE_EQ(efficiency(12, 4, 4), 0.75) << "a speedup of 3 on 4 ranks: each rank is worth 3/4 of one";
  EXPECT_DOUBLE_EQ(efficiency(12, 12, 1), 1) << "one rank is as good as itself";
  EXPECT_DOUBLE_EQ(weak_efficiency(12, 15), 0.8) << "p times the work in 15 s instead of 12 s: 12/15";
  EXPECT_NEAR(karp_flatt(speedup(12, 4), 4), 1.0 / 9, 1e-12)
      << "of 12 s 4/3 are serial, since 4/3 + (32/3)/4 = 4: Karp–Flatt must trace back to s = 1/9. (1 / ranks of an "
         "int "
         "is 0 in C++)";
}

TEST(Lab21_10, Amdahl) {
  for (int p : kRanks) {
    EXPECT_DOUBLE_EQ(amdahl_speedup(0, p), p) << "s = 0: without a serial part, " << p << " ranks are " << p
                                              << " times faster. Is s the serial fraction, not the parallel one?";
    EXPECT_DOUBLE_EQ(amdahl_speedup(1, p), 1) << "where all is serial, more ranks change nothing";
    EXPECT_LT(amdahl_speedup(0.05, p), 20) << "a serial part of 5 % limits the speedup to 1/s = 20";
  }
  EXPECT_NEAR(amdahl_speedup(0.05, 8), 5.925925925925926, 1e-12) << "s = 5 % on 8 ranks: 1/(0.05 + 0.95/8)";
  EXPECT_NEAR(karp_flatt(5.925925925925926, 8), 0.05, 1e-12) << "and back";
}

TEST(Lab21_10, Gustafson) {
  for (int p : kRanks) {
    EXPECT_DOUBLE_EQ(gustafson_speedup(0, p), p) << "without a serial part the speedup is p";
    EXPECT_DOUBLE_EQ(gustafson_speedup(1, p), 1) << "where all is serial, more ranks change nothing";
    EXPECT_GE(gustafson_speedup(0.05, p), amdahl_speedup(0.05, p)) << "a problem that grows is easier to speed up";
  }
  EXPECT_NEAR(gustafson_speedup(0.05, 8), 7.65, 1e-12)
      << "s = 5 % on 8 ranks: the serial part once, the parallel part 8 times: 0.05 + 0.95·8";
  EXPECT_NEAR(karp_flatt(7.65, 8), 0.05 / 7.65, 1e-12)
      << "s is a fraction of the time on p ranks; of one rank's, S times as long, the serial part is s/S";
}

TEST(Lab21_10, KarpFlattIsAmdahlSolvedForTheSerialFraction) {
  for (int p : {2, 3, 4, 8, 16, 64, 1024})
    for (double s : {0.0, 0.01, 0.1, 0.5, 1.0})
      EXPECT_NEAR(karp_flatt(amdahl_speedup(s, p), p), s, 1e-12)
          << "Amdahl with s = " << s << " on " << p << " ranks gives a speedup that Karp–Flatt must trace back to s";
  EXPECT_LT(karp_flatt(4.4, 4), 0) << "a speedup above p has no serial fraction: the metric is negative";
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
  for (double s : {0.0, 0.01, 0.25, 1.0})
    for (double seconds : {1e-4, 3600.0}) {
      const SerialFraction fit = fit_amdahl(amdahl_times(s, seconds, {1, 2, 4, 8}, [] { return 0.0; }));
      EXPECT_NEAR(fit.value, s, 1e-9) << "times that follow Amdahl exactly, T(1) = " << seconds
                                      << " s: the fit must return s itself, in no unit of time";
      EXPECT_LT(fit.high - fit.low, 1e-6) << "without noise there is nothing to doubt";
    }
}

TEST(Lab21_10, TheFitRecoversAKnownFractionFromNoisyTimes) {
  constexpr int kExperiments = 400;
  constexpr double kTruth = 0.05;
  int held = 0;
  double width = 0, sum = 0;
  for (int seed = 1; seed <= kExperiments; ++seed) {
    const SerialFraction fit = fit_amdahl(amdahl_times(kTruth, 2.5, {1, 2, 4, 8, 16, 32}, Noise(seed, 0.03)));
    held += fit.low <= kTruth && kTruth <= fit.high;
    width += (fit.high - fit.low) / kExperiments;
    sum += fit.value / kExperiments;
  }
  EXPECT_NEAR(sum, kTruth, 5e-4) << "over many experiments with ±3 % noise the fits must average to the truth";
  EXPECT_GE(held, 0.91 * kExperiments) << "the interval holds the true fraction too rarely, in " << held << " of "
                                       << kExperiments
                                       << " experiments: half a 95 % interval is Student's t times the standard error "
                                          "of s, of fits with relative weights";
  EXPECT_LE(held, 0.99 * kExperiments)
      << "the interval holds the true fraction nearly always: it is too wide to say much";
  EXPECT_LT(width, 0.012) << "six measurements with 3 % noise know s better than that: are both fits weighted?";
}

TEST(Lab21_10, RepeatedMeasurementsNarrowTheInterval) {
  Noise noise(7, 0.03);
  const std::vector<int> once = {1, 2, 4, 8};
  std::vector<int> often;
  for (int i = 0; i < 16; ++i) often.insert(often.end(), once.begin(), once.end());
  const SerialFraction few = fit_amdahl(amdahl_times(0.1, 1, once, std::ref(noise)));
  const SerialFraction many = fit_amdahl(amdahl_times(0.1, 1, often, std::ref(noise)));
  EXPECT_LT(many.high - many.low, 0.5 * (few.high - few.low)) << "16 times the measurements, 4 times the certainty";
  EXPECT_NEAR(many.value, 0.1, 0.01);
}

/// Expects that `call` is refused with a sentence that has `part`.
void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected a refusal that mentions \"" << part << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(error.verdict(), Verdict::usage) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Lab21_10, NonsenseIsRefused) {
  EXPECT_GT(speedup(1, 1) + amdahl_speedup(0.5, 2) + gustafson_speedup(0.5, 2) + karp_flatt(1.5, 2), 0);
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
}  // namespace lockstep::week21
