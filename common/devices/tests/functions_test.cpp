// Elementary functions compared with the C library in double, over their whole range and at its ends; and Philox.
#include "common/devices/cpu/functions.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "common/devices/cpu/blas_kernels.hpp"
#include "common/devices/cpu/philox.hpp"
#include "common/devices/cpu/sgemm.hpp"
#include "common/error.hpp"

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

// Known output for counter 0 and key 0, from the test vectors of Random123.
TEST(Functions, PhiloxIsPhilox) {
  std::uint32_t bits[kPhiloxBlock];
  philox(bits, 0, 0);
  EXPECT_EQ(bits[0], 0x6627e8d5u);
  EXPECT_EQ(bits[kPhiloxLanes], 0xe169c58du);
  EXPECT_EQ(bits[2 * kPhiloxLanes], 0xbc57ac4cu);
  EXPECT_EQ(bits[3 * kPhiloxLanes], 0x9b00dbd8u);
}

// Processors that are not present, and the family that some OpenBLAS takes them for.
TEST(BlasKernels, FitTheProcessorsVectors) {
  // AMD Zen 5 with OpenBLAS 0.3.21, which does not know it.
  EXPECT_EQ(better_family("Haswell", Vectors::avx512), "SkylakeX");
  EXPECT_EQ(better_family("Zen", Vectors::avx512), "SkylakeX");
  // Unknown processors may be taken for ones without AVX.
  EXPECT_EQ(better_family("Prescott", Vectors::avx512), "SkylakeX");
  EXPECT_EQ(better_family("Prescott", Vectors::avx2), "Haswell");
  EXPECT_EQ(better_family("Nehalem", Vectors::sse), "");
  // A family that fits is kept, even an unknown one chosen by a newer OpenBLAS.
  for (const char* family : {"SkylakeX", "Cooperlake", "SapphireRapids", "GraniteRapids"})
    EXPECT_EQ(better_family(family, Vectors::avx512), "") << family;
  EXPECT_EQ(better_family("Zen", Vectors::avx2), "");
  EXPECT_EQ(better_family("Haswell", Vectors::avx2), "");
  // Kernels wider than the processor's vectors are never asked for.
  EXPECT_EQ(better_family("SkylakeX", Vectors::avx2), "");
}

// Within 100 MB, OpenBLAS would retry forever to map its buffer.
TEST(Blas, SaysWhatIsMissingWhereAddressSpaceIsShort) {
  if (!std::string(sgemm_name()).starts_with("OpenBLAS")) GTEST_SKIP() << "products are by " << sgemm_name();
  const auto in_a_hundred_megabytes = [] {
    const rlimit limit{100'000'000, 100'000'000};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    try {
      use_one_thread();
    } catch (const Error& e) {
      std::fputs(e.what(), stderr);
      _exit(2);
    }
    _exit(0);
  };
  EXPECT_EXIT(in_a_hundred_megabytes(), ::testing::ExitedWithCode(2), "160 MiB of address space.*ulimit -v unlimited");
}

// Run once more with OPENBLAS_CORETYPE=Haswell: the loaded OpenBLAS has taken those kernels, as if it knew no better.
TEST(BlasKernels, AreChosenAgainWhereOpenBlasTookOthers) {
  const char* taken = std::getenv("OPENBLAS_CORETYPE");
  if (!taken) GTEST_SKIP() << "OPENBLAS_CORETYPE does not say what OpenBLAS is to begin with";
  const std::string first = taken;
#ifdef __x86_64__
  const auto asked = [] {
    std::fputs(sgemm_name(), stderr);
    _exit(0);
  };
  if (__builtin_cpu_supports("avx512dq")) {
    EXPECT_EXIT(asked(), ::testing::ExitedWithCode(0), "by OPENBLAS_CORETYPE; this processor could use SkylakeX's");
  }
#endif
  unsetenv("OPENBLAS_CORETYPE");
  const std::string name = sgemm_name();
  if (name.find("kernels") == std::string::npos) GTEST_SKIP() << "no OpenBLAS with kernels to choose from: " << name;
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx512dq")) GTEST_SKIP() << "kernels for Haswell fit this processor";
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr) << "a child process would take it for the user's";
  EXPECT_NE(name.find("SkylakeX kernels (chosen in place of its " + first), std::string::npos) << name;
#endif
}

}  // namespace
}  // namespace lockstep::cpu
