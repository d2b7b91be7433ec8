// AdamW, random numbers and dropout: independence of how a tensor is sharded.
#include "common/devices/tests/near.hpp"
#include "common/devices/tests/serial_backend.hpp"
#include "common/support/stats/mix.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

struct State {
  Slice parameter, master, m, v, gradient;
};

State make_state(Bench& bench, std::size_t n, DType parameter, DType gradient) {
  bench.generator.seed(5);
  State s{bench.poisoned(n, parameter), bench.normal(n), bench.normal(n, DType::f32, 0.1f), bench.poisoned(n),
          bench.normal(n, gradient)};
  std::vector<float> squares(n);
  for (float& value : squares) value = std::uniform_real_distribution<float>(0.01f, 1)(bench.generator);
  upload(bench.me, s.v, squares);
  return s;
}

// PyTorch's order of operations, in double; about twelve roundings of float, of numbers near 1.
TEST(AdamW, FollowsThePaper) {
  Bench bench(2);
  const AdamW options{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};
  for (DType parameter : kFloating)
    for (DType gradient : kFloating)
      for (std::size_t n : {0, 1, 17, 1024, 20001}) {
        State s = make_state(bench, n, parameter, gradient);
        Values p = bench.read(s.master), m = bench.read(s.m), v = bench.read(s.v);
        const Values g = bench.read(s.gradient);
        adamw(bench.me, s.parameter, s.master, s.m, s.v, s.gradient, options, bench.of({0.5f}));
        const double beta1 = options.beta1, beta2 = options.beta2, rate = options.learning_rate;
        for (std::size_t i = 0; i < n; ++i) {
          m[i] = beta1 * m[i] + (1 - beta1) * (0.5 * g[i]);
          v[i] = beta2 * v[i] + (1 - beta2) * (0.5 * g[i]) * (0.5 * g[i]);
          const double m_hat = m[i] / (1 - std::pow(beta1, 7)), v_hat = v[i] / (1 - std::pow(beta2, 7));
          p[i] = p[i] * (1 - rate * options.weight_decay) - rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
        }
        expect_near(bench.read(s.master), p, DType::f32, 4, {5}, "master");
        expect_near(bench.read(s.parameter), p, parameter, 4, {5}, "parameter");
        expect_near(bench.read(s.m), m, DType::f32, 4, {3}, "m");
        expect_near(bench.read(s.v), v, DType::f32, 4, {3}, "v");
      }
}

// With zero moments, the first step is rate · g / (|g| + ε).
TEST(AdamW, EpsilonCounts) {
  Bench bench;
  Slice master = bench.constant(1, 0), m = bench.constant(1, 0), v = bench.constant(1, 0), g = bench.of({1e-8f});
  adamw(bench.me, master, master, m, v, g, {.learning_rate = 1, .epsilon = 3e-8f});
  EXPECT_NEAR(bench.read(master)[0], -0.25, 1e-5);
}

TEST(AdamW, MasterMayBeTheParameter) {
  Bench bench;
  State apart = make_state(bench, 100, DType::f32, DType::f32), same = make_state(bench, 100, DType::f32, DType::f32);
  adamw(bench.me, apart.parameter, apart.master, apart.m, apart.v, apart.gradient, {});
  adamw(bench.me, same.master, same.master, same.m, same.v, same.gradient, {});
  EXPECT_EQ(bench.read(same.master), bench.read(apart.parameter));
}

TEST(AdamW, SkipChangesNothing) {
  Bench bench;
  State s = make_state(bench, 50, DType::bf16, DType::bf16);
  cast(bench.me, s.parameter, s.master);
  const Values parameter = bench.read(s.parameter), master = bench.read(s.master), m = bench.read(s.m);
  adamw(bench.me, s.parameter, s.master, s.m, s.v, s.gradient, {}, {}, bench.of({1}));
  EXPECT_EQ(bench.read(s.parameter), parameter);
  EXPECT_EQ(bench.read(s.master), master);
  EXPECT_EQ(bench.read(s.m), m);
  adamw(bench.me, s.parameter, s.master, s.m, s.v, s.gradient, {}, {}, bench.of({0}));
  EXPECT_NE(bench.read(s.master), master);
}

// The bias correction counts the steps that were not skipped.
TEST(AdamW, SkippedStepsDoNotCount) {
  Bench bench;
  State some = make_state(bench, 50, DType::f32, DType::f16), none = make_state(bench, 50, DType::f32, DType::f16);
  adamw(bench.me, some.parameter, some.master, some.m, some.v, some.gradient, {.step = 9}, {}, bench.of({0}),
        bench.of({4}));
  adamw(bench.me, none.parameter, none.master, none.m, none.v, none.gradient, {.step = 5});
  EXPECT_EQ(bench.read(some.master), bench.read(none.master));
  adamw(bench.me, none.parameter, none.master, none.m, none.v, none.gradient, {.step = 6}, {}, {}, bench.of({0}));
  EXPECT_NE(bench.read(some.master), bench.read(none.master));
}

// A sharded optimizer is bit-identical to the unsharded one.
TEST(AdamW, PiecesEqualTheWhole) {
  Bench bench(2);
  constexpr std::size_t kSize = 12345;
  State whole = make_state(bench, kSize, DType::bf16, DType::bf16),
        cut = make_state(bench, kSize, DType::bf16, DType::bf16);
  adamw(bench.me, whole.parameter, whole.master, whole.m, whole.v, whole.gradient, {});
  for (std::size_t first = 0, count = 1; first < kSize;
       first += count, count = std::min(2 * count + 1, kSize - first)) {
    const auto piece = [&](const Slice& x) { return x.cut(first, count); };
    adamw(bench.me, piece(cut.parameter), piece(cut.master), piece(cut.m), piece(cut.v), piece(cut.gradient), {});
  }
  EXPECT_TRUE(bench.read(whole.master) == bench.read(cut.master));
  EXPECT_TRUE(bench.read(whole.m) == bench.read(cut.m));
  EXPECT_TRUE(bench.read(whole.v) == bench.read(cut.v));
  EXPECT_TRUE(bench.read(whole.parameter) == bench.read(cut.parameter));
}

// One operation gives the same result as one operation per piece.
TEST(AdamW, OverPiecesThatDecayOrNot) {
  Bench bench(2);
  const AdamW options{.learning_rate = 1e-2f, .weight_decay = 0.5f, .step = 3};
  std::vector<AdamWPiece> many(600);  // more than one launch takes
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = {i % 7, i % 3 == 0};
  for (const std::vector<AdamWPiece>& pieces : {std::vector<AdamWPiece>{},
                                                {{1, true}},
                                                {{0, true}, {5, false}, {0, true}},
                                                {{4096, true}, {768, false}, {1, true}},
                                                many})
    for (DType dtype : kFloating) {
      std::size_t size = 0;
      for (const AdamWPiece& piece : pieces) size += piece.count;
      State at_once = make_state(bench, size, dtype, dtype), apart = make_state(bench, size, dtype, dtype);
      const Slice factor = bench.of({0.25f}), skipped = bench.of({1});
      adamw_pieces(bench.me, at_once.parameter, at_once.master, at_once.m, at_once.v, at_once.gradient, pieces, options,
                   factor, {}, skipped);
      std::size_t first = 0;
      for (const AdamWPiece& piece : pieces) {
        const auto cut = [&](const Slice& x) { return x.cut(first, piece.count); };
        AdamW own = options;
        if (!piece.decays) own.weight_decay = 0;
        adamw(bench.me, cut(apart.parameter), cut(apart.master), cut(apart.m), cut(apart.v), cut(apart.gradient), own,
              factor, {}, skipped);
        first += piece.count;
      }
      EXPECT_TRUE(bench.read(at_once.master) == bench.read(apart.master));
      EXPECT_TRUE(bench.read(at_once.m) == bench.read(apart.m));
      EXPECT_TRUE(bench.read(at_once.v) == bench.read(apart.v));
      EXPECT_TRUE(bench.read(at_once.parameter) == bench.read(apart.parameter));
    }
}

TEST(Random, EveryShardingDrawsTheSame) {
  Bench one(1), two(2);
  constexpr std::size_t kSize = 10007;
  const Random key{1, 2, 3, 0};
  for (DType dtype : kFloating) {
    Slice normal = one.poisoned(kSize, dtype), uniform = one.poisoned(kSize, dtype);
    random_normal(one.me, normal, key, 0.5f, 2);
    random_uniform(one.me, uniform, key, -1, 3);
    Slice cut_normal = two.poisoned(kSize, dtype), cut_uniform = two.poisoned(kSize, dtype);
    for (std::size_t first = 0, n = 1; first < kSize; first += n, n = std::min(3 * n + 1, kSize - first)) {
      const Random shard{1, 2, 3, first};
      random_normal(two.me, cut_normal.cut(first, n), shard, 0.5f, 2);
      random_uniform(two.me, cut_uniform.cut(first, n), shard, -1, 3);
    }
    EXPECT_TRUE(one.read(normal) == two.read(cut_normal));
    EXPECT_TRUE(one.read(uniform) == two.read(cut_uniform));
  }
}

// The draws that random_uniform shows choose the elements. Those kept are multiplied by 1 / (1 − p), rounded once.
TEST(Dropout, FollowsTheDraws) {
  Bench bench(2);
  for (DType dtype : kFloating)
    for (std::size_t n : {1, 63, 257, 5000})
      for (std::uint64_t first : {0ull, 77ull, (1ull << 40) + 5})
        for (float p : {0.0f, 0.1f, 0.5f, 0.999f}) {
          const Random key{1, 2, 3, first};
          Slice x = bench.normal(n, dtype), y = bench.poisoned(n, dtype), draws = bench.poisoned(n);
          random_uniform(bench.me, draws, key, 0, 1);
          dropout(bench.me, y, x, key, p);
          const Values in = bench.read(x), draw = bench.read(draws), out = bench.read(y);
          Values exact(n), magnitude(n);
          for (std::size_t i = 0; i < n; ++i) {
            exact[i] = draw[i] < static_cast<double>(p) ? 0 : in[i] / (1 - static_cast<double>(p));
            magnitude[i] = std::fabs(exact[i]);
            ASSERT_TRUE(exact[i] != 0 || out[i] == 0) << i;
          }
          expect_near(out, exact, dtype, 3, magnitude, "dropout");
          dropout(bench.me, x, x, key, p);
          EXPECT_TRUE(bench.read(x) == out) << "in place";
        }
}

TEST(Dropout, EveryShardingDropsTheSame) {
  Bench one(1), two(2);
  constexpr std::size_t kSize = 10007;
  for (DType dtype : kFloating) {
    Slice x = one.normal(kSize, dtype), y = one.poisoned(kSize, dtype), cut = two.normal(kSize, dtype);
    dropout(one.me, y, x, {1, 2, 3, 7}, 0.25f);
    for (std::size_t first = 0, n = 1; first < kSize; first += n, n = std::min(3 * n + 1, kSize - first))
      dropout(two.me, cut.cut(first, n), cut.cut(first, n), {1, 2, 3, 7 + first}, 0.25f);
    EXPECT_TRUE(one.read(y) == two.read(cut));
  }
}

// With a Philox key of 0, the words of counter 0 begin with 0x6627e8d5 and 0xe169c58d (functions_test.cpp), which are
// 0.39905 and 0.88052 of 2³². They decide on elements 0 and 64.
TEST(Dropout, KnownDrawsAndShares) {
  Bench bench;
  const std::uint64_t becomes_zero = 0 - std::uint64_t{0x9e3779b97f4a7c15};
  const Random zero{.step = mix(mix(0)) ^ becomes_zero};
  Slice y = bench.poisoned(65), three = bench.constant(65, 3);
  const auto kept = [&](float p, std::size_t i) {
    dropout(bench.me, y, three, zero, p);
    return bench.read(y)[i] != 0;
  };
  EXPECT_TRUE(kept(0.3990f, 0) && !kept(0.3991f, 0));
  EXPECT_TRUE(kept(0.8805f, 64) && !kept(0.8806f, 64));

  constexpr double kDraws = 1 << 20;
  Slice x = bench.constant(1 << 20, 1);
  for (float p : {0.1f, 0.5f}) {
    dropout(bench.me, x, bench.constant(1 << 20, 1), {42}, p);
    double dropped = 0, sum = 0;
    for (double value : bench.read(x)) dropped += value == 0, sum += value;
    EXPECT_NEAR(dropped / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws));
    EXPECT_NEAR(sum / kDraws, 1, 5 * std::sqrt(p / (1 - p) / kDraws));
  }
}

TEST(Random, KeysAreIndependent) {
  Bench bench;
  const auto draw = [&](Random key) {
    Slice x = bench.poisoned(1000);
    random_normal(bench.me, x, key, 0, 1);
    return bench.read(x);
  };
  const Values base = draw({1, 1, 1, 0});
  for (const Random& key : {Random{2, 1, 1, 0}, Random{1, 2, 1, 0}, Random{1, 1, 2, 0}, Random{1, 1, 1, 1000},
                            Random{1, 1, 1, std::uint64_t{1} << 40}}) {
    const Values other = draw(key);
    double covariance = 0;
    for (std::size_t i = 0; i < base.size(); ++i) covariance += base[i] * other[i] / 1000;
    EXPECT_LT(std::fabs(covariance), 5 / std::sqrt(1000));  // five standard deviations
  }
}

// Moments within five standard errors of a million draws; the share beyond two deviations is 4.55 %.
TEST(Random, Distributions) {
  Bench bench;
  constexpr double kDraws = 1 << 20;
  Slice x = bench.poisoned(1 << 20);
  random_normal(bench.me, x, {42}, 0, 1);
  double mean = 0, square = 0, cube = 0, fourth = 0, beyond = 0;
  for (double value : bench.read(x)) {
    mean += value / kDraws;
    square += value * value / kDraws;
    cube += value * value * value / kDraws;
    fourth += value * value * value * value / kDraws;
    beyond += std::fabs(value) > 2 ? 1 / kDraws : 0;
  }
  const double error = 5 / std::sqrt(kDraws);
  EXPECT_NEAR(mean, 0, error);
  EXPECT_NEAR(square, 1, error * std::sqrt(2));
  EXPECT_NEAR(cube, 0, error * std::sqrt(15));
  EXPECT_NEAR(fourth, 3, error * std::sqrt(96));
  EXPECT_NEAR(beyond, 0.0455, error * 0.21);

  random_uniform(bench.me, x, {42}, 2, 3);
  double sum = 0, low = 9, high = 0;
  for (double value : bench.read(x)) {
    sum += value / kDraws;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_NEAR(sum, 2.5, error * 0.29);
  EXPECT_GE(low, 2);
  EXPECT_LT(high, 3);
}

}  // namespace
}  // namespace lockstep::testing
