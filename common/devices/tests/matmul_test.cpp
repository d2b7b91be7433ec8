// Matrix products in every transposition, storage and shape, sums of rows, and independence of the number of threads.
#include <fmt/format.h>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

struct Shape {
  std::size_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {1, 7, 3},   {5, 1, 2},    {3, 4, 0},    {0, 4, 3},
                             {4, 0, 3}, {17, 33, 9}, {65, 31, 70}, {128, 96, 1}, {130, 67, 257}};

Matrix operand(Bench& bench, std::size_t rows, std::size_t columns, bool transposed, DType dtype) {
  Slice x = bench.normal(rows * columns, dtype);
  return transposed ? matrix(x, columns, rows).t() : matrix(x, rows, columns);
}

void check_product(Bench& bench, Shape shape, bool a_transposed, bool b_transposed, DType dtype, Into into, bool bias) {
  const auto [m, n, k] = shape;
  const Matrix a = operand(bench, m, k, a_transposed, dtype), b = operand(bench, k, n, b_transposed, dtype);
  Slice c = into == Into::accumulate ? bench.normal(m * n, dtype) : bench.poisoned(m * n, dtype);
  Slice added = bias ? bench.normal(n, dtype) : Slice();
  reference::Product exact =
      reference::product(bench.read(a.slice), a_transposed, bench.read(b.slice), b_transposed, m, n, k);
  const Values before = bench.read(c), row = bench.read(added);
  for (std::size_t i = 0; i < m * n; ++i) {
    const double start = (into == Into::accumulate ? before[i] : 0) + (bias ? row[i % n] : 0);
    exact.value[i] += start;
    exact.magnitude[i] += std::fabs(start) + (bias ? std::fabs(row[i % n]) : 0);
  }
  matmul(bench.me, matrix(c, m, n), a, b, into, added);
  // At worst k products summed one after another, and the start.
  const std::string what =
      fmt::format("{} × {} × {}{}{}{}{}", m, k, n, a_transposed ? " aᵀ" : "", b_transposed ? " bᵀ" : "",
                  into == Into::accumulate ? " +=" : "", bias ? " bias" : "");
  expect_near(bench.read(c), exact.value, dtype, static_cast<double>(k) + 2, exact.magnitude, what.c_str());
}

TEST(Matmul, EveryShapeTranspositionAndStorage) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (bool a : {false, true})
        for (bool b : {false, true})
          for (Into into : {Into::overwrite, Into::accumulate})
            for (bool bias : {false, true}) check_product(bench, shape, a, b, dtype, into, bias);
}

TEST(Matmul, NothingSummedIsZero) {
  Bench bench;
  Slice c = bench.poisoned(6), empty = bench.poisoned(0);
  matmul(bench.me, matrix(c, 2, 3), matrix(empty, 2, 0), matrix(empty, 0, 3));
  EXPECT_EQ(bench.read(c), Values(6, 0));
}

TEST(Matmul, MixedStorage) {
  Bench bench;
  Slice a = bench.normal(20, DType::bf16), b = bench.normal(30, DType::f16), c = bench.poisoned(24);
  const auto exact = reference::product(bench.read(a), false, bench.read(b), false, 4, 6, 5);
  matmul(bench.me, matrix(c, 4, 6), matrix(a, 4, 5), matrix(b, 5, 6));
  expect_near(bench.read(c), exact.value, DType::f32, 7, exact.magnitude, "matmul");
}

// Parts of larger slices, at odd elements; and a bias of a type other than c's.
TEST(Matmul, AtAnyAddress) {
  Bench bench(2);
  const std::size_t m = 9, n = 7, k = 5;
  for (DType dtype : kFloating)
    for (DType of_bias : kFloating)
      for (DType of_c : {dtype, DType::f32}) {
        const Slice a = bench.normal(m * k + 1, dtype).cut(1, m * k), b = bench.normal(k * n + 3, dtype).cut(3, k * n);
        const Slice bias = bench.normal(n + 1, of_bias).cut(1, n), c = bench.poisoned(m * n + 1, of_c).cut(1, m * n);
        auto exact = reference::product(bench.read(a), false, bench.read(b), false, m, n, k);
        const Values row = bench.read(bias);
        for (std::size_t i = 0; i < m * n; ++i) {
          exact.value[i] += row[i % n];
          exact.magnitude[i] += 2 * std::fabs(row[i % n]);
        }
        matmul(bench.me, matrix(c, m, n), matrix(a, m, k), matrix(b, k, n), Into::overwrite, bias);
        expect_near(bench.read(c), exact.value, of_c, static_cast<double>(k) + 2, exact.magnitude, "matmul");
      }
}

// GELU is applied to the sum, or to the sum rounded to a 16-bit type; its slope is at most 1.13. For 16-bit types, a
// GPU may use the short tanh, accurate to 2⁻¹¹, so x/2 · tanh is accurate to x · 2⁻¹².
double roundings_of_gelu(DType dtype, std::size_t k) {
  const double sums = 1.13 * static_cast<double>(k + 2) + 16;
  return dtype == DType::f32 ? sums : sums + (1.13 * rounding(dtype) + 0x1p-12) / rounding(DType::f32);
}

void check_gelu(Bench& bench, Shape shape, bool a_transposed, bool b_transposed, DType dtype, bool bias) {
  const auto [m, n, k] = shape;
  const Matrix a = operand(bench, m, k, a_transposed, dtype), b = operand(bench, k, n, b_transposed, dtype);
  Slice x = bench.poisoned(m * n, dtype), y = bench.poisoned(m * n, dtype), dx = bench.poisoned(m * n, dtype);
  Slice added = bias ? bench.normal(n, dtype) : Slice();
  const auto product =
      reference::product(bench.read(a.slice), a_transposed, bench.read(b.slice), b_transposed, m, n, k);
  const Values row = bench.read(added);
  Values inner = product.value, magnitude = product.magnitude, outer(m * n), slope(m * n), steepness(m * n);
  for (std::size_t i = 0; i < m * n; ++i) {
    inner[i] += bias ? row[i % n] : 0;
    magnitude[i] += bias ? 2 * std::fabs(row[i % n]) : 0;
    outer[i] = reference::gelu(inner[i]);
  }
  matmul_gelu(bench.me, y, matrix(x, m, n), a, b, added);
  expect_near(bench.read(x), inner, dtype, static_cast<double>(k) + 2, magnitude, "x of matmul_gelu");
  expect_near(bench.read(y), outer, dtype, roundings_of_gelu(dtype, k), magnitude, "y of matmul_gelu");
  // The product is the gradient of y. It may be rounded before it is multiplied by a slope that consists of terms up to
  // 1.2 and x.
  const Values at = bench.read(x);
  for (std::size_t i = 0; i < m * n; ++i) {
    slope[i] = product.value[i] * reference::gelu_derivative(at[i]);
    steepness[i] = product.magnitude[i] * (1.2 + std::fabs(at[i]));
  }
  matmul_gelu_backward(bench.me, matrix(dx, m, n), a, b, x);
  expect_near(bench.read(dx), slope, dtype, roundings_of_gelu(dtype, k), steepness, "dx of matmul_gelu_backward");
}

TEST(Matmul, WithItsGeluAndBack) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const Shape& shape : kShapes)
      for (bool a : {false, true})
        for (bool b : {false, true})
          for (bool bias : {false, true}) check_gelu(bench, shape, a, b, dtype, bias);
}

TEST(Matmul, AddRows) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, columns] : {std::array<std::size_t, 2>{0, 3}, {1, 1}, {5, 7}, {33, 1025}, {2000, 48}}) {
      Slice x = bench.normal(rows * columns, dtype), sum = bench.normal(columns, dtype);
      const Values in = bench.read(x);
      Values exact = bench.read(sum), magnitude(columns);
      for (std::size_t i = 0; i < in.size(); ++i) {
        exact[i % columns] += in[i];
        magnitude[i % columns] += std::fabs(in[i]);
      }
      add_rows(bench.me, sum, matrix(x, rows, columns));
      // A chunk has at most 64 rows here, and there are at most 63 chunks.
      if (columns > 0) expect_near(bench.read(sum), exact, dtype, 128, magnitude, "add_rows");
    }
}

TEST(Matmul, ThreadsDoNotChangeBits) {
  Bench one(1), two(2), three(3);
  for (const Shape& shape : {Shape{512, 256, 384}, Shape{257, 511, 129}, Shape{200, 1000, 65}})
    for (bool a : {false, true})
      for (bool b : {false, true})
        for (DType dtype : kFloating) {
          const auto product = [&](Bench& bench) {
            bench.generator.seed(7);
            const Matrix left = operand(bench, shape.m, shape.k, a, dtype);
            const Matrix right = operand(bench, shape.k, shape.n, b, dtype);
            Slice c = bench.poisoned(shape.m * shape.n, dtype), bias = bench.normal(shape.n, dtype);
            matmul(bench.me, matrix(c, shape.m, shape.n), left, right, Into::overwrite, bias);
            return bench.read(c);
          };
          const Values expected = product(one);
          ASSERT_TRUE(product(two) == expected) << shape.m << " " << shape.n << " " << shape.k << " " << a << b;
          ASSERT_TRUE(product(three) == expected) << shape.m << " " << shape.n << " " << shape.k << " " << a << b;
        }
}

}  // namespace
}  // namespace lockstep::testing
