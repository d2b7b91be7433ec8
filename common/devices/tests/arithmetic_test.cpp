// The front end: rejected operands and their messages, the stated cost and memory of operations, and that empty slices
// cost nothing.
#include "common/arithmetic.hpp"

#include <gtest/gtest.h>

#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

struct Front : ::testing::Test {
  /// The message of the USAGE error that `f` must throw.
  template <class F>
  std::string refusal(const F& f) {
    bench.backend.forget();
    try {
      f();
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage);
      EXPECT_NE(std::string(error.what()).find("arithmetic_test.cpp"), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }
  /// Expects a USAGE error before any computation, with a message that contains each of `words`.
  template <class F>
  void refuses(const F& f, std::initializer_list<const char*> words) {
    const std::string message = refusal(f);
    EXPECT_FALSE(bench.backend.last()) << "computed before it was refused: " << message;
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks: " << word;
  }
  /// Expects that the last operation has this cost.
  void costs(const char* name, double flop, double bytes, int reads, int writes) {
    ASSERT_TRUE(bench.backend.last()) << name;
    const Operation& operation = *bench.backend.last();
    EXPECT_STREQ(operation.name, name);
    EXPECT_EQ(operation.flop, flop) << name;
    EXPECT_EQ(operation.bytes, bytes) << name;
    const auto count = [](const auto& slices) {
      return std::count_if(slices.begin(), slices.end(), [](const Slice* slice) { return slice != nullptr; });
    };
    EXPECT_EQ(count(operation.reads), reads) << name;
    EXPECT_EQ(count(operation.writes), writes) << name;
  }
  Slice f32(std::size_t n) { return bench.constant(n, 1); }
  Slice bf16(std::size_t n) { return bench.constant(n, 1, DType::bf16); }

  Bench bench;
  Rank me = bench.me;
};

TEST_F(Front, RefusesSizesThatDiffer) {
  refuses([&] { add(me, f32(3), f32(4)); }, {"add", "y has 3 elements and x has 4"});
  refuses([&] { dropout(me, f32(3), bf16(3), {}, 0.1f); }, {"dropout", "y is fp32 and x is bf16"});
  refuses([&] { dropout(me, f32(3), f32(3), {}, 1); }, {"dropout: p is 1, and must be at least 0 and below 1"});
  refuses([&] { add(me, f32(3), f32(3), f32(4)); }, {"z has 3 elements and y has 4"});
  refuses([&] { copy(me, f32(3), f32(4)); }, {"copy", "3", "4"});
  refuses([&] { cast(me, f32(3), bf16(4)); }, {"cast", "3", "4"});
  refuses([&] { gelu(me, f32(0), f32(4)); }, {"gelu", "0", "4"});
  refuses([&] { gelu_backward(me, f32(4), f32(5), f32(4)); }, {"gelu_backward", "dy has 5 elements and x has 4"});
}

TEST_F(Front, RefusesTypesThatDiffer) {
  refuses([&] { add(me, f32(3), bf16(3)); }, {"y is fp32 and x is bf16"});
  refuses([&] { copy(me, f32(3), bf16(3)); }, {"y is fp32 and x is bf16"});
  refuses([&] { scale(me, bench.integers({1}), 2); }, {"scale", "x is int32, not fp32, bf16 or fp16"});
  refuses([&] { add_sum(me, bf16(1), f32(3)); }, {"add_sum", "sum is 1 × bf16, not one fp32"});
  refuses([&] { find_overflow(me, f32(2), f32(3)); }, {"flag is 2 × fp32, not one fp32"});
}

TEST_F(Front, RefusesMatricesThatDoNotFit) {
  refuses([&] { matmul(me, matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(15), 5, 3)); },
          {"shapes", "c (2 × 3) = a (2 × 4) · b (5 × 3)"});
  refuses([&] { matmul(me, matrix(f32(6), 2, 3), matrix(f32(7), 2, 4), matrix(f32(12), 4, 3)); },
          {"a is declared as 2 × 4, but has 7 elements"});
  refuses([&] { matmul(me, matrix(f32(6), 2, 3).t(), matrix(f32(12), 3, 4), matrix(f32(8), 4, 2)); }, {"transposed"});
  refuses(
      [&] { matmul(me, matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(12), 4, 3), Into::overwrite, f32(2)); },
      {"bias has 2 elements, not 3"});
  refuses([&] { add_rows(me, f32(2), matrix(f32(12), 4, 3)); }, {"bias_gradient has 2 elements, not 3"});
  const Matrix a = matrix(f32(8), 2, 4), b = matrix(f32(12), 4, 3);
  refuses([&] { matmul_gelu(me, f32(6), matrix(f32(6), 3, 2), a, b); },
          {"matmul_gelu: the shapes", "x (3 × 2) = a (2 × 4)"});
  refuses([&] { matmul_gelu(me, f32(5), matrix(f32(6), 2, 3), a, b); }, {"y has 5 elements and x has 6"});
  refuses([&] { matmul_gelu(me, bf16(6), matrix(f32(6), 2, 3), a, b); }, {"y is bf16 and x is fp32"});
  refuses([&] { matmul_gelu_backward(me, matrix(f32(6), 2, 3), a, b, f32(7)); }, {"x has 7 elements and dx has 6"});
}

TEST_F(Front, RefusesOverlaps) {
  Slice x = f32(10);
  refuses([&] { copy(me, x.cut(0, 5), x.cut(3, 5)); }, {"y and x overlap in part", "bytes 0…20 and 12…32"});
  refuses([&] { add(me, x.cut(1, 5), x.cut(0, 5)); }, {"overlap"});
  refuses([&] { matmul(me, matrix(x.cut(0, 4), 2, 2), matrix(x.cut(0, 4), 2, 2), matrix(f32(4), 2, 2)); },
          {"c and a are the same memory"});
  add(me, x, x);
  EXPECT_EQ(bench.read(x), std::vector<double>(10, 2)) << "the same memory is no overlap in part";
  copy(me, x.cut(0, 5), x.cut(5, 5));
  const Matrix a = matrix(f32(4), 2, 2), b = matrix(f32(4), 2, 2), inner = matrix(f32(4), 2, 2);
  refuses([&] { matmul_gelu(me, inner.slice, inner, a, b); }, {"y and x are the same memory"});
  refuses([&] { matmul_gelu(me, b.slice, inner, a, b); }, {"y and b are the same memory"});
  refuses([&] { matmul_gelu_backward(me, inner, a, b, inner.slice); }, {"dx and x are the same memory"});
}

TEST_F(Front, RefusesLayersThatDoNotFit) {
  refuses([&] { layer_norm(me, f32(10), f32(4), f32(10), f32(4), f32(4)); },
          {"layer_norm", "x has 10 elements, not a multiple of 4"});
  refuses([&] { layer_norm(me, f32(8), f32(3), f32(8), f32(4), f32(4)); }, {"statistics has 3 elements, not 4"});
  refuses([&] { layer_norm_backward(me, f32(8), f32(3), f32(3), f32(8), f32(8), f32(4), f32(4), Into::overwrite); },
          {"dweight has 3 elements, not 4"});
  const AttentionShape shape{1, 2, 3, 4};
  refuses([&] { attention(me, f32(24), f32(6), f32(71), shape); }, {"qkv has 71 elements, not 72"});
  refuses([&] { attention(me, f32(24), f32(5), f32(72), shape); }, {"statistics has 5 elements, not 6"});
  refuses([&] { attention_backward(me, f32(71), f32(24), f32(24), f32(72), f32(6), shape); },
          {"dqkv has 71 elements and qkv has 72"});
  refuses([&] { attention_probabilities(me, f32(11), f32(72), shape); }, {"probabilities has 11 elements, not 12"});
  refuses([&] { attention_output(me, f32(23), f32(12), f32(72), shape); }, {"y has 23 elements, not 24"});
  refuses([&] { attention_probabilities_backward(me, f32(72), f32(24), f32(24), bf16(12), f32(72), shape); },
          {"probabilities is bf16, not fp32"});
  const AttentionBlock block{1, 2, 4, 3, 4, 4, 0};
  refuses([&] { attention_block(me, f32(24), f32(6), f32(23), f32(96), block); }, {"q has 23 elements, not 24"});
  refuses([&] { attention_block(me, f32(24), f32(6), f32(24), f32(48), block); }, {"kv has 48 elements, not 96"});
  refuses([&] { attention_block(me, f32(24), f32(12), f32(24), f32(96), block); }, {"statistics has 12 elements"});
  AttentionBlock grouped = block;
  grouped.kv_heads = 1;
  refuses([&] { attention_block(me, f32(24), f32(6), f32(24), f32(96), grouped); },
          {"kv has 96 elements, not 32", "2 × kv_heads"});
  grouped.kv_heads = 2;
  refuses([&] { attention_block(me, f32(24), f32(6), f32(24), f32(64), grouped); },
          {"2 key-value heads do not divide 3 heads"});
  refuses([&] { attention_block(me, f32(24), f32(6), f32(24), bf16(96), block); }, {"kv is bf16, not fp32"});
  refuses([&] { attention_block_backward(me, f32(24), f32(95), f32(24), f32(24), f32(6), f32(24), f32(96), block); },
          {"dkv has 95 elements and kv has 96"});
  refuses(
      [&] {
        attention(me, f32(24), f32(6), f32(40), {1, 2, 3, 4, 2});
      },
      {"2 key-value heads do not divide 3 heads"});
  refuses(
      [&] {
        attention(me, f32(24), f32(6), f32(72), {1, 2, 3, 4, 1});
      },
      {"qkv has 72 elements, not 40", "(heads + 2 × kv_heads)"});
  refuses(
      [&] {
        rotate_positions(me, f32(54), AttentionShape{1, 2, 3, 3}, 500, Turn::forward);
      },
      {"3 channels", "pairs"});
  refuses([&] { rotate_positions(me, f32(71), shape, 500, Turn::forward); }, {"qkv has 71 elements, not 72"});
  refuses([&] { rotate_positions(me, f32(72), shape, 1, Turn::forward); }, {"the base must be above 1"});
  refuses(
      [&] {
        rotate_positions(me, f32(72), RotaryShape{1, 2, 5, 3, 4}, 500, Turn::forward);
      },
      {"x has 72 elements, not 64", "turning + staying"});
  refuses([&] { rms_norm(me, f32(8), f32(4), f32(8), f32(4)); }, {"statistics has 4 elements, not 2"});
  refuses([&] { rms_norm_backward(me, f32(8), f32(3), f32(8), f32(8), f32(4), f32(2), Into::overwrite); },
          {"dweight has 3 elements, not 4"});
  refuses([&] { swiglu(me, f32(6), f32(10), 3); }, {"x has 10 elements, not a multiple of 6"});
  refuses([&] { swiglu(me, f32(5), f32(12), 3); }, {"y has 5 elements, not 6"});
  const Slice gates = f32(12);
  refuses([&] { swiglu_backward(me, gates, gates.cut(0, 6), f32(12), 3); }, {"dx and dy overlap in part"});
  refuses([&] { adamw(me, f32(3), f32(3), f32(2), f32(3), f32(3), {}); }, {"m has 2 elements, not 3"});
  refuses([&] { adamw(me, f32(3), f32(3), f32(3), f32(3), f32(3), {}, {}, {}, f32(2)); }, {"skipped is 2 × fp32"});
  refuses([&] { adamw(me, f32(3), bf16(3), f32(3), f32(3), f32(3), {}); }, {"master is bf16, not fp32"});
  refuses([&] { adamw(me, f32(3), f32(3), f32(3), f32(3), f32(3), AdamW{.step = 0}); }, {"step 0"});
  const AdamWPiece two{2};
  refuses(
      [&] {
        adamw_pieces(me, f32(3), f32(3), f32(3), f32(3), f32(3), {&two, 1}, {});
      },
      {"adamw_pieces: master has 3 elements, not 2 (in all pieces)"});
}

TEST_F(Front, RefusesTokensThatDoNotFit) {
  Slice tokens = bench.integers({0, 2, 1, 0});
  refuses([&] { embedding(me, f32(9), tokens, f32(9), {}, 2); }, {"y has 9 elements, not a multiple of 4"});
  refuses([&] { embedding(me, f32(12), tokens, f32(9), {}, 3); }, {"4 tokens are not whole sequences of 3"});
  refuses([&] { embedding(me, f32(12), tokens, f32(9), f32(3), 2); }, {"1 positions for sequences of 2"});
  refuses([&] { cross_entropy(me, f32(1), f32(9), tokens, 1); }, {"logits has 9 elements, not a multiple of 4"});
  refuses([&] { cross_entropy(me, f32(1), f32(8), f32(4), 1); }, {"targets is fp32, not int32"});
}

// A GPU reports it when results are read.
TEST_F(Front, RefusesIndicesOutsideTheTable) {
  Slice tokens = bench.integers({0, 3}), one = f32(1);
  const auto message_of = [&](const auto& f) {
    return refusal([&] {
      f();
      to_host(me, one);
    });
  };
  const auto expect = [](const std::string& message, const char* words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\nlacks: " << words;
  };
  expect(message_of([&] { embedding(me, f32(4), tokens, f32(6), {}, 2); }),
         "embedding: token 3 at position 1 is outside a vocabulary of 3");
  expect(message_of([&] { embedding_backward(me, f32(6), {}, f32(4), tokens, 2); }), "token 3 at position 1");
  expect(message_of([&] {
           cross_entropy(me, f32(1), f32(6), bench.integers({-2, 0}), 1);
         }),
         "target -2 of row 0 is neither −1 nor inside a vocabulary of 3");
  expect(message_of([&] { scatter_add(me, f32(3), f32(2), tokens); }),
         "scatter_add: index 3 at position 1 is outside a slice of 3");
  expect(message_of([&] {
           scatter_add(me, f32(3), f32(3), bench.integers({0, 2, 2}));
         }),
         "index 2 at position 2 does not come after the one before it");
}

TEST_F(Front, CountsFlopAndBytes) {
  add(me, f32(10), f32(10));
  costs("add", 10, 120, 1, 1);
  add(me, bf16(10), bf16(10), bf16(10));
  costs("add", 10, 60, 2, 1);
  copy(me, f32(10), f32(10));
  costs("copy", 0, 80, 1, 1);
  dropout(me, f32(10), f32(10), {}, 0.1f);
  costs("dropout", 220, 80, 1, 1);
  matmul(me, matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(12), 4, 3));
  costs("matmul", 48, 4 * (6 + 8 + 12), 3, 1);
  EXPECT_TRUE(bench.backend.last()->matmul);
  EXPECT_EQ(bench.backend.last()->mnk, (std::array<std::size_t, 3>{2, 3, 4}));
  matmul(me, matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(12), 4, 3), Into::accumulate, f32(3));
  costs("matmul", 48, 4 * (12 + 8 + 12 + 3), 3, 1);
  // One pass: GELU's argument is written and not read again; its gradient is neither.
  matmul_gelu(me, f32(6), matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(12), 4, 3), f32(3));
  costs("matmul_gelu", 48 + 6 * 8, 4 * (6 + 6 + 8 + 12 + 3), 3, 2);
  EXPECT_TRUE(bench.backend.last()->matmul);
  matmul_gelu_backward(me, matrix(f32(6), 2, 3), matrix(f32(8), 2, 4), matrix(f32(12), 4, 3), f32(6));
  costs("matmul_gelu_backward", 48 + 6 * 15, 4 * (6 + 6 + 8 + 12), 3, 1);
}

// B = 2, T = 3, h = 2, d = 5: row t sees t + 1 keys, so a product of scores has 2·(1 + 2 + 3)·d FLOP per head.
TEST_F(Front, AttentionIsCausalAndRecomputes) {
  const AttentionShape shape{2, 3, 2, 5};
  Slice qkv = f32(180), y = f32(60), statistics = f32(12), dqkv = f32(180), dy = f32(60);
  const double product = 2 * 6 * 5 * 4;
  attention(me, y, statistics, qkv, shape);
  costs("attention", 2 * product, 4 * (180 + 60 + 12), 1, 2);
  attention_backward(me, dqkv, dy, y, qkv, statistics, shape);
  costs("attention_backward", 5 * product, 4 * (180 + 60 + 60 + 180 + 12), 4, 1);
  // With materialised probabilities nothing is recomputed: six products instead of seven.
  Slice probabilities = f32(2 * 2 * 3 * 3);
  attention_probabilities(me, probabilities, qkv, shape);
  costs("attention_probabilities", product, 4 * (120 + 36), 1, 1);
  attention_output(me, y, probabilities, qkv, shape);
  costs("attention_output", product, 4 * (60 + 36 + 60), 2, 1);
  attention_probabilities_backward(me, dqkv, dy, y, probabilities, qkv, shape);
  costs("attention_probabilities_backward", 4 * product, 4 * (180 + 60 + 60 + 180 + 36), 4, 1);
}

TEST_F(Front, NothingIsDoneForEmptySlices) {
  Slice none = f32(0), one = f32(1), tokens = bench.integers({}), row = f32(4);
  bench.backend.forget();
  fill(me, none, 1);
  copy(me, none, none);
  cast(me, none, bf16(0));
  add(me, none, none);
  add(me, none, none, none);
  scale(me, none, 2);
  scale(me, none, one);
  add_squares(me, one, none);
  add_sum(me, one, none);
  find_overflow(me, one, none);
  random_normal(me, none, {}, 0, 1);
  random_uniform(me, none, {}, 0, 1);
  dropout(me, none, none, {}, 0.5f);
  matmul(me, matrix(none, 0, 3), matrix(none, 0, 1), matrix(f32(3), 1, 3));
  add_rows(me, row, matrix(none, 0, 4));
  matmul_gelu(me, none, matrix(none, 0, 3), matrix(none, 0, 1), matrix(f32(3), 1, 3));
  matmul_gelu_backward(me, matrix(none, 0, 3), matrix(none, 0, 1), matrix(f32(3), 1, 3), none);
  gelu(me, none, none);
  gelu_backward(me, none, none, none);
  layer_norm(me, none, none, none, row, row);
  layer_norm_backward(me, none, row, f32(4), none, none, row, none, Into::overwrite);
  attention(me, none, none, none, {0, 4, 2, 2});
  attention_backward(me, none, none, none, none, none, {0, 4, 2, 2});
  attention_probabilities(me, none, none, {0, 4, 2, 2});
  attention_output(me, none, none, none, {0, 4, 2, 2});
  attention_probabilities_backward(me, none, none, none, none, none, {0, 4, 2, 2});
  attention_block(me, none, none, none, none, {0, 4, 4, 2, 2});
  attention_block_backward(me, none, none, none, none, none, none, none, {0, 4, 4, 2, 2});
  scale_if(me, none, 2, one);
  embedding(me, none, tokens, row, {}, 4);
  embedding_backward(me, row, {}, none, tokens, 4);
  cross_entropy(me, one, none, tokens, 1);
  cross_entropy_loss(me, one, none, tokens, 1);
  top_k(me, none, tokens, none);
  scatter_add(me, row, none, tokens);
  quantise(me, bench.poisoned(0, DType::i8), none, none, 64, {});
  add_dequantised(me, none, bench.poisoned(0, DType::i8), none, 64);
  adamw(me, none, none, none, none, none, {});
  adamw_pieces(me, none, none, none, none, none, {}, {});
  EXPECT_FALSE(bench.backend.last()) << bench.backend.last()->name;
  EXPECT_EQ(bench.read(one)[0], 1);
}

}  // namespace
}  // namespace lockstep::testing
