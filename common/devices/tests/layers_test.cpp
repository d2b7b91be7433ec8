// Layer norm and attention compared with their formulas in double: forward, backward, and the formula of the backward
// compared with finite differences of the forward.
#include <numeric>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

double dot(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// The formulas of the backward passes ---------------------------------------------------------------------------------
// Central differences with a step of 1e-5 are accurate to about 1e-10 times the third derivative, plus 1e-11 of
// rounding.

TEST(Reference, LayerNormGradients) {
  const Values x = random_values(3 * 5, 1), weight = random_values(5, 2), bias = random_values(5, 3);
  const Values dy = random_values(3 * 5, 4);
  const auto gradients = reference::layer_norm_backward(dy, x, weight);
  const auto of_x = [&](const Values& v) { return dot(dy, reference::layer_norm(v, weight, bias).y); };
  const auto of_weight = [&](const Values& v) { return dot(dy, reference::layer_norm(x, v, bias).y); };
  const auto of_bias = [&](const Values& v) { return dot(dy, reference::layer_norm(x, weight, v).y); };
  expect_all_near(gradients.dx, finite_differences(x, of_x), 1e-7);
  expect_all_near(gradients.dweight, finite_differences(weight, of_weight), 1e-7);
  expect_all_near(gradients.dbias, finite_differences(bias, of_bias), 1e-7);
}

TEST(Reference, AttentionGradients) {
  const AttentionShape shape{2, 5, 2, 3};
  const Values qkv = random_values(2 * 5 * 3 * 6, 1), dy = random_values(2 * 5 * 6, 2);
  const auto f = [&](const Values& v) { return dot(dy, reference::attention(v, shape).y); };
  expect_all_near(reference::attention_backward(dy, qkv, shape), finite_differences(qkv, f), 1e-7);
}

// The device ----------------------------------------------------------------------------------------------------------

constexpr std::array<std::size_t, 2> kRowsAndColumns[] = {{0, 4},    {1, 1},    {1, 3},    {2, 64},  {7, 33},
                                                          {70, 129}, {300, 48}, {3, 4100}, {2, 8205}};

TEST(LayerNorm, Forward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, columns] : kRowsAndColumns) {
      Slice x = bench.normal(rows * columns, dtype, 3), y = bench.poisoned(rows * columns, dtype);
      Slice weight = bench.normal(columns, dtype), bias = bench.normal(columns, dtype);
      Slice statistics = bench.poisoned(2 * rows);
      layer_norm(bench.me, y, statistics, x, weight, bias);
      const auto exact = reference::layer_norm(bench.read(x), bench.read(weight), bench.read(bias));
      // The mean is a sum of `columns` numbers in at least 16 lanes, and so is the deviation; 6 more roundings. A
      // difference from the mean is as accurate as numbers as large as x are, and is divided by the deviation.
      const double roundings = static_cast<double>(columns) / 8 + 14;
      Values magnitude(rows * columns);
      const double size = 1 + largest(bench.read(x));
      for (std::size_t i = 0; i < magnitude.size(); ++i)
        magnitude[i] = size * exact.reciprocal_deviation[i / columns] * (1 + largest(bench.read(weight))) + 2;
      expect_near(bench.read(y), exact.y, dtype, roundings, magnitude, "y");
      const Values kept = bench.read(statistics);
      for (std::size_t n = 0; n < rows; ++n) {
        ASSERT_NEAR(kept[n], exact.mean[n], 1e-6 * size);
        ASSERT_NEAR(kept[rows + n], exact.reciprocal_deviation[n], 1e-5 * exact.reciprocal_deviation[n]);
      }
    }
}

TEST(LayerNorm, Backward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, columns] : kRowsAndColumns)
      for (Into into : {Into::overwrite, Into::accumulate}) {
        const std::size_t size = rows * columns;
        Slice x = bench.normal(size, dtype), dy = bench.normal(size, dtype), weight = bench.normal(columns, dtype);
        Slice y = bench.poisoned(size, dtype), statistics = bench.poisoned(2 * rows);
        Slice dx = into == Into::accumulate ? bench.normal(size, dtype) : bench.poisoned(size, dtype);
        Slice dweight = bench.normal(columns, dtype), dbias = bench.normal(columns, dtype);
        auto exact = reference::layer_norm_backward(bench.read(dy), bench.read(x), bench.read(weight));
        const auto norm = reference::layer_norm(bench.read(x), bench.read(weight), Values(columns));
        const auto plus = [](Values a, const Values& b) {
          for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
          return a;
        };
        if (into == Into::accumulate) exact.dx = plus(exact.dx, bench.read(dx));
        exact.dweight = plus(exact.dweight, bench.read(dweight));
        exact.dbias = plus(exact.dbias, bench.read(dbias));
        layer_norm(bench.me, y, statistics, x, weight, bench.normal(columns, dtype));
        layer_norm_backward(bench.me, dx, dweight, dbias, dy, x, weight, statistics, into);
        // Bound of the forward pass, with products of dy, weight and the normalised x. A row of equal numbers (columns
        // = 1) is divided by √ε, so the deviation counts.
        const double terms = (1 + largest(bench.read(dy))) * (1 + largest(bench.read(weight))) *
                             (1 + largest(bench.read(x))) * (2 + largest(norm.reciprocal_deviation));
        const double roundings = static_cast<double>(columns) / 8 + 30;
        expect_near(bench.read(dx), exact.dx, dtype, roundings, {terms * (1 + largest(norm.y))}, "dx");
        const double over_rows = 40 + static_cast<double>(rows);
        expect_near(bench.read(dweight), exact.dweight, dtype, over_rows, {terms * 4}, "dweight");
        expect_near(bench.read(dbias), exact.dbias, dtype, over_rows, {terms}, "dbias");
      }
}

// Shapes around the sizes that a device takes at once (60 queries; on GPUs 32 or, on tensor cores, 128 or 64 queries
// and 64 keys, heads padded to 64 or 128), one position, one element per head, and empty ones.
const AttentionShape kAttentions[] = {{1, 1, 1, 1},     {1, 1, 2, 200},  {2, 3, 1, 4},    {1, 7, 3, 5},
                                      {3, 60, 2, 8},    {1, 61, 1, 3},   {2, 130, 2, 7},  {0, 5, 2, 4},
                                      {2, 65, 2, 64},   {1, 300, 1, 64}, {1, 129, 2, 40}, {1, 128, 1, 16},
                                      {1, 150, 1, 128}, {1, 64, 2, 72},  {1, 40, 1, 136}};

/// Error of the weights of a sum, in roundings to fp32: on tensor cores, weights are rounded to dtype.
double of_weights(DType dtype) { return dtype == DType::f32 ? 1 : rounding(dtype) / rounding(DType::f32); }

TEST(Attention, ForwardAndBackward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const AttentionShape& shape : kAttentions) {
      const std::size_t size = shape.batch * shape.positions * shape.heads * shape.head_size;
      Slice qkv = bench.normal(3 * size, dtype), y = bench.poisoned(size, dtype), dy = bench.normal(size, dtype);
      Slice log_sums = bench.poisoned(shape.batch * shape.heads * shape.positions);
      Slice dqkv = bench.poisoned(3 * size, dtype);
      attention(bench.me, y, log_sums, qkv, shape);
      attention_backward(bench.me, dqkv, dy, y, qkv, log_sums, shape);
      const auto exact = reference::attention(bench.read(qkv), shape);
      const Values gradient = reference::attention_backward(bench.read(dy), bench.read(qkv), shape);
      // A score is a sum of d products, off by δ = (d + 4) roundings of |q||k|/√d; probabilities, and so y, are off by
      // 2δ of themselves.
      const double d = static_cast<double>(shape.head_size), t = static_cast<double>(shape.positions);
      const double v = largest(bench.read(qkv)), score = (d + 4) * v * v * std::sqrt(d);
      const double weight = of_weights(dtype);
      expect_near(bench.read(y), exact.y, dtype, 2 * score + t + 8 + weight, {v}, "y");
      expect_near(bench.read(log_sums), exact.log_sums, DType::f32, score + t + 4, {1 + std::log(t + 1)},
                  "log-sum-exp");
      // The stored y is rounded to dtype, and row · dy enters each gradient; the weights of dq and dk are rounded too,
      // twice. A row of probabilities sums to 1; a column, if scores are equal, to at most 1 + ln t.
      const double terms = largest(bench.read(dy)) * v * std::sqrt(d);
      const double from_16_bits = (dtype == DType::f32 ? 0 : 2 + 4 * (1 + std::log(t + 1))) * weight * std::sqrt(d);
      expect_near(bench.read(dqkv), gradient, dtype, 4 * score + 4 * d + 2 * t + 30 + from_16_bits, {terms * v},
                  "dqkv");
    }
}

// The same with materialised probabilities: stored values are rounded to dtype, and nothing else differs.
TEST(Attention, MaterialisedForwardAndBackward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const AttentionShape& shape : kAttentions) {
      const std::size_t t = shape.positions, heads = shape.batch * shape.heads, size = heads * t * shape.head_size;
      Slice qkv = bench.normal(3 * size, dtype), y = bench.poisoned(size, dtype), dy = bench.normal(size, dtype);
      Slice p = bench.poisoned(heads * t * t, dtype), dqkv = bench.poisoned(3 * size, dtype);
      attention_probabilities(bench.me, p, qkv, shape);
      attention_output(bench.me, y, p, qkv, shape);
      attention_probabilities_backward(bench.me, dqkv, dy, y, p, qkv, shape);
      const Values stored = bench.read(p);
      for (std::size_t row = 0; row < heads * t; ++row) {
        double sum = 0;
        for (std::size_t u = 0; u < t; ++u) {
          sum += stored[row * t + u];
          if (u > row % t) {
            ASSERT_EQ(stored[row * t + u], 0) << "above the diagonal";
          }
        }
        // t probabilities of at most 1, each rounded once.
        ASSERT_NEAR(sum, 1, 2 * static_cast<double>(t) * (rounding(dtype) + smallest(dtype)) + 1e-5);
      }
      // The bound above; a stored probability is off by one rounding, and a row of them sums to 1.
      const double d = static_cast<double>(shape.head_size), v = largest(bench.read(qkv));
      const double score = (d + 4) * v * v * std::sqrt(d), terms = largest(bench.read(dy)) * v * std::sqrt(d);
      const double stored_rounding = dtype == DType::f32 ? 1 : rounding(dtype) / rounding(DType::f32);
      const auto exact = reference::attention(bench.read(qkv), shape);
      const double many = 2 * score + static_cast<double>(t) + 8 + 2 * stored_rounding;
      expect_near(bench.read(y), exact.y, dtype, many, {v}, "y");
      expect_near(bench.read(dqkv), reference::attention_backward(bench.read(dy), bench.read(qkv), shape), dtype,
                  4 * many + 4 * d + 30 + 4 * stored_rounding * std::sqrt(d), {terms * v}, "dqkv");
    }
}

// The bounds above are for the worst case. On average, errors stay within a few roundings: of float and, for results
// and for weights on tensor cores, of dtype.
TEST(Attention, MeanErrorsAreSmall) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const AttentionShape& shape : {AttentionShape{2, 130, 2, 16}, {1, 200, 1, 64}, {1, 100, 1, 128}}) {
      const std::size_t rows = shape.batch * shape.positions * shape.heads, size = rows * shape.head_size;
      Slice qkv = bench.normal(3 * size, dtype), y = bench.poisoned(size, dtype), dy = bench.normal(size, dtype);
      Slice dqkv = bench.poisoned(3 * size, dtype), log_sums = bench.poisoned(rows);
      attention(bench.me, y, log_sums, qkv, shape);
      attention_backward(bench.me, dqkv, dy, y, qkv, log_sums, shape);
      const auto relative_error = [](Values actual, const Values& exact) {
        for (std::size_t i = 0; i < exact.size(); ++i) actual[i] -= exact[i];
        return std::sqrt(dot(actual, actual) / dot(exact, exact));
      };
      const double bound = (dtype == DType::f32 ? 20 : 2) * rounding(dtype);
      EXPECT_LT(relative_error(bench.read(y), reference::attention(bench.read(qkv), shape).y), bound);
      EXPECT_LT(relative_error(bench.read(dqkv), reference::attention_backward(bench.read(dy), bench.read(qkv), shape)),
                bound);
    }
}

// A part of a larger slice may begin at any element; GPUs use another path for unaligned rows.
TEST(Attention, AtAnyAddress) {
  Bench bench(2);
  const AttentionShape shape{1, 70, 2, 16};
  const std::size_t size = 70 * 2 * 16;
  for (DType dtype : kFloating) {
    const Slice large = bench.normal(3 * size + 1, dtype), outer = bench.poisoned(size + 3, dtype);
    Slice qkv = large.cut(1, 3 * size), y = outer.cut(3, size), log_sums = bench.poisoned(140);
    attention(bench.me, y, log_sums, qkv, shape);
    const auto exact = reference::attention(bench.read(qkv), shape);
    const double v = largest(bench.read(qkv));
    expect_near(bench.read(y), exact.y, dtype, 2 * 20 * v * v * 4 + 78 + of_weights(dtype), {v}, "y");
    Slice dqkv = bench.poisoned(3 * size + 1, dtype).cut(1, 3 * size), dy = bench.normal(size, dtype);
    attention_backward(bench.me, dqkv, dy, y, qkv, log_sums, shape);
    const Values gradient = reference::attention_backward(bench.read(dy), bench.read(qkv), shape);
    Values error = bench.read(dqkv);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] -= gradient[i];
    EXPECT_LT(std::sqrt(dot(error, error) / dot(gradient, gradient)), 20 * rounding(dtype));
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Bench bench;
  const AttentionShape shape{1, 9, 1, 8};
  for (DType dtype : kFloating) {
    Slice qkv = bench.normal(9 * 24, dtype, 30), y = bench.poisoned(9 * 8, dtype), log_sums = bench.poisoned(9);
    attention(bench.me, y, log_sums, qkv, shape);
    const auto exact = reference::attention(bench.read(qkv), shape);
    // Scores are in the thousands, accurate to 2⁻²⁴ of that; a weight and the result are rounded to dtype.
    const double bound = 0.05 + 2 * rounding(dtype) * largest(bench.read(qkv));
    for (std::size_t i = 0; i < 72; ++i) ASSERT_NEAR(bench.read(y)[i], exact.y[i], bound);
  }
}

}  // namespace
}  // namespace lockstep::testing
