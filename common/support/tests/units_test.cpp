// Sizes and times as people write and read them.
#include "common/support/text/units.hpp"

#include <gtest/gtest.h>

#include "common/error.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

TEST(Units, BytesAreParsed) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(parse_bytes(" 1.5 mib "), 1572864u);
  EXPECT_EQ(parse_bytes("10MB"), 10000000u);
  EXPECT_EQ(parse_bytes("64kB"), 64000u);
  EXPECT_EQ(parse_bytes("2TiB"), 2199023255552u);
  EXPECT_EQ(parse_bytes("12 B"), 12u);
}

TEST(Units, WhatIsNoSizeIsRefusedInOneSentence) {
  const auto complaint = [](const char* text) { return refusal([&] { parse_bytes(text); }); };
  EXPECT_EQ(complaint("64k"), "\"64k\" is not a size: write KiB for powers of 1024 or KB for powers of 1000");
  EXPECT_NE(complaint("64KiX").find("unknown unit \"KiX\""), std::string::npos);
  EXPECT_NE(complaint("-1").find("negative"), std::string::npos);
  EXPECT_NE(complaint("").find("empty"), std::string::npos);
  EXPECT_NE(complaint("many").find("does not begin with a number"), std::string::npos);
  EXPECT_NE(complaint("nan").find("is not a size"), std::string::npos);
  EXPECT_NE(complaint("inf").find("is not a size"), std::string::npos);
  EXPECT_NE(complaint("1.3").find("whole"), std::string::npos);
  EXPECT_NE(complaint("99999999TiB").find("more than"), std::string::npos);
  EXPECT_NE(complaint("1e3").find("unknown unit"), std::string::npos);
}

TEST(Units, ListsAndRangesOfSizes) {
  EXPECT_EQ(parse_byte_sizes("1KiB"), (std::vector<std::uint64_t>{1024}));
  EXPECT_EQ(parse_byte_sizes("1KiB, 3,2MiB"), (std::vector<std::uint64_t>{1024, 3, 2097152}));
  EXPECT_EQ(parse_byte_sizes("1KiB:5KiB"), (std::vector<std::uint64_t>{1024, 2048, 4096}));
  EXPECT_THROW(parse_byte_sizes("2KiB:1KiB"), Error);
  EXPECT_THROW(parse_byte_sizes("0:1KiB"), Error);
  EXPECT_THROW(parse_byte_sizes("1KiB,"), Error);
}

TEST(Units, BytesAreWritten) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(4097), "4097 B");
  EXPECT_EQ(format_bytes(4096), "4 KiB");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1331691), "1.27 MiB");
  EXPECT_EQ(format_bytes(1048575), "1.00 MiB");
  EXPECT_EQ(format_bytes(1073741824.0 * 80), "80 GiB");
  // In the typed form if it has up to three digits.
  for (const char* typed : {"1 MB", "25 MB", "1.5 MB", "100 kB", "16 kB", "7 GB", "2 TB"})
    EXPECT_EQ(format_bytes(static_cast<double>(parse_bytes(typed))), typed);
  EXPECT_EQ(format_bytes(1234000), "1.18 MiB");
}

TEST(Units, TimesAndBandwidthsAreWritten) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(1.234e-6), "1.23 µs");
  EXPECT_EQ(format_seconds(999.6e-9), "1.00 µs");
  EXPECT_EQ(format_seconds(0.0456), "45.6 ms");
  EXPECT_EQ(format_seconds(7.89), "7.89 s");
  EXPECT_EQ(format_seconds(740), "12.3 min");
  EXPECT_EQ(format_seconds(5e-10), "0.50 ns");
  EXPECT_EQ(format_bandwidth(235e9), "235 GB/s");
  EXPECT_EQ(format_bandwidth(1.18e9), "1.18 GB/s");
}

TEST(Units, ParametersAreWritten) {
  EXPECT_EQ(format_parameters(12816), "12816");
  EXPECT_EQ(format_parameters(999'999), "999999");
  EXPECT_EQ(format_parameters(1e6), "1 million");
  EXPECT_EQ(format_parameters(124'439'808), "124.4 million");
  EXPECT_EQ(format_parameters(999.96e6), "1 billion");
  EXPECT_EQ(format_parameters(8'030'261'248), "8.03 billion");
  EXPECT_EQ(format_parameters(1008e9), "1008 billion");
}

}  // namespace
}  // namespace lockstep
