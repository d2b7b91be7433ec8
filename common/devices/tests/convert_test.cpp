// bf16 and fp16: all 65,536 values, and every boundary between two neighbours.
#include "common/runtime/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

/// The value of a small float of `exponent_bits` and `fraction_bits`, from its definition.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

struct Format {
  const char* name;
  int exponent_bits, fraction_bits;
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
};
const Format kFormats[] = {{"bf16", 8, 7, to_bf16, from_bf16}, {"fp16", 5, 10, to_f16, from_f16}};

TEST(Convert, EveryValueKeepsItsBits) {
  for (const Format& format : kFormats)
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double exact = value_of(bits, format.exponent_bits, format.fraction_bits);
      const float wide = format.widen(bits);
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(wide)) << format.name << " " << i;
        ASSERT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << format.name << " " << i;
      } else {
        ASSERT_EQ(static_cast<double>(wide), exact) << format.name << " " << i;
        ASSERT_EQ(format.narrow(wide), bits) << format.name << " " << i;
      }
    }
}

// Between neighbours: the midpoint rounds to the even one, floats next to it to the nearer one.
TEST(Convert, HalvesGoToEven) {
  for (const Format& format : kFormats) {
    const int largest = (((1 << format.exponent_bits) - 1) << format.fraction_bits) - 1;
    for (int i = 0; i < largest; ++i)
      for (const int sign : {0, 0x8000}) {
        const auto lower = static_cast<std::uint16_t>(i | sign), upper = static_cast<std::uint16_t>((i + 1) | sign);
        const auto middle = static_cast<float>((static_cast<double>(format.widen(lower)) + format.widen(upper)) / 2);
        ASSERT_EQ(format.narrow(middle), i % 2 == 0 ? lower : upper) << format.name << " " << middle;
        ASSERT_EQ(format.narrow(std::nextafter(middle, 0.0f)), lower) << format.name << " " << middle;
        const float away = sign ? -INFINITY : INFINITY;
        ASSERT_EQ(format.narrow(std::nextafter(middle, away)), upper) << format.name << " " << middle;
      }
  }
}

TEST(Convert, TooLargeBecomesInfinite) {
  EXPECT_EQ(to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(to_f16(INFINITY), 0x7c00);
  EXPECT_EQ(to_bf16(3.4e38f), 0x7f80);
  EXPECT_EQ(to_bf16(-INFINITY), 0xff80);
}

// The device's vector code is bit-identical to the function, for every value at every place in a slice.
TEST(Convert, TheDeviceAgrees) {
  Bench bench(2);
  std::vector<float> values(200003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) * 21473u);
  Slice x = bench.of(values);
  for (DType dtype : {DType::bf16, DType::f16}) {
    Slice y = bench.poisoned(values.size(), dtype);
    cast(bench.me, y, x);
    const auto bits = bench.read_bits<std::uint16_t>(y);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(bits[i], dtype == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i])) << values[i];
  }
}

}  // namespace
}  // namespace lockstep::testing
