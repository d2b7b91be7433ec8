// Operations that a GPU must compute bit-identically to the CPU, because they contain no sum and no function of the C
// library. So a model trained on either starts from the same parameters, shards and rounds its gradients the same way.
#include "common/devices/tests/against_cpu.hpp"

#include <gtest/gtest.h>

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

constexpr std::size_t kSizes[] = {1, 5, 8, 63, 64, 65, 255, 256, 1000, 4099};

TEST_F(AgainstCpu, Casts) {
  for (DType from : kFloating)
    for (DType to : kFloating)
      for (std::size_t n : kSizes) {
        const auto [a, b] = normal(n, from, 300);
        Slice x = gpu.poisoned(n, to), y = cpu.poisoned(n, to);
        cast(gpu.me, x, a);
        cast(cpu.me, y, b);
        expect_same(x, y, "cast");
      }
}

// The draws are the same. Between low and high they are scaled by one multiply-add here and possibly two operations
// there, so only [0, 1) can be compared.
TEST_F(AgainstCpu, UniformDraws) {
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes)
      for (std::uint64_t first : {0ull, 1ull, 100ull, 255ull, 256ull, (1ull << 40) + 77}) {
        Slice x = gpu.poisoned(n, dtype), y = cpu.poisoned(n, dtype);
        random_uniform(gpu.me, x, {7, 8, 9, first}, 0, 1);
        random_uniform(cpu.me, y, {7, 8, 9, first}, 0, 1);
        expect_same(x, y, "random_uniform");
      }
}

TEST_F(AgainstCpu, Dropout) {
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes)
      for (std::uint64_t first : {0ull, 1ull, 255ull, (1ull << 40) + 77}) {
        const auto [x, x_cpu] = normal(n, dtype);
        Slice y = gpu.poisoned(n, dtype), y_cpu = cpu.poisoned(n, dtype);
        dropout(gpu.me, y, x, {7, 8, 9, first}, 0.1f);
        dropout(cpu.me, y_cpu, x_cpu, {7, 8, 9, first}, 0.1f);
        expect_same(y, y_cpu, "dropout");
        dropout(gpu.me, x, x, {7, 8, 9, first}, 0.1f);
        expect_same(x, y_cpu, "dropout in place");
      }
}

// A radius √(−2 ln u) ≤ 5.8 from functions accurate to 2 ulp each, times a sine accurate to 1.3e-7.
TEST_F(AgainstCpu, NormalDrawsAreTheSameButForTheFunctions) {
  for (std::size_t n : kSizes) {
    Slice x = gpu.poisoned(n), y = cpu.poisoned(n);
    random_normal(gpu.me, x, {7, 8, 9, 3}, 1, 2);
    random_normal(cpu.me, y, {7, 8, 9, 3}, 1, 2);
    const Values a = gpu.read(x), b = cpu.read(y);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 2 * 5.8 * 2 * (1.3e-7 + 4 * 0x1p-23)) << i;
  }
}

TEST_F(AgainstCpu, AdamW) {
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes) {
      const auto [g, g_cpu] = normal(n, dtype);
      const auto [master, master_cpu] = normal(n, DType::f32);
      const auto [m, m_cpu] = normal(n, DType::f32, 0.1f);
      std::vector<float> squares(n);
      for (float& square : squares) square = std::uniform_real_distribution<float>(0.01f, 1)(gpu.generator);
      Slice v = gpu.of(squares), v_cpu = cpu.of(squares), p = gpu.poisoned(n, dtype), p_cpu = cpu.poisoned(n, dtype);
      const AdamW options{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};
      adamw(gpu.me, p, master, m, v, g, options, gpu.of({0.37f}), gpu.of({0}));
      adamw(cpu.me, p_cpu, master_cpu, m_cpu, v_cpu, g_cpu, options, cpu.of({0.37f}), cpu.of({0}));
      expect_same(master, master_cpu, "master");
      expect_same(m, m_cpu, "m");
      expect_same(v, v_cpu, "v");
      expect_same(p, p_cpu, "parameter");
    }
}

TEST_F(AgainstCpu, AdamWOverPieces) {
  std::vector<AdamWPiece> pieces;
  std::size_t n = 0;
  for (std::size_t i = 0; i < 300; n += pieces.back().count, ++i) pieces.push_back({i * i % 23, i % 2 == 0});
  for (DType dtype : kFloating) {
    const auto [g, g_cpu] = normal(n, dtype);
    const auto [master, master_cpu] = normal(n, DType::f32);
    Slice m = gpu.constant(n, 0.5f), v = gpu.constant(n, 0.25f), p = gpu.poisoned(n, dtype);
    Slice m_cpu = cpu.constant(n, 0.5f), v_cpu = cpu.constant(n, 0.25f), p_cpu = cpu.poisoned(n, dtype);
    const AdamW options{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};
    adamw_pieces(gpu.me, p, master, m, v, g, pieces, options, gpu.of({0.37f}));
    adamw_pieces(cpu.me, p_cpu, master_cpu, m_cpu, v_cpu, g_cpu, pieces, options, cpu.of({0.37f}));
    expect_same(master, master_cpu, "master");
    expect_same(m, m_cpu, "m");
    expect_same(v, v_cpu, "v");
    expect_same(p, p_cpu, "parameter");
  }
}

TEST_F(AgainstCpu, Quantise) {
  for (DType dtype : kFloating)
    for (std::size_t n : kSizes)
      for (std::size_t block : {1, 33, 256, 5000}) {
        const auto [x, x_cpu] = normal(n, dtype);
        const std::size_t blocks = (n + block - 1) / block;
        Slice q = gpu.poisoned(n, DType::i8), q_cpu = cpu.poisoned(n, DType::i8);
        Slice scales = gpu.poisoned(blocks), scales_cpu = cpu.poisoned(blocks);
        quantise(gpu.me, q, scales, x, block, {1, 2, 3, 41});
        quantise(cpu.me, q_cpu, scales_cpu, x_cpu, block, {1, 2, 3, 41});
        expect_same(scales, scales_cpu, "scales");
        expect_same(q, q_cpu, "q");
      }
}

TEST_F(AgainstCpu, RerunsOfSumsAndProducts) {
  const auto run = [&](std::uint32_t seed) {
    Bench bench(1, seed);
    Slice x = bench.normal(50001, DType::bf16), sums = bench.of({0, 0}), rows = bench.constant(127, 0);
    Slice table = bench.constant(17 * 127, 0), tokens = bench.integers(bench.tokens(300, 17));
    add_sum(bench.me, sums.cut(0, 1), x);
    add_squares(bench.me, sums.cut(1, 1), x);
    add_rows(bench.me, rows, matrix(x.cut(0, 127 * 300), 300, 127));
    embedding_backward(bench.me, table, {}, x.cut(0, 127 * 300), tokens, 300);
    Slice product = bench.poisoned(130 * 64), inner = bench.poisoned(130 * 64, DType::bf16),
          y = bench.poisoned(130 * 64, DType::bf16);
    matmul(bench.me, matrix(product, 130, 64), matrix(x.cut(0, 130 * 257), 130, 257),
           matrix(x.cut(0, 257 * 64), 257, 64));
    matmul_gelu(bench.me, y, matrix(inner, 130, 64), matrix(x.cut(0, 130 * 257), 130, 257),
                matrix(x.cut(0, 257 * 64), 257, 64));
    Values all = bench.read(sums);
    for (const Slice& part : {rows, table, product, inner, y})
      for (double value : bench.read(part)) all.push_back(value);
    return all;
  };
  EXPECT_TRUE(run(3) == run(3));
}

}  // namespace
}  // namespace lockstep::testing
