// A sequence in blocks of queries and of keys, of any length and in any order, compared with attention over the whole
// in double; and its cost.
#include <numeric>

#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

/// A sequence split into blocks that begin at these positions; the last one ends with the sequence.
struct Blocks {
  AttentionShape shape;
  std::vector<std::size_t> queries, keys;
};

const Blocks kBlocks[] = {
    {{1, 1, 1, 1}, {0}, {0}},
    {{2, 7, 3, 5}, {0}, {0}},                               // a single block: attention itself
    {{2, 8, 2, 4}, {0, 2, 4, 6}, {0, 2, 4, 6}},             // equal: masked, on the diagonal, visible
    {{1, 150, 2, 8}, {0, 1, 64, 70}, {0, 3, 60, 61, 149}},  // neither equal nor even
    {{2, 130, 1, 40}, {0, 33, 97}, {0, 129}},               // a last key that only one query sees
    {{1, 200, 2, 64}, {0, 100}, {0, 50, 100, 150}},         // a GPU's tiles
    {{1, 70, 1, 136}, {0, 35}, {0, 35}},                    // a head larger than a tile
};

std::size_t end_of(const std::vector<std::size_t>& firsts, std::size_t i, std::size_t positions) {
  return i + 1 < firsts.size() ? firsts[i + 1] : positions;
}

/// Positions [first, end) and parts [part, part + count) of B × T × `parts` × width.
std::vector<float> cut(const Values& whole, AttentionShape s, std::size_t parts, std::size_t part, std::size_t count,
                       std::size_t first, std::size_t end) {
  const std::size_t width = s.heads * s.head_size;
  std::vector<float> own;
  for (std::size_t b = 0; b < s.batch; ++b)
    for (std::size_t t = first; t < end; ++t)
      for (std::size_t i = part * width; i < (part + count) * width; ++i)
        own.push_back(static_cast<float>(whole[(b * s.positions + t) * parts * width + i]));
  return own;
}

/// Slices of one run in blocks, and the expected result of the whole. dtype: of all but the statistics.
struct BlockRun {
  Bench& bench;
  const Blocks& blocks;
  Values qkv, dy;
  std::vector<Slice> q, y, statistics, dy_of, dq, kv, dkv;

  BlockRun(Bench& in, const Blocks& given, DType dtype, float deviation = 1) : bench(in), blocks(given) {
    const AttentionShape s = blocks.shape;
    const std::size_t size = s.batch * s.positions * s.heads * s.head_size;
    qkv = bench.read(bench.normal(3 * size, dtype, deviation));
    dy = bench.read(bench.normal(size, dtype));
    for (std::size_t i = 0; i < blocks.queries.size(); ++i) {
      const std::size_t first = blocks.queries[i], end = end_of(blocks.queries, i, s.positions);
      q.push_back(bench.of(cut(qkv, s, 3, 0, 1, first, end), dtype));
      dy_of.push_back(bench.of(cut(dy, s, 1, 0, 1, first, end), dtype));
      y.push_back(bench.constant(q.back().size(), 0, dtype));
      dq.push_back(bench.constant(q.back().size(), 0, dtype));
      statistics.push_back(bench.constant(s.batch * s.heads * (end - first), -INFINITY));
    }
    for (std::size_t j = 0; j < blocks.keys.size(); ++j) {
      kv.push_back(bench.of(cut(qkv, s, 3, 1, 2, blocks.keys[j], end_of(blocks.keys, j, s.positions)), dtype));
      dkv.push_back(bench.constant(kv.back().size(), 0, dtype));
    }
  }

  AttentionBlock block(std::size_t i, std::size_t j) const {
    const AttentionShape s = blocks.shape;
    return {s.batch,
            end_of(blocks.queries, i, s.positions) - blocks.queries[i],
            end_of(blocks.keys, j, s.positions) - blocks.keys[j],
            s.heads,
            s.head_size,
            blocks.queries[i],
            blocks.keys[j]};
  }
  /// Visits keys starting from the block after the queries' own, in a cycle.
  template <class F>
  void for_pairs(const F& f) const {
    for (std::size_t i = 0; i < q.size(); ++i)
      for (std::size_t step = 0; step < kv.size(); ++step) f(i, (i + 1 + step) % kv.size());
  }
  void forward() {
    for_pairs([&](std::size_t i, std::size_t j) {
      attention_block(bench.me, y[i], statistics[i], q[i], kv[j], block(i, j));
    });
  }
  void backward() {
    for_pairs([&](std::size_t i, std::size_t j) {
      attention_block_backward(bench.me, dq[i], dkv[j], dy_of[i], y[i], statistics[i], q[i], kv[j], block(i, j));
    });
  }
  Values exact_cut(const Values& whole, std::size_t parts, std::size_t part, std::size_t count,
                   const std::vector<std::size_t>& firsts, std::size_t i) const {
    const auto own = cut(whole, blocks.shape, parts, part, count, firsts[i], end_of(firsts, i, blocks.shape.positions));
    return {own.begin(), own.end()};
  }
  Values exact_statistics(const Values& whole, std::size_t i) const {
    Values own;
    const AttentionShape s = blocks.shape;
    for (std::size_t head = 0; head < s.batch * s.heads; ++head)
      for (std::size_t t = blocks.queries[i]; t < end_of(blocks.queries, i, s.positions); ++t)
        own.push_back(whole[head * s.positions + t]);
    return own;
  }
};

// Same tolerance as Attention.ForwardAndBackward. For 16-bit types, y and the gradients are rounded once more per block
// of keys, when they are no larger than the terms of their sum.
TEST(AttentionBlocks, AreTheWholeAttention) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const Blocks& blocks : kBlocks) {
      BlockRun run(bench, blocks, dtype);
      run.forward();
      run.backward();
      const auto exact = reference::attention(run.qkv, blocks.shape);
      const Values gradient = reference::attention_backward(run.dy, run.qkv, blocks.shape);
      const double d = static_cast<double>(blocks.shape.head_size), t = static_cast<double>(blocks.shape.positions);
      const double v = largest(run.qkv), score = (d + 4) * v * v * std::sqrt(d);
      const double terms = largest(run.dy) * v * std::sqrt(d);
      const double merges = static_cast<double>(std::max(blocks.keys.size(), blocks.queries.size()));
      const double again = merges * rounding(dtype) / rounding(DType::f32);
      const double wide = 4 * score + 4 * d + 2 * t + 30 + 2 * merges;
      const double from_16_bits = dtype == DType::f32 ? 0 : (6 + 4 * std::log(t + 1)) * again * std::sqrt(d);
      for (std::size_t i = 0; i < blocks.queries.size(); ++i) {
        const Values statistics = run.exact_statistics(exact.log_sums, i);
        expect_near(bench.read(run.y[i]), run.exact_cut(exact.y, 1, 0, 1, blocks.queries, i), dtype,
                    2 * score + t + 8 + 4 * merges + again, {v}, "y");
        expect_near(bench.read(run.statistics[i]), statistics, DType::f32, score + t + 4 + 4 * merges,
                    {1 + std::log(t + 1)}, "log-sum-exp");
        expect_near(bench.read(run.dq[i]), run.exact_cut(gradient, 3, 0, 1, blocks.queries, i), dtype,
                    wide + from_16_bits, {terms * v}, "dq");
      }
      for (std::size_t j = 0; j < blocks.keys.size(); ++j)
        expect_near(bench.read(run.dkv[j]), run.exact_cut(gradient, 3, 1, 2, blocks.keys, j), dtype,
                    wide + from_16_bits, {terms * v}, "dkv");
    }
}

/// The bounds above are for the worst case; the mean error stays within a few roundings.
TEST(AttentionBlocks, MeanErrorsAreSmall) {
  Bench bench(2);
  const Blocks blocks{{2, 160, 2, 16}, {0, 40, 80, 120}, {0, 40, 80, 120}};
  for (DType dtype : kFloating) {
    BlockRun run(bench, blocks, dtype);
    run.forward();
    run.backward();
    const Values y = reference::attention(run.qkv, blocks.shape).y;
    const Values gradient = reference::attention_backward(run.dy, run.qkv, blocks.shape);
    const double bound = (dtype == DType::f32 ? 20 : 4) * rounding(dtype);
    const auto expect_close = [&](const Slice& is, const Values& exact, const char* what) {
      Values error = bench.read(is);
      for (std::size_t k = 0; k < error.size(); ++k) error[k] -= exact[k];
      const auto square = [](const Values& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); };
      EXPECT_LT(std::sqrt(square(error) / square(exact)), bound) << what << " of " << to_string(dtype);
    };
    for (std::size_t i = 0; i < 4; ++i) {
      expect_close(run.y[i], run.exact_cut(y, 1, 0, 1, blocks.queries, i), "y");
      expect_close(run.dq[i], run.exact_cut(gradient, 3, 0, 1, blocks.queries, i), "dq");
      expect_close(run.dkv[i], run.exact_cut(gradient, 3, 1, 2, blocks.keys, i), "dkv");
    }
  }
}

/// Heads that share keys and values: q of B × T × h × d, kv of B × T × 2 × kv × d.
struct Grouped {
  static constexpr std::size_t kBatch = 2, kPositions = 48, kHead = 8, kHeads = 6;
  static constexpr AttentionShape kShape{kBatch, kPositions, kHeads, kHead};
  std::size_t kv_heads;
  Values q, kv, dy;

  /// Index in kv of an element of the whole, B × T × 3 × h × d; `part` is 1 or 2.
  std::size_t shared(std::size_t row, std::size_t part, std::size_t head, std::size_t i) const {
    return ((row * 2 + part - 1) * kv_heads + head / (kHeads / kv_heads)) * kHead + i;
  }
  template <class F>
  void for_all(const F& f) const {
    for (std::size_t row = 0; row < kBatch * kPositions; ++row)
      for (std::size_t part = 0; part < 3; ++part)
        for (std::size_t head = 0; head < kHeads; ++head)
          for (std::size_t i = 0; i < kHead; ++i)
            f(((row * 3 + part) * kHeads + head) * kHead + i, part,
              part == 0 ? (row * kHeads + head) * kHead + i : shared(row, part, head, i));
  }
  Values whole() const {
    Values all(3 * q.size());
    for_all([&](std::size_t to, std::size_t part, std::size_t from) { all[to] = part == 0 ? q[from] : kv[from]; });
    return all;
  }
};

/// One quarter of the positions of every sequence.
std::vector<float> quarter(const Values& whole, std::size_t width, std::size_t which) {
  std::vector<float> own;
  const std::size_t size = Grouped::kPositions / 4;
  for (std::size_t b = 0; b < Grouped::kBatch; ++b)
    for (std::size_t i = 0; i < size * width; ++i)
      own.push_back(static_cast<float>(whole[(b * Grouped::kPositions + which * size) * width + i]));
  return own;
}

TEST(AttentionBlocks, SharedKeysAreThoseOfTheirGroup) {
  Bench bench(2);
  constexpr std::size_t kSize = Grouped::kPositions / 4, kWidth = Grouped::kHeads * Grouped::kHead;
  for (DType dtype : kFloating)
    for (const std::size_t kv_heads : {1, 2, 3, 6}) {
      const std::size_t kv_width = 2 * kv_heads * Grouped::kHead, rows = Grouped::kBatch * Grouped::kPositions;
      const Grouped g{kv_heads, bench.read(bench.normal(rows * kWidth, dtype)),
                      bench.read(bench.normal(rows * kv_width, dtype)), bench.read(bench.normal(rows * kWidth, dtype))};
      const Values whole = g.whole(), y = reference::attention(whole, Grouped::kShape).y;
      const Values slopes = reference::attention_backward(g.dy, whole, Grouped::kShape);
      Values dq(rows * kWidth), dkv(rows * kv_width);
      g.for_all(
          [&](std::size_t from, std::size_t part, std::size_t to) { (part == 0 ? dq : dkv)[to] += slopes[from]; });
      std::vector<Slice> kv, dkv_of, q, dq_of, y_of, statistics, dy;
      for (std::size_t i = 0; i < 4; ++i) {
        q.push_back(bench.of(quarter(g.q, kWidth, i), dtype)), dy.push_back(bench.of(quarter(g.dy, kWidth, i), dtype));
        kv.push_back(bench.of(quarter(g.kv, kv_width, i), dtype));
        y_of.push_back(bench.constant(q[i].size(), 0, dtype)), dq_of.push_back(bench.constant(q[i].size(), 0, dtype));
        dkv_of.push_back(bench.constant(kv[i].size(), 0, dtype));
        statistics.push_back(bench.constant(Grouped::kBatch * Grouped::kHeads * kSize, -INFINITY));
      }
      const auto block = [&](std::size_t i, std::size_t j) {
        return AttentionBlock{Grouped::kBatch, kSize,     kSize,     Grouped::kHeads,
                              Grouped::kHead,  i * kSize, j * kSize, kv_heads};
      };
      for (std::size_t n = 0; n < 16; ++n)
        attention_block(bench.me, y_of[n / 4], statistics[n / 4], q[n / 4], kv[n % 4], block(n / 4, n % 4));
      for (std::size_t n = 0; n < 16; ++n)
        attention_block_backward(bench.me, dq_of[n / 4], dkv_of[n % 4], dy[n / 4], y_of[n / 4], statistics[n / 4],
                                 q[n / 4], kv[n % 4], block(n / 4, n % 4));
      const auto expect_close = [&](const Slice& is, const std::vector<float>& exact, const char* what) {
        double off = 0, all = 0;
        const Values seen = bench.read(is);
        for (std::size_t k = 0; k < seen.size(); ++k) {
          off += std::pow(seen[k] - static_cast<double>(exact[k]), 2);
          all += std::pow(static_cast<double>(exact[k]), 2);
        }
        EXPECT_LT(std::sqrt(off / all), (dtype == DType::f32 ? 20 : 4) * rounding(dtype))
            << what << " of " << to_string(dtype) << ", " << kv_heads << " key-value heads";
      };
      for (std::size_t i = 0; i < 4; ++i) {
        expect_close(y_of[i], quarter(y, kWidth, i), "y");
        expect_close(dq_of[i], quarter(dq, kWidth, i), "dq");
        expect_close(dkv_of[i], quarter(dkv, kv_width, i), "dkv");
      }
    }
}

TEST(AttentionBlocks, LargeScoresDoNotOverflow) {
  Bench bench;
  const Blocks blocks{{1, 9, 1, 8}, {0, 3, 6}, {0, 3, 6}};
  for (DType dtype : kFloating) {
    BlockRun run(bench, blocks, dtype, 30);
    run.forward();
    const Values y = reference::attention(run.qkv, blocks.shape).y;
    // Bound of Attention.LargeScoresDoNotOverflow, with one rounding per block.
    const double bound = 0.05 + 4 * rounding(dtype) * largest(run.qkv);
    for (std::size_t i = 0; i < 3; ++i) {
      const Values is = bench.read(run.y[i]), exact = run.exact_cut(y, 1, 0, 1, blocks.queries, i);
      for (std::size_t k = 0; k < is.size(); ++k) ASSERT_NEAR(is[k], exact[k], bound);
    }
  }
}

/// The costs of the blocks' visible pairs add up to those of the whole; each pair counts once.
TEST(AttentionBlocks, CostTheirPairs) {
  Bench bench;
  for (const Blocks& blocks : kBlocks) {
    BlockRun run(bench, blocks, DType::f32);
    const AttentionShape s = blocks.shape;
    run.for_pairs([&](std::size_t i, std::size_t j) {
      const AttentionBlock b = run.block(i, j);
      double pairs = 0;
      for (std::size_t t = b.first_query; t < b.first_query + b.queries; ++t)
        for (std::size_t u = b.first_key; u < b.first_key + b.keys; ++u) pairs += u <= t ? 1 : 0;
      const double product = 2 * pairs * static_cast<double>(s.batch * s.heads * s.head_size);
      const auto size = [](const Slice& x) { return static_cast<double>(x.bytes()); };
      const double in = size(run.q[i]) + size(run.kv[j]), out = size(run.y[i]) + size(run.statistics[i]);
      bench.backend.forget();
      attention_block(bench.me, run.y[i], run.statistics[i], run.q[i], run.kv[j], b);
      ASSERT_EQ(bench.backend.last().has_value(), pairs > 0) << "a block of which nothing is seen is not computed";
      if (pairs == 0) return;
      EXPECT_EQ(bench.backend.last()->flop, 2 * product);
      EXPECT_EQ(bench.backend.last()->bytes, in + 2 * out);
      attention_block_backward(bench.me, run.dq[i], run.dkv[j], run.dy_of[i], run.y[i], run.statistics[i], run.q[i],
                               run.kv[j], b);
      EXPECT_EQ(bench.backend.last()->flop, 5 * product);
      EXPECT_EQ(bench.backend.last()->bytes, 3 * in + out + size(run.q[i]));
    });
  }
}

}  // namespace
}  // namespace lockstep::testing
