// Kernels on the pretend GPU: right ones give what they should, and mistakes are found.
#include <gtest/gtest.h>

#include <vector>

#include "common/error.hpp"
#include "common/tests/pretend/examples.hpp"

namespace lockstep {

namespace {

TEST(Emulator, ABlockAddsWithShufflesAndSharedMemory) {
  constexpr int kCount = 1000, kBlocks = 4;
  std::vector<float> values(kCount), sums(kBlocks, -1);
  float all = 0;
  for (int i = 0; i < kCount; ++i) all += values[i] = static_cast<float>(i % 17);
  examples::block_sums(values.data(), kCount, sums.data(), kBlocks, nullptr);
  float found = 0;
  for (const float sum : sums) found += sum;
  EXPECT_EQ(found, all);
}

TEST(Emulator, AWarpMultipliesAsTensorCoresDo) {
  std::vector<__nv_bfloat16> a(16 * 16), b(16 * 8);
  for (int i = 0; i < 16 * 16; ++i) a[i] = __float2bfloat16_rn(static_cast<float>(i % 13 - 6));
  for (int i = 0; i < 16 * 8; ++i) b[i] = __float2bfloat16_rn(static_cast<float>(i % 11 - 5));
  std::vector<float> c(16 * 8, -1);
  examples::tiny_product(a.data(), b.data(), c.data(), nullptr);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += __bfloat162float(a[row * 16 + k]) * __bfloat162float(b[k * 8 + column]);
      EXPECT_EQ(c[row * 8 + column], sum) << row << ' ' << column;
    }
  }
}

TEST(Emulator, DynamicSharedMemory) {
  constexpr int kCount = 1000;
  std::vector<float> x(kCount), y(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i);
  examples::reverse(x.data(), y.data(), kCount, nullptr);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(y[i], static_cast<float>(kCount - 1 - i));
}

TEST(Emulator, Atomics) {
  std::vector<int> counts(4);
  examples::count_modulo_4(counts.data(), 1001, nullptr);
  EXPECT_EQ(counts, (std::vector<int>{251, 250, 250, 250}));
}

}  // namespace

}  // namespace lockstep
