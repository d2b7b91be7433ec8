// Measures what the course texts say about mixed precision and checkpointing: docs/learn/claims.md has the verdicts.
// Prints a line for each.
//
//   ./lab test --all -R suite.claims.week22 -V
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/run.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week22_zero/serial_step_testing.hpp"

namespace lockstep::week22 {
namespace {

template <class... Args>
void say(const char* format, Args... args) {
  fmt::print("  measured: {}\n", fmt::format(fmt::runtime(format), args...));
}

Machine a100() { return find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines"); }

/// A preset's, stored so.
SerialStep step_of(const std::string& model, DType storage, Recompute recompute, Machine machine,
                   std::size_t sequences = 8) {
  GptConfig config = gpt_preset(model);
  config.storage = storage;
  return step_of(config, recompute, std::move(machine), sequences);
}

double state_bytes(const Memory& memory) {
  return static_cast<double>(memory.peak_of(Category::parameter) + memory.peak_of(Category::gradient) +
                             memory.peak_of(Category::optimizer));
}

// C: "Benefit: 2× memory reduction (FP16 vs FP32)".
TEST(ClaimsWeek22, MixedPrecisionHalvesActivationsAndNothingElse) {
  const SerialStep fp32 = step_of("gpt2-124m", DType::f32, Recompute::none, a100());
  const SerialStep bf16 = step_of("gpt2-124m", DType::bf16, Recompute::none, a100());
  const double activations = static_cast<double>(bf16.memory.peak_of(Category::activation)) /
                             static_cast<double>(fp32.memory.peak_of(Category::activation));
  say("GPT-2 124M: model state {:.3f} and {:.3f} GB in fp32 and bf16; activations of 8 × 1,024 tokens fall to {:.3f}; "
      "in all to {:.2f}",
      state_bytes(fp32.memory) / 1e9, state_bytes(bf16.memory) / 1e9, activations,
      static_cast<double>(bf16.memory.peak_total) / static_cast<double>(fp32.memory.peak_total));
  EXPECT_EQ(state_bytes(fp32.memory), state_bytes(bf16.memory));
  EXPECT_EQ(state_bytes(bf16.memory), 16.0 * static_cast<double>(gpt_preset("gpt2-124m").parameters()));
  EXPECT_NEAR(activations, 0.5, 0.002);
}

// C: "2-3× speedup on tensor cores".
TEST(ClaimsWeek22, SpeedDependsOnWhatFp32Meant) {
  const double bf16 = step_of("gpt2-124m", DType::bf16, Recompute::none, a100()).seconds;
  const double fp32 = step_of("gpt2-124m", DType::f32, Recompute::none, a100()).seconds;
  Machine tf32 = a100();
  tf32.peak_flop_per_second[static_cast<std::size_t>(DType::f32)] = 156e12;  // NVIDIA's data sheet, tensor cores
  const double tensor = step_of("gpt2-124m", DType::f32, Recompute::none, tf32).seconds;
  say("GPT-2 124M on an A100: a step in bf16 {:.1f} ms; in fp32 {:.1f} ms, {:.1f} times; in fp32 through TF32 {:.1f} "
      "ms, {:.2f} times",
      1e3 * bf16, 1e3 * fp32, fp32 / bf16, 1e3 * tensor, tensor / bf16);
  EXPECT_GT(fp32 / bf16, 10);
  EXPECT_GT(tensor / bf16, 1.8);
  EXPECT_LT(tensor / bf16, 3);
}

// C: "Communication bandwidth halved".
TEST(ClaimsWeek22, SixteenBitSumsHalveTheBytes) {
  const auto sent = [](DType reduce) {
    const Outcome outcome = run(RunOptions{.ranks = 8, .phantom = true}, [&](Rank me) {
      Slice gradients = me.allocate(1 << 20, DType::bf16, Category::gradient);
      sum_in(me, gradients, reduce, week21::ring_all_reduce);
      return Values{};
    });
    return outcome.check().ledgers[3].traffic.bytes_sent;
  };
  say("2^20 gradients on 8 ranks: {} bytes sent by a rank in bf16, {} in fp32", sent(DType::bf16), sent(DType::f32));
  EXPECT_EQ(2 * sent(DType::bf16), sent(DType::f32));
}

// C: "Compute cost: ~33% slowdown".
TEST(ClaimsWeek22, CheckpointingCostsAThirdOfTheBlocks) {
  struct Row {
    const char* model;
    double low, high;
  };
  for (const Row& row : {Row{"gpt2-124m", 0.22, 0.26}, Row{"gpt2-1.5b", 0.28, 0.33}, Row{"gpt3-13b", 0.31, 0.34}}) {
    const SerialStep kept = step_of(row.model, DType::bf16, Recompute::none, a100(), 1);
    const SerialStep again = step_of(row.model, DType::bf16, Recompute::full, a100(), 1);
    say("{}: {:.1f}% more FLOP, {:.1f}% more time, activations {:.2f} of what they were", row.model,
        100 * (again.flop / kept.flop - 1), 100 * (again.seconds / kept.seconds - 1),
        static_cast<double>(again.memory.peak_of(Category::activation)) /
            static_cast<double>(kept.memory.peak_of(Category::activation)));
    EXPECT_GT(again.flop / kept.flop - 1, row.low) << row.model;
    EXPECT_LT(again.flop / kept.flop - 1, row.high) << row.model;
  }
}

}  // namespace
}  // namespace lockstep::week22
