// Parts of Llama's block that GPT-2's lacks, compared with formulas in double: RMSNorm, SwiGLU, rotary positions, and
// heads that share keys and values.
#include <cmath>
#include <numeric>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

double dot_of(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// The formulas --------------------------------------------------------------------------------------------------------

Values exact_rms_norm(const Values& x, const Values& weight) {
  const std::size_t columns = weight.size();
  Values y(x.size());
  for (std::size_t n = 0; n < x.size() / columns; ++n) {
    double squares = 0;
    for (std::size_t i = 0; i < columns; ++i) squares += x[n * columns + i] * x[n * columns + i];
    const double root = std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (std::size_t i = 0; i < columns; ++i) y[n * columns + i] = x[n * columns + i] / root * weight[i];
  }
  return y;
}

Values exact_swiglu(const Values& x, std::size_t width) {
  Values y(x.size() / 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t at = i / width * 2 * width + i % width;
    y[i] = x[at] / (1 + std::exp(-x[at])) * x[at + width];
  }
  return y;
}

/// Rotates B × T × (h + 2 kv) × d; a pair is a complex number, which is multiplied by e^(iθ).
Values exact_turned(Values qkv, AttentionShape shape, double base, double sign) {
  const std::size_t d = shape.head_size, heads = shape.heads + shape.key_value_heads();
  const std::size_t width = (heads + shape.key_value_heads()) * d;
  for (std::size_t row = 0; row < shape.batch * shape.positions; ++row)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < d / 2; ++i) {
        double& a = qkv[row * width + head * d + i];
        double& b = qkv[row * width + head * d + i + d / 2];
        const double angle = sign * static_cast<double>(row % shape.positions) *
                             std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(d));
        const Values before{a, b};
        a = before[0] * std::cos(angle) - before[1] * std::sin(angle);
        b = before[0] * std::sin(angle) + before[1] * std::cos(angle);
      }
  return qkv;
}

AttentionShape spread(AttentionShape shape) { return {shape.batch, shape.positions, shape.heads, shape.head_size}; }

/// Calls f(element of B × T × 3 × h × d, element of qkv that it copies).
template <class F>
void for_copies(AttentionShape shape, const F& f) {
  const std::size_t d = shape.head_size, h = shape.heads, kv = shape.key_value_heads();
  for (std::size_t row = 0; row < shape.batch * shape.positions; ++row)
    for (std::size_t part = 0; part < 3; ++part)
      for (std::size_t head = 0; head < h; ++head)
        for (std::size_t i = 0; i < d; ++i) {
          const std::size_t own = part == 0 ? head : h + (part - 1) * kv + head / (h / kv);
          f((row * 3 * h + part * h + head) * d + i, (row * (h + 2 * kv) + own) * d + i);
        }
}
Values copied(const Values& qkv, AttentionShape shape) {
  Values whole(3 * shape.batch * shape.positions * shape.heads * shape.head_size);
  for_copies(shape, [&](std::size_t to, std::size_t from) { whole[to] = qkv[from]; });
  return whole;
}
Values added(const Values& whole, AttentionShape shape, std::size_t size) {
  Values qkv(size);
  for_copies(shape, [&](std::size_t from, std::size_t to) { qkv[to] += whole[from]; });
  return qkv;
}

// RMSNorm and SwiGLU --------------------------------------------------------------------------------------------------

constexpr std::array<std::size_t, 2> kRowsByColumns[] = {{0, 4},    {1, 1},    {1, 3},    {2, 64},  {7, 33},
                                                         {70, 129}, {300, 48}, {3, 4100}, {2, 8205}};

TEST(RmsNorm, Forward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, columns] : kRowsByColumns) {
      Slice x = bench.normal(rows * columns, dtype, 3), y = bench.poisoned(rows * columns, dtype);
      Slice weight = bench.normal(columns, dtype), statistics = bench.poisoned(rows);
      rms_norm(bench.me, y, statistics, x, weight);
      const Values exact = exact_rms_norm(bench.read(x), bench.read(weight));
      // A sum of `columns` squares in at least 16 lanes, halved by the root, and four more roundings.
      const double roundings = static_cast<double>(columns) / 16 + 8;
      expect_near(bench.read(y), exact, dtype, roundings, {std::max(1.0, largest(exact))}, "y");
      for (const double reciprocal : bench.read(statistics)) ASSERT_GT(reciprocal, 0);
    }
}

TEST(RmsNorm, Backward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, columns] : kRowsByColumns)
      for (Into into : {Into::overwrite, Into::accumulate}) {
        if (columns > 200 && dtype != DType::f32) continue;
        const std::size_t size = rows * columns;
        Slice x = bench.normal(size, dtype), dy = bench.normal(size, dtype), weight = bench.normal(columns, dtype);
        Slice y = bench.poisoned(size, dtype), statistics = bench.poisoned(rows),
              dweight = bench.normal(columns, dtype);
        Slice dx = into == Into::accumulate ? bench.normal(size, dtype) : bench.poisoned(size, dtype);
        const Values before = into == Into::accumulate ? bench.read(dx) : Values(size);
        const Values x_in = bench.read(x), dy_in = bench.read(dy), w = bench.read(weight);
        Values exact_dx = before, exact_dweight = bench.read(dweight);
        for (std::size_t n = 0; n < rows; ++n) {
          double squares = 0, along = 0;
          for (std::size_t i = n * columns; i < (n + 1) * columns; ++i) squares += x_in[i] * x_in[i];
          const double r = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
          for (std::size_t i = 0; i < columns; ++i) along += dy_in[n * columns + i] * w[i] * x_in[n * columns + i];
          for (std::size_t i = 0; i < columns; ++i) {
            const std::size_t at = n * columns + i;
            exact_dx[at] += r * dy_in[at] * w[i] - r * r * r * along * x_in[at] / static_cast<double>(columns);
            exact_dweight[i] += dy_in[at] * x_in[at] * r;
          }
        }
        rms_norm(bench.me, y, statistics, x, weight);
        rms_norm_backward(bench.me, dx, dweight, dy, x, weight, statistics, into);
        const Values reciprocals = bench.read(statistics);
        const double r = largest(reciprocals);
        const double terms = (1 + largest(dy_in)) * (1 + largest(w)) * (1 + r * largest(x_in)) * (1 + r);
        const double roundings = static_cast<double>(columns) / 8 + 30;
        expect_near(bench.read(dx), exact_dx, dtype, roundings, {terms * (1 + r * largest(x_in))}, "dx");
        expect_near(bench.read(dweight), exact_dweight, dtype, 40 + static_cast<double>(rows), {terms}, "dweight");
      }
}

// Checks the formula of Backward above against finite differences of the forward.
TEST(RmsNorm, BackwardIsTheForwardsGradient) {
  Bench bench;
  const Values x = random_values(3 * 5, 1), weight = random_values(5, 2), dy = random_values(3 * 5, 3);
  const auto floats = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
  Slice dx = bench.poisoned(15), dweight = bench.of(std::vector<float>(5)), statistics = bench.poisoned(3);
  Slice in = bench.of(floats(x)), w = bench.of(floats(weight)), y = bench.poisoned(15);
  rms_norm(bench.me, y, statistics, in, w);
  rms_norm_backward(bench.me, dx, dweight, bench.of(floats(dy)), in, w, statistics, Into::overwrite);
  const auto of_x = [&](const Values& v) { return dot_of(dy, exact_rms_norm(v, weight)); };
  const auto of_weight = [&](const Values& v) { return dot_of(dy, exact_rms_norm(x, v)); };
  expect_all_near(bench.read(dx), finite_differences(x, of_x), 1e-5);
  expect_all_near(bench.read(dweight), finite_differences(weight, of_weight), 1e-5);
}

TEST(SwiGlu, ForwardAndBackward) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, width] : kRowsByColumns) {
      Slice x = bench.normal(2 * rows * width, dtype, 2), y = bench.poisoned(rows * width, dtype);
      Slice dy = bench.normal(rows * width, dtype), dx = bench.poisoned(2 * rows * width, dtype);
      swiglu(bench.me, y, x, width);
      swiglu_backward(bench.me, dx, dy, x, width);
      const Values in = bench.read(x), gradient = bench.read(dy);
      expect_near(bench.read(y), exact_swiglu(in, width), dtype, 20, {1 + largest(in) * largest(in)}, "y");
      Values exact(in.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const std::size_t at = i / width * 2 * width + i % width;
        const double g = in[at], u = in[at + width], s = 1 / (1 + std::exp(-g));
        exact[at] = gradient[i] * u * (s + g * s * (1 - s));
        exact[at + width] = gradient[i] * g * s;
      }
      expect_near(bench.read(dx), exact, dtype, 40, {(1 + largest(in) * largest(in)) * (1 + largest(gradient))}, "dx");
    }
  // Checks that formula against finite differences of the forward.
  const Values x = random_values(2 * 2 * 3, 1), dy = random_values(2 * 3, 2);
  const Values differences = finite_differences(x, [&](const Values& v) { return dot_of(dy, exact_swiglu(v, 3)); });
  const auto floats = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
  Slice dx = bench.poisoned(12);
  swiglu_backward(bench.me, dx, bench.of(floats(dy)), bench.of(floats(x)), 3);
  expect_all_near(bench.read(dx), differences, 1e-5);
}

// Attention -----------------------------------------------------------------------------------------------------------

constexpr AttentionShape kGrouped[] = {{1, 1, 2, 4, 1},   {2, 7, 6, 4, 2},    {1, 61, 4, 6, 1},
                                       {2, 65, 4, 64, 2}, {1, 130, 8, 16, 4}, {0, 5, 4, 4, 2}};

std::size_t qkv_size(AttentionShape s) {
  return s.batch * s.positions * (s.heads + 2 * s.key_value_heads()) * s.head_size;
}

TEST(RotaryPositions, TurnAndTurnBack) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const AttentionShape& shape : {AttentionShape{2, 9, 3, 8}, {2, 7, 6, 4, 2}, {1, 300, 2, 128, 1}, {0, 4, 2, 2}})
      for (const float base : {10000.0f, 500000.0f, 500.0f}) {
        Slice qkv = bench.normal(qkv_size(shape), dtype);
        const Values before = bench.read(qkv);
        rotate_positions(bench.me, qkv, shape, base, Turn::forward);
        const Values turned = exact_turned(before, shape, base, 1);
        expect_near(bench.read(qkv), turned, dtype, 16, {2 * largest(before)}, "turned");
        rotate_positions(bench.me, qkv, shape, base, Turn::backward);
        expect_near(bench.read(qkv), before, dtype, 32 + 2 * rounding(dtype) / rounding(DType::f32),
                    {2 * largest(before)}, "turned back");
      }
}

/// q, and k next to v, rotated separately and one part of the sequence at a time, equal the whole rotated at once.
TEST(RotaryPositions, OfPartsAreThoseOfTheWhole) {
  Bench bench(2);
  constexpr std::size_t kHead = 6, kPositions = 11;
  for (DType dtype : kFloating)
    for (const std::size_t kv_heads : {1, 4}) {
      const AttentionShape shape{1, kPositions, 4, kHead, kv_heads};
      const std::size_t q_width = 4 * kHead, kv_width = 2 * kv_heads * kHead, width = q_width + kv_width;
      Slice whole = bench.normal(qkv_size(shape), dtype);
      const Values before = bench.read(whole);
      for (const Turn way : {Turn::forward, Turn::backward}) {
        Slice turned = bench.of({before.begin(), before.end()}, dtype);
        rotate_positions(bench.me, turned, shape, 500000, way);
        const Values expected = bench.read(turned);
        for (const auto& [first, end] : {std::pair<std::size_t, std::size_t>{0, 4}, {4, 5}, {5, 11}})
          for (const bool keys : {false, true}) {
            const std::size_t from = keys ? q_width : 0, count = keys ? kv_width : q_width;
            std::vector<float> part;
            Values of_whole;
            for (std::size_t t = first; t < end; ++t)
              for (std::size_t i = from; i < from + count; ++i) {
                part.push_back(static_cast<float>(before[t * width + i]));
                of_whole.push_back(expected[t * width + i]);
              }
            Slice x = bench.of(part, dtype);
            RotaryShape of{.batch = 1, .positions = end - first, .head_size = kHead, .first = first};
            of.turning = keys ? kv_heads : 4;
            of.staying = keys ? kv_heads : 0;
            rotate_positions(bench.me, x, of, 500000, way);
            ASSERT_EQ(bench.read(x), of_whole) << to_string(dtype) << (keys ? ": k and v" : ": q") << " from " << first;
          }
      }
    }
}

TEST(GroupedAttention, IsThatOfCopiedKeysAndValues) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const AttentionShape& shape : kGrouped) {
      const std::size_t rows = shape.batch * shape.positions * shape.heads, size = rows * shape.head_size;
      Slice qkv = bench.normal(qkv_size(shape), dtype), y = bench.poisoned(size, dtype), dy = bench.normal(size, dtype);
      Slice log_sums = bench.poisoned(rows), dqkv = bench.poisoned(qkv_size(shape), dtype);
      Slice p = bench.poisoned(rows * shape.positions, dtype), y_again = bench.poisoned(size, dtype);
      Slice dqkv_again = bench.poisoned(qkv_size(shape), dtype);
      attention(bench.me, y, log_sums, qkv, shape);
      attention_backward(bench.me, dqkv, dy, y, qkv, log_sums, shape);
      attention_probabilities(bench.me, p, qkv, shape);
      attention_output(bench.me, y_again, p, qkv, shape);
      attention_probabilities_backward(bench.me, dqkv_again, dy, y_again, p, qkv, shape);
      const Values whole = copied(bench.read(qkv), shape);
      const auto exact = reference::attention(whole, spread(shape));
      const Values gradient =
          added(reference::attention_backward(bench.read(dy), whole, spread(shape)), shape, qkv.size());
      const auto error = [&](const Slice& of, const Values& exactly) {
        Values off = bench.read(of);
        for (std::size_t i = 0; i < off.size(); ++i) off[i] -= exactly[i];
        return exactly.empty() ? 0 : std::sqrt(dot_of(off, off) / dot_of(exactly, exactly));
      };
      // A few roundings on average, as in Attention.MeanErrorsAreSmall; gradients of copies may be rounded before they
      // are added.
      const double bound = (dtype == DType::f32 ? 20 : 3) * rounding(dtype);
      EXPECT_LE(error(y, exact.y), bound) << to_string(dtype) << " " << shape.positions;
      EXPECT_LE(error(dqkv, gradient), bound) << to_string(dtype) << " " << shape.positions;
      EXPECT_LE(error(y_again, exact.y), bound) << to_string(dtype) << " " << shape.positions;
      EXPECT_LE(error(dqkv_again, gradient), bound) << to_string(dtype) << " " << shape.positions;
    }
}

}  // namespace
}  // namespace lockstep::testing
