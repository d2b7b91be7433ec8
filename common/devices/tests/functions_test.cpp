// Elementary functions against the C library in double: over all of their range, and at its ends. And Philox.
#include "common/devices/cpu/functions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "common/devices/cpu/philox.hpp"

namespace lockstep::cpu {
namespace {

constexpr double kUlp = 0x1p-23;  // of 1, relative

TEST(Functions, Exponential) {
  for (int i = -873000; i <= 883000; i += 7) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exponential(x), exact, 2 * kUlp * exact) << x;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-88), 0);
  EXPECT_EQ(exponential(-kInfinity), 0);
  EXPECT_EQ(exponential(89), kInfinity);
  EXPECT_EQ(exponential(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
}

TEST(Functions, Logarithm) {
  for (int i = 1; i < 1 << 24; i += 11) {
    const float x = static_cast<float>(i) * 0x1p-24f;
    const double exact = std::log(static_cast<double>(x));
    ASSERT_NEAR(logarithm(x), exact, 2 * kUlp * std::fabs(exact)) << x;
  }
  EXPECT_EQ(logarithm(1), 0);
}

TEST(Functions, SineAndCosine) {
  for (int i = 0; i <= 1 << 20; ++i) {
    const float turns = static_cast<float>(i) * 0x1p-20f;
    const SineCosine value = sine_cosine(turns);
    const double angle = 2 * std::numbers::pi * static_cast<double>(turns);
    ASSERT_NEAR(value.sine, std::sin(angle), 1.3e-7) << turns;
    ASSERT_NEAR(value.cosine, std::cos(angle), 1.3e-7) << turns;
  }
}

// Known answer to counter 0 and key 0, from the test vectors of Random123.
TEST(Functions, PhiloxIsPhilox) {
  std::uint32_t bits[kPhiloxBlock];
  philox(bits, 0, 0);
  EXPECT_EQ(bits[0], 0x6627e8d5u);
  EXPECT_EQ(bits[kPhiloxLanes], 0xe169c58du);
  EXPECT_EQ(bits[2 * kPhiloxLanes], 0xbc57ac4cu);
  EXPECT_EQ(bits[3 * kPhiloxLanes], 0x9b00dbd8u);
}

}  // namespace
}  // namespace lockstep::cpu
