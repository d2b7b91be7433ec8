// Attention by a library compared with the CPU's: cuDNN's on a GPU, and on the fake GPU its replacement, which locates
// tensors by the same layout. Skipped in programs without a library.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "common/devices/cuda/attention_library.hpp"
#include "common/devices/cuda/attention_origins.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/tests/against_cpu.hpp"

namespace lockstep::testing {
namespace {

/// Sets LOCKSTEP_ATTENTION during its lifetime; a device reads it when it is made.
class Asking {
 public:
  explicit Asking(const char* choice) {
    if (const char* before = std::getenv("LOCKSTEP_ATTENTION")) before_ = before;
    setenv("LOCKSTEP_ATTENTION", choice, 1);
  }
  ~Asking() { before_.empty() ? unsetenv("LOCKSTEP_ATTENTION") : setenv("LOCKSTEP_ATTENTION", before_.c_str(), 1); }
  Asking(const Asking&) = delete;

 private:
  std::string before_;
};

struct AsksForCudnn {
  Asking asking{"cudnn"};
};

struct LibraryAttention : AsksForCudnn, AgainstCpu {
  void SetUp() override {
    if (cuda::attention_library_name().empty()) GTEST_SKIP() << "this program has no cuDNN";
    cuda::attention_origins().forget();
  }

  struct Results {
    Slice y, log_sums, dqkv;
  };
  static std::size_t rows(AttentionShape s) { return s.batch * s.positions * s.heads; }
  static std::size_t qkv_size(AttentionShape s) {
    return s.batch * s.positions * (s.heads + 2 * s.key_value_heads()) * s.head_size;
  }
  /// A slice aligned to 16 bytes, as libraries require; the tests' other slices begin anywhere.
  static Slice placed(Bench& bench, std::size_t n, DType dtype) {
    const Slice room = bench.poisoned(n + 8, dtype);
    std::size_t first = 0;
    while (reinterpret_cast<std::uintptr_t>(room.cut(first, n).data()) % 16 != 0) ++first;
    return room.cut(first, n);
  }
  std::pair<Slice, Slice> placed_normal(std::size_t n, DType dtype) {
    const auto [anywhere, of_cpu] = normal(n, dtype);
    const Slice of_gpu = placed(gpu, n, dtype);
    copy(gpu.me, of_gpu, anywhere);
    return {of_gpu, of_cpu};
  }
  static Results attend(Bench& forward, Bench& backward, const Slice& qkv, const Slice& dy, AttentionShape shape) {
    Results results{placed(forward, dy.size(), dy.dtype()), placed(forward, rows(shape), DType::f32),
                    placed(forward, qkv.size(), qkv.dtype())};
    attention(forward.me, results.y, results.log_sums, qkv, shape);
    (void)forward.read(results.y);  // the other stream begins when this one is done
    attention_backward(backward.me, results.dqkv, dy, results.y, qkv, results.log_sums, shape);
    (void)backward.read(results.dqkv);
    return results;
  }
  void expect_close(const Slice& of_gpu, const Slice& of_cpu, DType rounded_to, const char* what) {
    std::vector<double> off = gpu.read(of_gpu);
    const std::vector<double> exact = cpu.read(of_cpu);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < off.size(); ++i) {
      error += (off[i] - exact[i]) * (off[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    // Probabilities, the result and, in the backward, y and the gradient of scores are rounded here, but not all of
    // them there: a few roundings on average.
    EXPECT_LE(std::sqrt(error), 4 * rounding(rounded_to) * std::sqrt(size)) << what;
  }
  /// Runs a shape once forward and backward on the GPU, with devices `forward` and `backward`, and once on the CPU.
  void expect_that_of_the_cpu(Bench& forward, Bench& backward, AttentionShape shape, DType dtype) {
    SCOPED_TRACE(fmt::format("{} × {} × {} × {}, {} of k, {}", shape.batch, shape.positions, shape.heads,
                             shape.head_size, shape.key_value_heads(), to_string(dtype)));
    const auto [qkv, qkv_cpu] = placed_normal(qkv_size(shape), dtype);
    const auto [dy, dy_cpu] = placed_normal(rows(shape) * shape.head_size, dtype);
    const Results ours = attend(forward, backward, qkv, dy, shape), exact = attend(cpu, cpu, qkv_cpu, dy_cpu, shape);
    expect_close(ours.y, exact.y, dtype, "y");
    expect_close(ours.log_sums, exact.log_sums, dtype, "log-sum-exp");
    expect_close(ours.dqkv, exact.dqkv, dtype, "dqkv");
  }
};

const AttentionShape kShapes[] = {{1, 2, 1, 8},      {2, 65, 2, 64},      {1, 300, 3, 64},
                                  {2, 128, 2, 128},  {1, 129, 2, 40},     {1, 130, 8, 16, 4},
                                  {2, 65, 4, 64, 2}, {1, 256, 8, 128, 1}, {3, 500, 2, 64, 1}};

TEST_F(LibraryAttention, IsThatOfTheCpu) {
  std::uint64_t operations = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const AttentionShape& shape : kShapes) {
      expect_that_of_the_cpu(gpu, gpu, shape, dtype);
      operations += 2;
    }
  const cuda::AttentionOrigins::Counts counts = cuda::attention_origins().counts();
  EXPECT_EQ(counts.by_library, operations) << "refused: " << counts.refusal;
}

// Data that one pass keeps for the other is the same for both implementations.
TEST_F(LibraryAttention, AndOursShareOneOperation) {
  const Asking for_ours("ours");
  Bench our_kernels(1);
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const AttentionShape& shape : {AttentionShape{2, 65, 2, 64}, {1, 130, 8, 16, 4}}) {
      expect_that_of_the_cpu(gpu, our_kernels, shape, dtype);
      expect_that_of_the_cpu(our_kernels, gpu, shape, dtype);
    }
  EXPECT_EQ(cuda::attention_origins().counts().by_library, 8u);
}

TEST_F(LibraryAttention, GivesTheSameBitsAgain) {
  const AttentionShape shape{2, 257, 4, 64, 2};
  const Slice qkv = placed_normal(qkv_size(shape), DType::bf16).first;
  const Slice dy = placed_normal(rows(shape) * shape.head_size, DType::bf16).first;
  const Results first = attend(gpu, gpu, qkv, dy, shape), again = attend(gpu, gpu, qkv, dy, shape);
  EXPECT_EQ(gpu.read_bits<std::uint16_t>(first.y), gpu.read_bits<std::uint16_t>(again.y));
  EXPECT_EQ(gpu.read_bits<std::uint32_t>(first.log_sums), gpu.read_bits<std::uint32_t>(again.log_sums));
  EXPECT_EQ(gpu.read_bits<std::uint16_t>(first.dqkv), gpu.read_bits<std::uint16_t>(again.dqkv));
  EXPECT_EQ(cuda::attention_origins().counts().by_library, 4u);
}

TEST_F(LibraryAttention, WhatItDoesNotTakeIsDoneByOursAndCounted) {
  const std::uint64_t before = cuda::slow_paths().attentions_not_by_library;
  expect_that_of_the_cpu(gpu, gpu, {1, 40, 2, 12}, DType::bf16);
  EXPECT_EQ(cuda::attention_origins().counts().refusal, "heads of 12, not a multiple of 8");
  expect_that_of_the_cpu(gpu, gpu, {1, 40, 2, 64}, DType::f32);
  EXPECT_EQ(cuda::slow_paths().attentions_not_by_library, before + 4);
  EXPECT_EQ(cuda::attention_origins().counts().by_ours, 4u);
  EXPECT_EQ(cuda::attention_origins().counts().by_library, 0u);
}

}  // namespace
}  // namespace lockstep::testing
