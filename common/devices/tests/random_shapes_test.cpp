// GPU kernels on shapes drawn at random, compared with the CPU: sums and functions of the C library differ by
// roundings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/cuda/stream.hpp"
#include "common/devices/tests/against_cpu.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

struct Shape {
  std::size_t rows, columns;
  DType dtype;
};

struct RandomShapes : AgainstCpu {
  static constexpr int kShapes = 24;

  /// Calls f(shape) for shapes of up to 80 × 700, a third of them with one row or column.
  template <class F>
  void for_shapes(const F& f) {
    std::mt19937 draw(17);
    for (int i = 0; i < kShapes; ++i) {
      Shape shape{1 + draw() % 80, 1 + draw() % 700, kFloating[draw() % 3]};
      if (i % 6 == 4) shape.rows = 1;
      if (i % 6 == 5) shape.columns = 1;
      SCOPED_TRACE(fmt::format("{} × {}, {}", shape.rows, shape.columns, to_string(shape.dtype)));
      f(shape);
    }
  }
  /// Both results were rounded to dtype, and both sums taken in float, of numbers as large as `magnitude`, in different
  /// orders.
  void expect_close(const Slice& of_gpu, const Slice& of_cpu, double roundings, double magnitude, const char* what) {
    const DType dtype = of_gpu.dtype();
    const Values b = cpu.read(of_cpu);
    const double again = dtype == DType::f32 ? 0 : rounding(dtype) / rounding(DType::f32);
    expect_near(gpu.read(of_gpu), b, dtype, 2 * roundings + again, {std::max(magnitude, largest(b))}, what);
  }
};

TEST_F(RandomShapes, Gelu) {
  for_shapes([&](Shape shape) {
    const std::size_t n = shape.rows * shape.columns;
    const auto [x, x_cpu] = normal(n, shape.dtype, 2);
    const auto [dy, dy_cpu] = normal(n, shape.dtype);
    Slice y = gpu.poisoned(n, shape.dtype), y_cpu = cpu.poisoned(n, shape.dtype);
    gelu(gpu.me, y, x);
    gelu(cpu.me, y_cpu, x_cpu);
    expect_close(y, y_cpu, 12, 10, "gelu");
    gelu_backward(gpu.me, y, dy, x);
    gelu_backward(cpu.me, y_cpu, dy_cpu, x_cpu);
    expect_close(y, y_cpu, 16, 10, "gelu_backward");
  });
}

/// `x` at an address for a GPU's widest accesses, or one element after it.
struct Placed {
  Bench& bench;
  bool aligned;
  Slice operator()(std::size_t n, DType dtype) const {
    const Slice room = bench.poisoned(n + 16, dtype);
    std::size_t first = 0;
    while (reinterpret_cast<std::uintptr_t>(room.cut(first, n).data()) % 16 != 0) ++first;
    return room.cut(first + (aligned ? 0 : 1), n);
  }
};

// Through the library's epilogue if rows, addresses and types allow it, otherwise by two kernels.
TEST_F(RandomShapes, MatmulWithItsGelu) {
  int shapes = 0;
  for_shapes([&](Shape shape) {
    if (++shapes % 2 == 0) shape.columns = (shape.columns + 7) / 8 * 8;
    const std::size_t m = shape.rows, n = shape.columns, k = 1 + gpu.generator() % 90, size = m * n;
    const auto [a, a_cpu] = normal(m * k, shape.dtype);
    const auto [b, b_cpu] = normal(k * n, shape.dtype);
    const auto [bias, bias_cpu] = normal(n, shape.dtype);
    const Placed place{gpu, shapes % 3 != 0};
    Slice x = place(size, shape.dtype), y = place(size, shape.dtype), dx = place(size, shape.dtype);
    Slice x_cpu = cpu.poisoned(size, shape.dtype), y_cpu = cpu.poisoned(size, shape.dtype);
    Slice dx_cpu = cpu.poisoned(size, shape.dtype);
    matmul_gelu(gpu.me, y, matrix(x, m, n), matrix(a, m, k), matrix(b, n, k).t(), bias);
    matmul_gelu(cpu.me, y_cpu, matrix(x_cpu, m, n), matrix(a_cpu, m, k), matrix(b_cpu, n, k).t(), bias_cpu);
    const double terms = static_cast<double>(k), large = largest(gpu.read(a)) * largest(gpu.read(b)) * terms + 10;
    // x is rounded before GELU here but not there, and a GPU's short tanh is accurate to 2⁻¹¹: two roundings of x.
    const double inner = shape.dtype == DType::f32 ? 0 : 2 * rounding(shape.dtype) / rounding(DType::f32);
    expect_close(x, x_cpu, terms + 2, large, "x");
    expect_close(y, y_cpu, 1.13 * (terms + 2) + 16 + inner, large, "y");
    matmul_gelu_backward(gpu.me, matrix(dx, m, n), matrix(a, m, k), matrix(b, n, k).t(), x);
    matmul_gelu_backward(cpu.me, matrix(dx_cpu, m, n), matrix(a_cpu, m, k), matrix(b_cpu, n, k).t(), x_cpu);
    // The slope's own slope is at most 0.8, so a rounding of x also counts as one.
    expect_close(dx, dx_cpu, 2 * (terms + 2) + 20 + inner, large * (1.2 + large), "dx");
  });
}

TEST_F(AgainstCpu, TheEpilogueIsTakenWhereTheLibraryHasIt) {
  const cuda::Stream stream;
  kernels::Workspace workspace(stream.get());
  const kernels::Queue queue{stream.get(), workspace, nullptr};
  cuda::Gemm gemm(stream.get(), false);
  const auto takes = [&](DType dtype, std::size_t n, std::size_t k, bool aligned, DType of_bias) {
    const std::size_t m = 24;
    const Slice a = normal(m * k, dtype).first, b = normal(k * n, dtype).first, bias = normal(n, of_bias).first;
    const Placed place{gpu, aligned};
    const Slice x = place(m * n, dtype), y = place(m * n, dtype);
    (void)gpu.read(y);  // its stream has computed them
    const bool forward = gemm.matmul_gelu(queue, y, matrix(x, m, n), matrix(a, m, k), matrix(b, k, n), bias);
    EXPECT_TRUE(!forward || gemm.matmul_gelu_backward(matrix(x, m, n), matrix(a, m, k), matrix(b, k, n), y));
    stream.synchronize();
    return forward;
  };
  for (DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_TRUE(takes(dtype, 64, 32, true, dtype)) << to_string(dtype);
    EXPECT_FALSE(takes(dtype, 60, 32, true, dtype)) << "rows of no multiple of 8";
    EXPECT_FALSE(takes(dtype, 64, 32, false, dtype)) << "an address of no multiple of 16";
    EXPECT_FALSE(takes(dtype, 64, 0, true, dtype)) << "a sum of nothing";
    EXPECT_FALSE(takes(dtype, 64, 32, true, DType::f32)) << "a bias that would be rounded";
  }
  EXPECT_FALSE(takes(DType::f32, 64, 32, true, DType::f32)) << "our own GELU is the more exact one";
}

/// Counts for a bf16 product, one with GELU and attention; the type of the bias, the alignment and the head size decide
/// whether the fast path is available.
std::vector<std::uint64_t> slow_paths_of(Bench& gpu, DType of_bias, bool aligned, std::size_t head) {
  const auto now = [] {
    const cuda::SlowPaths& all = cuda::slow_paths();
    return std::vector<std::uint64_t>{all.products_in_fp32, all.products_at_odd_places, all.gelus_apart,
                                      all.attentions_in_loops};
  };
  const std::vector<std::uint64_t> before = now();
  const Placed place{gpu, aligned};
  const auto ones = [&](std::size_t n, DType dtype) {
    const Slice x = Placed{gpu, true}(n, dtype);
    fill(gpu.me, x, 1);
    return x;
  };
  const Slice a = ones(16 * 32, DType::bf16), b = ones(32 * 64, DType::bf16), bias = ones(64, of_bias);
  const Slice x = place(16 * 64, DType::bf16), y = place(16 * 64, DType::bf16);
  matmul(gpu.me, matrix(x, 16, 64), matrix(a, 16, 32), matrix(b, 32, 64), Into::overwrite, bias);
  matmul_gelu(gpu.me, y, matrix(x, 16, 64), matrix(a, 16, 32), matrix(b, 32, 64), ones(64, DType::bf16));
  matmul_gelu_backward(gpu.me, matrix(y, 16, 64), matrix(a, 16, 32), matrix(b, 32, 64), x);
  const AttentionShape shape{1, 4, 2, head};
  const Slice qkv = ones(4 * 3 * 2 * head, DType::bf16), result = ones(4 * 2 * head, DType::bf16);
  const Slice statistics = gpu.poisoned(2 * 4), dqkv = ones(4 * 3 * 2 * head, DType::bf16);
  attention(gpu.me, result, statistics, qkv, shape);
  attention_backward(gpu.me, dqkv, result, result, qkv, statistics, shape);
  std::vector<std::uint64_t> counts = now();
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= before[i];
  return counts;
}

TEST_F(AgainstCpu, WhatIsSlowIsCounted) {
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(slow_paths_of(gpu, DType::bf16, true, 16), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(slow_paths_of(gpu, DType::f32, true, 16), (Counts{0, 0, 0, 0})) << "its bias is added apart";
  EXPECT_EQ(slow_paths_of(gpu, DType::bf16, true, 9), (Counts{0, 0, 0, 2}));
  const std::uint64_t before = cuda::slow_paths().products_in_fp32;
  const Slice bf16 = gpu.normal(16 * 32, DType::bf16), f16 = gpu.normal(32 * 64, DType::f16),
              sum = gpu.poisoned(16 * 64);
  matmul(gpu.me, matrix(sum, 16, 64), matrix(bf16, 16, 32), matrix(f16, 32, 64));
  EXPECT_EQ(cuda::slow_paths().products_in_fp32, before + 1) << "two types are one in fp32";
  // The product, and those with a separate GELU.
  EXPECT_EQ(slow_paths_of(gpu, DType::bf16, false, 16), (Counts{0, 3, 2, 0}));
}

TEST_F(RandomShapes, SumsOfRowsAndOfAll) {
  for_shapes([&](Shape shape) {
    const std::size_t n = shape.rows * shape.columns;
    const auto [x, x_cpu] = normal(n, shape.dtype);
    const auto [sums, sums_cpu] = normal(shape.columns, shape.dtype);
    const double size = 1 + largest(gpu.read(x));
    add_rows(gpu.me, sums, matrix(x, shape.rows, shape.columns));
    add_rows(cpu.me, sums_cpu, matrix(x_cpu, shape.rows, shape.columns));
    expect_close(sums, sums_cpu, static_cast<double>(shape.rows), size * static_cast<double>(shape.rows), "add_rows");
    Slice total = gpu.of({1}), total_cpu = cpu.of({1});
    add_sum(gpu.me, total, x);
    add_sum(cpu.me, total_cpu, x_cpu);
    add_squares(gpu.me, total, x);
    add_squares(cpu.me, total_cpu, x_cpu);
    expect_close(total, total_cpu, 100, static_cast<double>(n) * size * size, "sums");
  });
}

// A constant column of one: the deviation is √ε, and only rounding is divided by it.
TEST_F(RandomShapes, LayerNorm) {
  for_shapes([&](Shape shape) {
    if (shape.columns == 1) return;
    const std::size_t n = shape.rows * shape.columns;
    const auto [x, x_cpu] = normal(n, shape.dtype);
    const auto [dy, dy_cpu] = normal(n, shape.dtype);
    const auto [weight, weight_cpu] = normal(shape.columns, DType::f32);
    const auto [bias, bias_cpu] = normal(shape.columns, DType::f32);
    const auto [dweight, dweight_cpu] = normal(shape.columns, shape.dtype);
    const auto [dbias, dbias_cpu] = normal(shape.columns, shape.dtype);
    Slice y = gpu.poisoned(n, shape.dtype), y_cpu = cpu.poisoned(n, shape.dtype);
    Slice statistics = gpu.poisoned(2 * shape.rows), statistics_cpu = cpu.poisoned(2 * shape.rows);
    layer_norm(gpu.me, y, statistics, x, weight, bias);
    layer_norm(cpu.me, y_cpu, statistics_cpu, x_cpu, weight_cpu, bias_cpu);
    const double reciprocal = largest(cpu.read(statistics_cpu)), columns = static_cast<double>(shape.columns);
    const double size = (1 + largest(gpu.read(x))) * (1 + largest(gpu.read(weight))) * (1 + largest(gpu.read(dy)));
    expect_close(y, y_cpu, columns / 8 + 14, size * reciprocal, "y");
    layer_norm_backward(gpu.me, dy, dweight, dbias, dy, x, weight, statistics, Into::overwrite);
    layer_norm_backward(cpu.me, dy_cpu, dweight_cpu, dbias_cpu, dy_cpu, x_cpu, weight_cpu, statistics_cpu,
                        Into::overwrite);
    const double terms = size * reciprocal * reciprocal * (1 + largest(gpu.read(x)));
    expect_close(dy, dy_cpu, columns / 8 + 30, terms, "dx");
    expect_close(dweight, dweight_cpu, 30 + static_cast<double>(shape.rows), terms, "dweight");
    expect_close(dbias, dbias_cpu, 30 + static_cast<double>(shape.rows), terms, "dbias");
  });
}

TEST_F(RandomShapes, EmbeddingAndCrossEntropy) {
  for_shapes([&](Shape shape) {
    const std::size_t n = shape.rows * shape.columns, vocabulary = 1 + gpu.generator() % 30;
    const auto tokens = gpu.tokens(shape.rows, vocabulary, -1);
    Slice token = gpu.integers(tokens), token_cpu = cpu.integers(tokens);
    const auto [table, table_cpu] = normal(vocabulary * shape.columns, shape.dtype);
    const auto [positions, positions_cpu] = normal(n, DType::f32);
    Slice y = gpu.poisoned(n, shape.dtype), y_cpu = cpu.poisoned(n, shape.dtype);
    embedding(gpu.me, y, token, table, positions, shape.rows);
    embedding(cpu.me, y_cpu, token_cpu, table_cpu, positions_cpu, shape.rows);
    expect_same(y, y_cpu, "embedding");
    embedding_backward(gpu.me, table, positions, y, token, shape.rows);
    embedding_backward(cpu.me, table_cpu, positions_cpu, y_cpu, token_cpu, shape.rows);
    const double rows = static_cast<double>(shape.rows), size = 10 * rows;
    expect_close(table, table_cpu, rows + 1, size, "dtable");
    expect_close(positions, positions_cpu, 2, size, "dpositions");

    const auto targets = gpu.tokens(shape.rows, shape.columns, -1);
    Slice loss = gpu.of({0}), loss_cpu = cpu.of({0}), scale = gpu.of({8}), scale_cpu = cpu.of({8});
    cross_entropy(gpu.me, loss, y, gpu.integers(targets), 0.5f, scale);
    cross_entropy(cpu.me, loss_cpu, y_cpu, cpu.integers(targets), 0.5f, scale_cpu);
    expect_close(loss, loss_cpu, 40 + static_cast<double>(shape.columns) / 16, 20 * rows, "loss");
    expect_close(y, y_cpu, 40 + static_cast<double>(shape.columns) / 16, 4, "gradient");
  });
}

TEST_F(RandomShapes, TopK) {
  for_shapes([&](Shape shape) {
    const std::size_t n = shape.rows * shape.columns, k = 1 + gpu.generator() % n;
    const auto [x, x_cpu] = normal(n, shape.dtype);
    Slice values = gpu.poisoned(k, shape.dtype), values_cpu = cpu.poisoned(k, shape.dtype);
    Slice indices = gpu.poisoned(k, DType::i32), indices_cpu = cpu.poisoned(k, DType::i32);
    top_k(gpu.me, values, indices, x);
    top_k(cpu.me, values_cpu, indices_cpu, x_cpu);
    expect_same(values, values_cpu, "values");
    expect_same(indices, indices_cpu, "indices");
    const auto [y, y_cpu] = normal(n, DType::f32);
    scatter_add(gpu.me, y, values, indices, 0.37f);
    scatter_add(cpu.me, y_cpu, values_cpu, indices_cpu, 0.37f);
    expect_close(y, y_cpu, 2, 10, "scatter_add");
  });
}

}  // namespace
}  // namespace lockstep::testing
