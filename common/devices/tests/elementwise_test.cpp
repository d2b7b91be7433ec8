// fill, copy, cast, add, scale, sums, overflow, clipping: around tiles and chunks, and for sizes 0 and 1.
#include <limits>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"
#include "common/runtime/convert.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

// Around a tile (1,024), a chunk (32,768), and well beyond.
constexpr std::size_t kLengths[] = {0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 32768, 32771, 100003};

// Expected elements: one operation in double on elements of x, rounded once, so comparisons are exact.
template <class F>
Values exactly(const Values& x, DType dtype, const F& f) {
  Values result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<float>(f(x[i], i));
    result[i] = dtype == DType::f32    ? value
                : dtype == DType::bf16 ? from_bf16(to_bf16(value))
                                       : from_f16(to_f16(value));
  }
  return result;
}

TEST(Elementwise, FillAndCopy) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.poisoned(n + 2, dtype), y = bench.poisoned(n, dtype);
      fill(bench.me, x, 7);
      fill(bench.me, x.cut(1, n), -1.5f);
      copy(bench.me, y, x.cut(1, n));
      EXPECT_EQ(bench.read(y), Values(n, -1.5)) << n;
      EXPECT_EQ(bench.read(x).front(), 7);
      EXPECT_EQ(bench.read(x).back(), 7);
    }
  Slice i = bench.integers({1, 2, 3});
  fill(bench.me, i, -4);
  EXPECT_EQ(bench.read(i), Values(3, -4));
}

TEST(Elementwise, CastRoundsToNearestEven) {
  Bench bench(2);
  for (DType from : kFloating)
    for (DType to : kFloating)
      for (std::size_t n : kLengths) {
        Slice x = bench.normal(n, from), y = bench.poisoned(n, to);
        cast(bench.me, y, x);
        EXPECT_EQ(bench.read(y), exactly(bench.read(x), to, [](double v, std::size_t) { return v; }));
      }
}

TEST(Elementwise, AddIsOneRounding) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype), y = bench.normal(n, dtype), z = bench.poisoned(n, dtype);
      const Values b = bench.read(y);
      const Values sum = exactly(bench.read(x), dtype, [&](double v, std::size_t i) { return v + b[i]; });
      add(bench.me, z, x, y);
      EXPECT_EQ(bench.read(z), sum);
      add(bench.me, x, y);
      EXPECT_EQ(bench.read(x), sum) << "in place";
    }
}

TEST(Elementwise, AddsIntegers) {
  Bench bench(2);
  for (std::size_t n : kLengths) {
    const std::vector<std::int32_t> a = bench.tokens(n, 1 << 30), b = bench.tokens(n, 1 << 30);
    Slice x = bench.integers(a), y = bench.integers(b);
    add(bench.me, x, y);
    const auto sum = bench.read_bits<std::int32_t>(x);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sum[i], a[i] + b[i]);
  }
}

TEST(Elementwise, Scale) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype), y = bench.poisoned(n, dtype), factor = bench.of({0.37f});
      const Values scaled = exactly(bench.read(x), dtype, [](double v, std::size_t) { return v * 0.37f; });
      copy(bench.me, y, x);
      scale(bench.me, x, 0.37f);
      scale(bench.me, y, factor);
      EXPECT_EQ(bench.read(x), scaled);
      EXPECT_EQ(bench.read(y), scaled);
    }
}

// Each chunk of 16,384 is summed in float in at most (16,384 / 16 + 16 + 4) dependent additions; chunks in double.
TEST(Elementwise, ScaleIfTheConditionHolds) {
  Bench bench(2);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype);
      const Values before = bench.read(x);
      scale_if(bench.me, x, 0.3f, bench.of({0}));
      EXPECT_EQ(bench.read(x), before);
      scale_if(bench.me, x, 0.3f, bench.of({2}));
      EXPECT_EQ(bench.read(x), exactly(before, dtype, [](double v, std::size_t) { return 0.3f * v; }));
    }
  Slice x = bench.of({kNan, 1});
  scale_if(bench.me, x, 0, bench.of({1}));
  EXPECT_EQ(bench.read(x), (Values{0, 0})) << "times 0 clears whatever was there";
}

TEST(Elementwise, AtLeast) {
  Bench bench;
  Slice flag = bench.poisoned(1);
  const auto of = [&](float x) {
    at_least(bench.me, flag, bench.of({x}), 2);
    return bench.read(flag)[0];
  };
  EXPECT_EQ(of(1.99f), 0);
  EXPECT_EQ(of(2), 1);
  EXPECT_EQ(of(7), 1);
  EXPECT_EQ(of(std::numeric_limits<float>::quiet_NaN()), 0);
  Slice x = bench.of({3});
  at_least(bench.me, x, x, 1);
  EXPECT_EQ(bench.read(x)[0], 1) << "in place";
}

TEST(Elementwise, SumsAccumulate) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype), sum = bench.of({3}), squares = bench.of({5});
      Values total{3}, magnitude{3}, total_squares{5};
      for (double value : bench.read(x)) {
        total[0] += value;
        magnitude[0] += std::fabs(value);
        total_squares[0] += value * value;
      }
      add_sum(bench.me, sum, x);
      add_squares(bench.me, squares, x);
      expect_near(bench.read(sum), total, DType::f32, 100, magnitude, "add_sum");
      expect_near(bench.read(squares), total_squares, DType::f32, 100, total_squares, "add_squares");
    }
}

TEST(Elementwise, ClipFactor) {
  Bench bench;
  Slice factor = bench.poisoned(1);
  for (float squares : {0.0f, 1.0f, 4.0f, 400.0f}) {
    clip_factor(bench.me, factor, bench.of({squares}), 2);
    const double exact = std::min(1.0, 2 / (std::sqrt(squares) + 1e-6));
    expect_near(bench.read(factor), {exact}, DType::f32, 3, {exact}, "clip_factor");
  }
  clip_factor(bench.me, factor, bench.of({std::numeric_limits<float>::quiet_NaN()}), 2);
  EXPECT_TRUE(std::isnan(bench.read(factor)[0]));
}

TEST(Elementwise, FindsOverflowWhereverItIs) {
  Bench bench(2);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      std::vector<float> values(n, dtype == DType::f16 ? 65504.0f : 3e38f);
      Slice flag = bench.of({0});
      find_overflow(bench.me, flag, bench.of(values, dtype));
      EXPECT_EQ(bench.read(flag)[0], 0) << n;
      for (std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        if (at >= n) continue;
        for (float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
          std::vector<float> spoiled = values;
          spoiled[at] = bad;
          fill(bench.me, flag, 0);
          find_overflow(bench.me, flag, bench.of(spoiled, dtype));
          ASSERT_EQ(bench.read(flag)[0], 1) << bad << " at " << at << " of " << n;
        }
      }
    }
  Slice flag = bench.of({1});
  find_overflow(bench.me, flag, bench.of({1, 2}));
  EXPECT_EQ(bench.read(flag)[0], 1) << "a flag stays up";
}

// GELU: about 12 roundings, including the exponential's 2 ulp; its derivative consists of terms up to 1.2 and x.
TEST(Elementwise, Gelu) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype, 3), y = bench.poisoned(n, dtype);
      const Values in = bench.read(x);
      Values exact(n), magnitude(n);
      for (std::size_t i = 0; i < n; ++i) {
        exact[i] = reference::gelu(in[i]);
        magnitude[i] =
            std::fabs(in[i]) * (1 + in[i] * in[i] * in[i] * in[i]) * std::exp(-in[i] * in[i] / 2) + std::fabs(exact[i]);
      }
      gelu(bench.me, y, x);
      expect_near(bench.read(y), exact, dtype, 12, magnitude, "gelu");
      gelu(bench.me, x, x);
      EXPECT_EQ(bench.read(x), bench.read(y)) << "in place";
    }
  EXPECT_EQ(bench.read(bench.of({0})), Values{0});
}

TEST(Elementwise, GeluAtTheEnds) {
  Bench bench;
  Slice x = bench.of({-1e30f, -100, -12, 12, 100, 1e30f}), y = bench.poisoned(6);
  gelu(bench.me, y, x);
  const Values out = bench.read(y);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(out[i], 0, 1e-8);
  EXPECT_EQ(Values(out.begin() + 3, out.end()), (Values{12, 100, 1e30f}));
  Slice dx = bench.poisoned(6), dy = bench.constant(6, 1);
  gelu_backward(bench.me, dx, dy, bench.of({-100, -30, -12, 12, 30, 100}));
  const Values slope = bench.read(dx);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(slope[i], 0, 1e-6);
  for (int i = 3; i < 6; ++i) EXPECT_NEAR(slope[i], 1, 1e-6);
}

TEST(Elementwise, GeluBackward) {
  for (double x : {-4.0, -1.0, -0.3, 0.0, 0.2, 1.0, 5.0})
    EXPECT_NEAR(reference::gelu_derivative(x), (reference::gelu(x + 1e-5) - reference::gelu(x - 1e-5)) / 2e-5, 1e-9);
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : kLengths) {
      Slice x = bench.normal(n, dtype, 2), dy = bench.normal(n, dtype), dx = bench.poisoned(n, dtype);
      const Values in = bench.read(x), gradient = bench.read(dy);
      Values exact(n), magnitude(n);
      for (std::size_t i = 0; i < n; ++i) {
        exact[i] = gradient[i] * reference::gelu_derivative(in[i]);
        magnitude[i] = std::fabs(gradient[i]) * (1 + in[i] * in[i]);
      }
      gelu_backward(bench.me, dx, dy, x);
      expect_near(bench.read(dx), exact, dtype, 16, magnitude, "gelu_backward");
      gelu_backward(bench.me, dy, dy, x);
      EXPECT_EQ(bench.read(dy), bench.read(dx)) << "in place";
    }
}

}  // namespace
}  // namespace lockstep::testing
