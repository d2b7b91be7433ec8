// Several threads: bit-identical to one, every chunk exactly once, and concurrent callers.
#include "common/devices/cpu/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/devices/cpu/cpu_device.hpp"
#include "common/devices/tests/host_workplace.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

TEST(Threads, EveryChunkOnce) {
  for (int count : {1, 2, 5}) {
    cpu::Threads threads(count);
    for (std::size_t n : {0, 1, 9, 10, 11, 1000})
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> seen(n);
        threads.chunks(n, 10, [&](std::size_t first, std::size_t last) {
          EXPECT_EQ(first % 10, 0u);
          EXPECT_TRUE(last == n || last == first + 10);
          for (std::size_t i = first; i < last; ++i) ++seen[i];
        });
        for (const auto& times : seen) ASSERT_EQ(times, 1);
      }
  }
}

TEST(Threads, CallersAtTheSameTime) {
  cpu::Threads threads(3);
  std::atomic<int> total{0};
  const auto call = [&] {
    for (int i = 0; i < 300; ++i)
      threads.chunks(64, 1, [&](std::size_t first, std::size_t last) { total += static_cast<int>(last - first); });
  };
  std::thread other(call), another(call);
  call();
  other.join();
  another.join();
  EXPECT_EQ(total, 3 * 300 * 64);
}

TEST(Threads, NoneIsRefused) { EXPECT_THROW(make_cpu_device(0), Error); }

// Every operation whose order of sums could depend on threads, large enough to be split.
Values everything(Bench& bench, DType dtype) {
  constexpr std::size_t kBatch = 3, kSequence = 70, kHeads = 4, kHead = 16, kWidth = kHeads * kHead, kVocabulary = 999;
  constexpr std::size_t kRows = kBatch * kSequence, kSize = kRows * kWidth;
  const AttentionShape shape{kBatch, kSequence, kHeads, kHead};
  Rank me = bench.me;
  Values out;
  const auto keep = [&](const Slice& x) {
    const Values values = bench.read(x);
    out.insert(out.end(), values.begin(), values.end());
  };
  Slice qkv = bench.normal(3 * kSize, dtype), y = bench.poisoned(kSize, dtype), dqkv = bench.poisoned(3 * kSize, dtype);
  Slice log_sums = bench.poisoned(kRows * kHeads), dy = bench.normal(kSize, dtype);
  attention(me, y, log_sums, qkv, shape);
  attention_backward(me, dqkv, dy, y, qkv, log_sums, shape);
  keep(y), keep(dqkv);

  Slice weight = bench.normal(kWidth, dtype), bias = bench.normal(kWidth, dtype),
        statistics = bench.poisoned(2 * kRows);
  Slice normed = bench.poisoned(kSize, dtype), dx = bench.normal(kSize, dtype);
  layer_norm(me, normed, statistics, y, weight, bias);
  layer_norm_backward(me, dx, weight, bias, dy, y, weight, statistics, Into::accumulate);
  keep(normed), keep(dx), keep(weight), keep(bias);
  add_rows(me, bias, matrix(dy, kRows, kWidth));
  keep(bias);

  const auto tokens = bench.tokens(kRows, kVocabulary);
  Slice table = bench.normal(kVocabulary * kWidth, dtype), positions = bench.normal(kSequence * kWidth, dtype);
  embedding_backward(me, table, positions, dy, bench.integers(tokens), kSequence);
  keep(table), keep(positions);

  Slice logits = bench.normal(kRows * kVocabulary, dtype), loss = bench.of({0, 0, 0});
  cross_entropy(me, loss.cut(0, 1), logits, bench.integers(tokens), 0.5f);
  add_squares(me, loss.cut(1, 1), logits);
  add_sum(me, loss.cut(2, 1), logits);
  keep(loss), keep(logits);
  return out;
}

TEST(Threads, DoNotChangeBits) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Bench one(1), two(2), five(5);
    const Values expected = everything(one, dtype);
    EXPECT_TRUE(everything(two, dtype) == expected) << to_string(dtype);
    EXPECT_TRUE(everything(five, dtype) == expected) << to_string(dtype);
  }
}

// Several queues of one process share a device: each gets the result that it would get alone.
TEST(Threads, QueuesShareADevice) {
  Bench alone(1);
  const Values expected = everything(alone, DType::f32);
  const std::unique_ptr<Device> device = make_cpu_device(2);
  std::atomic<int> equal{0};
  const auto queue = [&] {
    Bench bench(std::make_unique<HostWorkplace>(*device));
    for (int i = 0; i < 3; ++i) {
      bench.generator.seed(1);
      equal += everything(bench, DType::f32) == expected;
    }
  };
  std::thread first(queue), second(queue);
  first.join();
  second.join();
  EXPECT_EQ(equal, 6);
}

}  // namespace
}  // namespace lockstep::testing
