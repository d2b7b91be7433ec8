// Compressed gradients: selection of the largest elements, the error left for the next step, and rounding that is
// unbiased.
#include <limits>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/serial_backend.hpp"
#include "common/runtime/convert.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

constexpr std::size_t kSizes[] = {1, 2, 7, 8, 9, 255, 2047, 2048, 2049, 33000};

/// Indices of the k largest magnitudes, ascending; ties go to the lowest index.
std::vector<std::int32_t> largest_indices(const Values& x, std::size_t k) {
  std::vector<std::int32_t> order(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto size = [&](std::int32_t i) {
    const double value = std::fabs(x[static_cast<std::size_t>(i)]);
    return std::pair(std::isnan(value), std::isnan(value) ? 0 : value);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return size(a) > size(b); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

void check_top_k(Bench& bench, const Slice& x, std::size_t k) {
  Slice values = bench.poisoned(k, x.dtype()), indices = bench.poisoned(k, DType::i32);
  top_k(bench.me, values, indices, x);
  const Values all = bench.read(x), found = bench.read(values);
  const auto expected = largest_indices(all, k);
  ASSERT_EQ(bench.read_bits<std::int32_t>(indices), expected) << k << " of " << x.size();
  for (std::size_t i = 0; i < k; ++i) {
    const double value = all[static_cast<std::size_t>(expected[i])];
    ASSERT_TRUE(found[i] == value || (std::isnan(found[i]) && std::isnan(value))) << i;
  }
}

TEST(TopK, TheLargestInOrder) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes) {
      Slice x = bench.normal(n, dtype);
      for (std::size_t k : {std::size_t{1}, n / 100 + 1, n / 2, n - 1, n})
        if (k >= 1) check_top_k(bench, x, k);
    }
}

// Few distinct magnitudes, with both signs: ties go to the lowest index.
TEST(TopK, TiesGoToTheFirst) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : {9, 300, 5000}) {
      std::vector<float> values(n);
      for (float& value : values) value = static_cast<float>(static_cast<int>(bench.generator() % 7) - 3);
      Slice x = bench.of(values, dtype), zeros = bench.constant(n, 0, dtype);
      for (std::size_t k : {std::size_t{1}, n / 3, n / 2 + 1, n}) {
        check_top_k(bench, x, k);
        check_top_k(bench, zeros, k);
      }
    }
}

TEST(TopK, WhatIsNoNumberIsLargest) {
  Bench bench;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (DType dtype : kFloating) {
    Slice x = bench.of({1, -kInfinity, 0, std::numeric_limits<float>::quiet_NaN(), -60000, 1e-7f}, dtype);
    for (std::size_t k = 1; k <= 6; ++k) check_top_k(bench, x, k);
  }
}

// Error feedback: elements that top_k took become 0, the rest are unchanged; the receiver gains exactly what was taken.
TEST(ScatterAdd, TakesWhatTopKFound) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes) {
      const std::size_t k = n / 10 + 1;
      Slice x = bench.normal(n, dtype), y = bench.constant(n, 1), values = bench.poisoned(k, dtype);
      Slice indices = bench.poisoned(k, DType::i32);
      const Values before = bench.read(x);
      Values left = before, gained(n, 1);
      top_k(bench.me, values, indices, x);
      scatter_add(bench.me, x, values, indices, -1);
      scatter_add(bench.me, y, values, indices, 0.5f);
      for (const std::int32_t index : bench.read_bits<std::int32_t>(indices)) {
        const auto i = static_cast<std::size_t>(index);
        left[i] = 0;
        gained[i] = static_cast<float>(1 + 0.5 * before[i]);
      }
      EXPECT_EQ(bench.read(x), left);
      EXPECT_EQ(bench.read(y), gained);
    }
}

struct Quantised {
  std::vector<std::int8_t> q;
  Values scales;
};
Quantised quantised(Bench& bench, const Slice& x, std::size_t block, Random key) {
  Slice q = bench.poisoned(x.size(), DType::i8), scales = bench.poisoned((x.size() + block - 1) / block);
  quantise(bench.me, q, scales, x, block, key);
  return {bench.read_bits<std::int8_t>(q), bench.read(scales)};
}

TEST(Quantise, RoundsToANeighbourByTheDraw) {
  Bench bench(2);
  const Random key{3, 1, 4, 15};
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes)
      for (std::size_t block : {1, 3, 64, 1000, 1024, 1 << 20}) {
        if (n / block > 5000) continue;
        Slice x = bench.normal(n, dtype), draws = bench.poisoned(n);
        random_uniform(bench.me, draws, key, 0, 1);
        const Values in = bench.read(x), draw = bench.read(draws);
        const Quantised result = quantised(bench, x, block, key);
        for (std::size_t b = 0; b < result.scales.size(); ++b) {
          double most = 0;
          for (std::size_t i = b * block; i < std::min(n, (b + 1) * block); ++i)
            most = std::max(most, std::fabs(in[i]));
          ASSERT_EQ(result.scales[b], static_cast<double>(static_cast<float>(most) / 127.0f)) << b;
        }
        for (std::size_t i = 0; i < n; ++i) {
          const auto value = static_cast<float>(in[i]) / static_cast<float>(result.scales[i / block]);
          const float whole = std::floor(value), up = draw[i] < static_cast<double>(value - whole) ? 1.0f : 0.0f;
          ASSERT_EQ(result.q[i], std::clamp(whole + up, -127.0f, 127.0f)) << i << " of " << n << ", block " << block;
        }
      }
}

// 4,096 copies of a number 0.3 of a step above an integer multiple: the mean is within five standard deviations.
TEST(Quantise, IsRightOnAverage) {
  Bench bench;
  constexpr std::size_t kCount = 4096;
  for (double fraction : {0.3, -0.3, 0.01, 0.5}) {
    std::vector<float> values(kCount + 1, static_cast<float>(5 + fraction));
    values[kCount] = 127;  // makes a step 1
    double sum = 0;
    const Quantised result = quantised(bench, bench.of(values), values.size(), {8});
    for (std::size_t i = 0; i < kCount; ++i) sum += result.q[i];
    const double deviation = std::sqrt(std::fabs(fraction) * (1 - std::fabs(fraction)) / kCount);
    EXPECT_NEAR(sum / kCount, 5 + fraction, 5 * deviation);
  }
}

TEST(Quantise, EveryShardingDrawsTheSame) {
  Bench bench(2);
  constexpr std::size_t kSize = 5000, kBlock = 100;
  Slice x = bench.normal(kSize, DType::bf16);
  const Quantised whole = quantised(bench, x, kBlock, {1, 2, 3, 7});
  for (std::size_t first = 0; first < kSize; first += 1300) {
    const std::size_t count = std::min<std::size_t>(1300, kSize - first);
    const Quantised part = quantised(bench, x.cut(first, count), kBlock, {1, 2, 3, 7 + first});
    EXPECT_TRUE(std::equal(part.q.begin(), part.q.end(), whole.q.begin() + static_cast<std::ptrdiff_t>(first)))
        << first;
  }
}

TEST(Quantise, ZerosAndWhatIsNoNumber) {
  Bench bench;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Quantised result = quantised(bench, bench.of({0, 0, 1, kInfinity, -2, 2, 1e-45f, 0}), 2, {});
  EXPECT_EQ(result.q, (std::vector<std::int8_t>{0, 0, 0, 0, -127, 127, 0, 0}));
  EXPECT_EQ(result.scales[0], 0);
  EXPECT_TRUE(std::isnan(result.scales[1]));
  EXPECT_EQ(result.scales[3], 0) << "too small for a scale";
  Slice y = bench.constant(4, 1), q = bench.poisoned(4, DType::i8), scales = bench.poisoned(2);
  quantise(bench.me, q, scales, bench.of({0, 0, 1, kInfinity}), 2, {});
  add_dequantised(bench.me, y, q, scales, 2);
  EXPECT_EQ(bench.read(y)[0], 1);
  EXPECT_TRUE(std::isnan(bench.read(y)[3])) << "an overflow stays visible";
}

// A product of three, an addition, and one rounding to y's type.
TEST(Quantise, AddDequantised) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes)
      for (std::size_t block : {1, 7, 64, 4096}) {
        if (n / block > 5000) continue;
        Slice x = bench.normal(n), y = bench.normal(n, dtype), q = bench.poisoned(n, DType::i8);
        Slice scales = bench.poisoned((n + block - 1) / block);
        quantise(bench.me, q, scales, x, block, {5});
        const auto bytes = bench.read_bits<std::int8_t>(q);
        const Values steps = bench.read(scales);
        Values exact = bench.read(y), magnitude(n);
        for (std::size_t i = 0; i < n; ++i) {
          const double gained = 0.25 * steps[i / block] * bytes[i];
          magnitude[i] = std::fabs(exact[i]) + std::fabs(gained);
          exact[i] += gained;
        }
        add_dequantised(bench.me, y, q, scales, block, 0.25f);
        expect_near(bench.read(y), exact, dtype, 3, magnitude, "add_dequantised");
      }
}

// Costs are those of a GPU: five reads for top_k, two for quantise; scatter_add touches only what it changes.
TEST(Compression, IsPriced) {
  Bench bench;
  Slice x = bench.constant(100, 1, DType::bf16), values = bench.poisoned(5, DType::bf16);
  Slice indices = bench.poisoned(5, DType::i32), y = bench.constant(100, 1);
  Slice q = bench.poisoned(100, DType::i8), scales = bench.poisoned(4);
  const auto costs = [&](const char* name, double flop, double bytes) {
    EXPECT_STREQ(bench.backend.last()->name, name);
    EXPECT_EQ(bench.backend.last()->flop, flop) << name;
    EXPECT_EQ(bench.backend.last()->bytes, bytes) << name;
  };
  top_k(bench.me, values, indices, x);
  costs("top_k", 500, 5 * 200 + 10 + 20);
  scatter_add(bench.me, y, values, indices);
  costs("scatter_add", 10, 10 + 20 + 2 * 20);
  quantise(bench.me, q, scales, x, 32, {});
  costs("quantise", 2500, 2 * 200 + 100 + 16);
  add_dequantised(bench.me, y, q, scales, 32);
  costs("add_dequantised", 200, 2 * 400 + 100 + 16);
}

TEST(Compression, RefusesWhatDoesNotFit) {
  Bench bench;
  const auto refuses = [](const auto& f, const char* words) {
    const std::string said = refusal(f);
    EXPECT_NE(said.find(words), std::string::npos) << said << "\nlacks " << words;
  };
  Rank me = bench.me;
  Slice x = bench.constant(10, 1), values = bench.constant(3, 1), indices = bench.integers({1, 2, 3});
  Slice q = bench.poisoned(10, DType::i8), scales = bench.constant(3, 1);
  refuses([&] { top_k(me, bench.constant(2, 1), indices, x); }, "indices has 3 elements, not 2");
  refuses([&] { top_k(me, values, values, x); }, "indices is fp32, not int32");
  refuses([&] { top_k(me, bench.constant(3, 1, DType::bf16), indices, x); }, "values is bf16, not fp32");
  refuses([&] { top_k(me, values, indices, bench.constant(2, 1)); }, "3 of 2 elements");
  refuses([&] { scatter_add(me, x, bench.constant(4, 1), indices); }, "indices has 3 elements, not 4");
  refuses([&] { scatter_add(me, x, x.cut(0, 3), indices); }, "overlap");
  refuses([&] { quantise(me, q, scales, x, 5, {}); }, "scales has 3 elements, not 2");
  refuses([&] { quantise(me, q, scales, x, 0, {}); }, "a block needs at least one element");
  refuses([&] { quantise(me, x, scales, x, 4, {}); }, "q is fp32, not int8");
  refuses([&] { add_dequantised(me, x, q, scales, 20); }, "scales has 3 elements, not 1");
}

}  // namespace
}  // namespace lockstep::testing
