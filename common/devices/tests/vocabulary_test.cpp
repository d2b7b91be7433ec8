// Embeddings and the loss, for a whole and a sharded vocabulary, compared with their formulas in double.
#include "common/devices/tests/near.hpp"
#include "common/devices/tests/reference.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

TEST(Reference, CrossEntropyGradients) {
  const Values logits = random_values(4 * 6, 1);
  const std::vector<std::int32_t> targets{2, -1, 5, 0};
  const auto f = [&](const Values& v) { return reference::cross_entropy(v, targets, 0.25).loss; };
  expect_all_near(reference::cross_entropy(logits, targets, 0.25).gradient, finite_differences(logits, f), 1e-8);
}

TEST(Embedding, ForwardAndBackward) {
  Bench bench(2);
  struct Shape {
    std::size_t batch, sequence, columns, vocabulary, longest;
  };
  for (DType dtype : kFloating)
    for (const Shape& shape : {Shape{1, 1, 1, 1, 1}, Shape{2, 5, 7, 3, 9}, Shape{4, 33, 65, 300, 40},
                               Shape{4, 50, 40, 2, 50}, Shape{3, 700, 9, 700, 700}, Shape{0, 4, 3, 5, 4}})
      for (bool positional : {true, false}) {
        const std::size_t rows = shape.batch * shape.sequence, columns = shape.columns;
        const auto tokens = bench.tokens(rows, shape.vocabulary);
        Slice table = bench.normal(shape.vocabulary * columns, dtype), token = bench.integers(tokens);
        Slice positions = positional ? bench.normal(shape.longest * columns, dtype) : Slice();
        Slice y = bench.poisoned(rows * columns, dtype), dy = bench.normal(rows * columns, dtype);
        Values exact(rows * columns), dtable = bench.read(table), dpositions = bench.read(positions);
        const Values from = dtable, from_positions = dpositions, gradient = bench.read(dy);
        for (std::size_t i = 0; i < exact.size(); ++i) {
          const std::size_t at = static_cast<std::size_t>(tokens[i / columns]) * columns + i % columns;
          const std::size_t position = i / columns % shape.sequence * columns + i % columns;
          exact[i] = from[at] + (positional ? from_positions[position] : 0);
          dtable[at] += gradient[i];
          if (positional) dpositions[position] += gradient[i];
        }
        embedding(bench.me, y, token, table, positions, shape.sequence);
        expect_near(bench.read(y), exact, dtype, positional ? 1 : 0, {8}, "y");
        embedding_backward(bench.me, table, positions, dy, token, shape.sequence);
        // Each row sums at most all tokens of one value, in float, and is rounded once.
        const double most = static_cast<double>(rows) + 1;
        expect_near(bench.read(table), dtable, dtype, most, {largest(dtable) + 4}, "dtable");
        expect_near(bench.read(positions), dpositions, dtype, most, {largest(dpositions) + 4}, "dpositions");
      }
}

TEST(CrossEntropy, LossAndGradient) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (const auto [rows, vocabulary] :
         {std::array<std::size_t, 2>{0, 5}, {1, 1}, {3, 2}, {5, 257}, {40, 1000}, {2, 20011}}) {
      auto targets = bench.tokens(rows, vocabulary, -1);
      Slice logits = bench.normal(rows * vocabulary, dtype, 4), loss = bench.of({1}), only = bench.of({1});
      const float factor = rows == 0 ? 1 : 1 / static_cast<float>(rows);
      const auto exact = reference::cross_entropy(bench.read(logits), targets, factor);
      const double size = largest(bench.read(logits));
      cross_entropy_loss(bench.me, only, logits, bench.integers(targets), factor);
      cross_entropy(bench.me, loss, logits, bench.integers(targets), factor);
      // A logit minus the maximum is off by one rounding, its exponential by 3 more; sums are in at least 16 lanes.
      const double roundings = 4 * size + 8 + static_cast<double>(vocabulary) / 16;
      expect_near(bench.read(loss), {1 + exact.loss}, DType::f32, roundings, {1 + exact.loss}, "loss");
      expect_near(bench.read(only), {1 + exact.loss}, DType::f32, roundings, {1 + exact.loss}, "loss only");
      expect_near(bench.read(logits), exact.gradient, dtype, roundings, {factor}, "gradient");
    }
}

/// Rows of `whole` (N × V) in `shards` pieces of `width` columns, the last padded with a value that would win.
TEST(CrossEntropy, OfAVocabularyCutIntoShards) {
  Bench bench(2);
  struct Shape {
    std::size_t rows, vocabulary, shards;
  };
  for (DType dtype : kFloating)
    for (const auto& [rows, vocabulary, shards] :
         {Shape{1, 1, 1}, Shape{3, 5, 2}, Shape{7, 64, 4}, Shape{5, 9, 8}, Shape{40, 1000, 3}}) {
      const std::size_t width = (vocabulary + shards - 1) / shards;
      const auto targets = bench.tokens(rows, vocabulary, -1);
      Slice token = bench.integers(targets), whole = bench.normal(rows * vocabulary, dtype, 4);
      const Values values = bench.read(whole);
      const float factor = 1 / static_cast<float>(rows);
      const auto exact = reference::cross_entropy(values, targets, factor);
      Slice statistics = bench.poisoned(shards * rows * 2);
      std::vector<Slice> logits;
      std::vector<VocabularyShard> parts;
      for (std::size_t r = 0; r < shards; ++r) {
        const std::size_t first = std::min(vocabulary, r * width), count = std::min(vocabulary - first, width);
        parts.push_back({first, count});
        std::vector<float> piece(rows * width, 1e4f);
        for (std::size_t n = 0; n < rows; ++n)
          for (std::size_t i = 0; i < count; ++i)
            piece[n * width + i] = static_cast<float>(values[n * vocabulary + first + i]);
        logits.push_back(bench.of(piece, dtype));
        cross_entropy_statistics(bench.me, statistics.cut(r * rows * 2, rows * 2), logits[r], token, parts[r]);
      }
      const double roundings = 4 * largest(values) + 16 + static_cast<double>(vocabulary) / 16;
      for (std::size_t r = 0; r < shards; ++r) {
        Slice loss = bench.of({1}), only = bench.of({1});
        cross_entropy_shard(bench.me, only, {}, statistics, token, parts[r], factor);
        cross_entropy_shard(bench.me, loss, logits[r], statistics, token, parts[r], factor);
        expect_near(bench.read(loss), {1 + exact.loss}, DType::f32, roundings, {1 + exact.loss}, "loss");
        EXPECT_EQ(bench.read(only), bench.read(loss));
        Values gradient(rows * width, 0);
        for (std::size_t n = 0; n < rows; ++n)
          for (std::size_t i = 0; i < parts[r].count; ++i)
            gradient[n * width + i] = exact.gradient[n * vocabulary + parts[r].first + i];
        expect_near(bench.read(logits[r]), gradient, dtype, roundings, {factor}, "gradient");
      }
    }
}

TEST(Embedding, TokensOfAnotherShardReadZerosAndGiveNoGradient) {
  Bench bench;
  Slice tokens = bench.integers({0, 5, 3, 4}), here = bench.integers({9, 9, 9, 9});
  shard_tokens(bench.me, here, tokens, {3, 2});
  Slice table = bench.of({1, 2, 3, 4}), y = bench.poisoned(8);
  embedding(bench.me, y, here, table, {}, 2);
  EXPECT_EQ(bench.read(y), (Values{0, 0, 0, 0, 1, 2, 3, 4}));
  Slice dy = bench.of({1, 1, 1, 1, 5, 6, 7, 8});
  embedding_backward(bench.me, table, {}, dy, here, 2);
  EXPECT_EQ(bench.read(table), (Values{6, 8, 10, 12}));
}

// The gradient is scaled on the device before rounding, so values that fp16 alone would flush to zero survive.
TEST(CrossEntropy, TheGradientIsScaledBeforeItIsRounded) {
  Bench bench;
  const float factor = 0x1p-26f;  // a mean over 64 Mi tokens: below fp16's smallest subnormal, 2⁻²⁴
  const auto gradient = [&](Slice scale) {
    Slice logits = bench.constant(4, 0, DType::f16), loss = bench.of({0});
    cross_entropy(bench.me, loss, logits, bench.integers({1}), factor, scale);
    EXPECT_NEAR(bench.read(loss)[0], factor * std::log(4), 1e-12) << "the loss is not scaled";
    return bench.read(logits);
  };
  EXPECT_EQ(gradient({}), (Values{0, 0, 0, 0}));
  EXPECT_EQ(gradient(bench.of({0x1p16f})), (Values{0x1p-12, -3 * 0x1p-12, 0x1p-12, 0x1p-12}));
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  Bench bench;
  Slice logits = bench.of({1000, -1000, 0, -5e4f, 5e4f, 1}), loss = bench.of({0});
  cross_entropy(bench.me, loss, logits, bench.integers({1, 1}), 1);
  EXPECT_EQ(bench.read(loss)[0], 2000);
  EXPECT_EQ(bench.read(logits), (Values{1, -1, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace lockstep::testing
