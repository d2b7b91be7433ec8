// Measures what the course texts say about tensor parallelism: docs/learn/claims.md has the verdicts. Prints a line for
// each.
//
//   ./lab test --all -R suite.claims.week23 -V
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/gpt/model/serial.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/regions.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

namespace lockstep::week23 {
namespace {

template <class... Args>
void say(const char* format, Args... args) {
  fmt::print("  measured: {}\n", fmt::format(fmt::runtime(format), args...));
}

GptConfig course_model(std::size_t d_model = 512) {
  return {.layers = 12, .heads = 8, .d_model = d_model, .vocabulary = 50257, .context = 512, .storage = DType::bf16};
}

struct Seen {
  std::uint64_t sums = 0, bytes = 0, gathers = 0;  // in the blocks
  double communication = 0, pass = 0;              // seconds: sums in the blocks; the forward pass
  double parameters = 0;                           // bytes on a rank
  double flop = 0;                                 // of the forward pass, on a rank
};

/// One forward pass of 8 × `length` tokens, phantom.
Seen forward(const Machine& machine, int ranks, GptConfig config, std::size_t length = 512) {
  RunOptions options{.ranks = ranks, .machine = machine, .phantom = true, .check_races = false};
  const Outcome outcome = run(options, Program([&](Rank me) {
                                GptConfig own = config;
                                own.tensor = {me.rank(), me.size()};
                                Gpt gpt(me, own, 1);
                                gpt.use(make_tensor_layers(make_tensor_parallel(me, false), config.vocabulary));
                                Activations saved = gpt.allocate_activations(me, 8, length);
                                Batch batch{me.allocate(8 * length, DType::i32, Category::buffer),
                                            me.allocate(8 * length, DType::i32, Category::buffer), 8, length};
                                const double began = me.now(), before = ledger_of(me).flop;
                                gpt.forward(me, batch, saved);
                                return Values{me.now() - began, static_cast<double>(gpt.parameters().values.bytes()),
                                              ledger_of(me).flop - before};
                              }));
  outcome.check();
  Seen seen{.pass = outcome.values[0][0], .parameters = outcome.values[0][1], .flop = outcome.values[0][2]};
  for (const char* place : {"attention forward", "mlp forward"}) {
    const RegionTotal sums = testing::visits_to(outcome.ledgers[0], place);
    seen.sums += sums.visits;
    seen.bytes += sums.bytes;
    seen.communication += sums.seconds;
  }
  for (const RegionTotal& region : outcome.ledgers[0].regions)
    if (region.name.find("gather") != std::string::npos) seen.gathers += region.visits;
  return seen;
}

/// Two GPUs of the text: 32 GB/s in each direction and no latency; arithmetic of an A100.
Machine pcie_of_the_text() {
  Machine machine = find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines");
  machine.levels.front().latency = 0;
  machine.levels.front().bytes_per_second = 32e9;
  return machine;
}

TEST(ClaimsWeek23, TwentyFourSumsOfFourMegabytes) {
  const Seen seen = forward(pcie_of_the_text(), 2, course_model());
  say("12 layers, d_model 512, 8 × 512 tokens, bf16, p = 2: {} sums, {:.1f} MB, {:.2f} ms at 32 GB/s; {:.1f}% of a 50 "
      "ms pass, {:.0f}% of the {:.2f} ms that this pass takes on an A100",
      seen.sums, static_cast<double>(seen.bytes) / 1e6, seen.communication * 1e3, seen.communication / 50e-3 * 100,
      seen.communication / seen.pass * 100, seen.pass * 1e3);
  EXPECT_EQ(seen.sums, 24u);
  EXPECT_EQ(seen.bytes, 24u * 8 * 512 * 512 * 2);
  EXPECT_NEAR(seen.communication, 3.15e-3, 0.15e-3);  // and the additions
  EXPECT_LT(seen.pass, 10e-3) << "an A100 does not need the text's 50 ms";
  EXPECT_GT(seen.communication / seen.pass, 0.5) << "so that it is more than half of the pass, not 6%";
}

TEST(ClaimsWeek23, CommunicationIsLinearInDModelAndComputingQuadratic) {
  const Machine machine = find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines");
  const Seen narrow = forward(machine, 2, course_model(1024)), wide = forward(machine, 2, course_model(4096));
  const double bytes = static_cast<double>(wide.bytes) / static_cast<double>(narrow.bytes);
  const auto blocks = [&](std::size_t d_model) {  // ten blocks: what twelve have more than two
    GptConfig few = course_model(d_model);
    few.layers = 2;
    return forward(machine, 2, course_model(d_model)).flop - forward(machine, 2, few).flop;
  };
  const double flop = blocks(4096) / blocks(1024);
  say("d_model 4096 against 1024: {:.0f} times the bytes, {:.1f} times the FLOP; share of communication {:.1f} → "
      "{:.1f}%",
      bytes, flop, narrow.communication / narrow.pass * 100, wide.communication / wide.pass * 100);
  EXPECT_EQ(bytes, 4);
  EXPECT_NEAR(flop, 16, 1.5) << "the matrices' 16, and attention's scores and norms, which grow with d alone";
  EXPECT_LT(wide.communication / wide.pass, 0.5 * narrow.communication / narrow.pass);
}

TEST(ClaimsWeek23, NoGatherBetweenColumnAndRow) {
  const Seen seen = forward(pcie_of_the_text(), 4, course_model());
  say("p = 4: {} sums and {} gathers in the forward pass of 12 blocks", seen.sums, seen.gathers);
  EXPECT_EQ(seen.sums, 24u);
  EXPECT_EQ(seen.gathers, 0u);
}

/// y = x·Wᵀ, the whole of it, where two ranks split W by its output or its input features, or one has all of it.
Values product(int ranks, bool by_input, bool whole_numbers) {
  constexpr std::size_t kRows = 32, kIn = 300, kOut = 64;
  const std::size_t parts = static_cast<std::size_t>(ranks);
  const std::size_t in = by_input ? kIn / parts : kIn, out = by_input ? kOut : kOut / parts;
  const Outcome outcome =
      run({.ranks = ranks}, Program([&](Rank me) {
            const std::size_t rank = static_cast<std::size_t>(me.rank());
            const auto drawn = [&](std::uint64_t tensor, std::size_t first_row, std::size_t rows) {  // this rank's part
              Slice whole = me.allocate(kOut * kIn, DType::f32, Category::activation);
              random_normal(me, whole, {.seed = 1, .tensor = tensor}, 0, 1);
              std::vector<float> values = to_host(me, whole), own;
              for (std::size_t r = first_row; r < first_row + rows; ++r)
                for (std::size_t c = by_input ? rank * in : 0, end = c + in; c < end; ++c)
                  own.push_back(whole_numbers ? std::nearbyint(2 * values[r * kIn + c]) : values[r * kIn + c]);
              Slice slice = me.allocate(own.size(), DType::f32, Category::activation);
              upload(me, slice, own);
              return slice;
            };
            const Slice x = drawn(0, 0, kRows), weight = drawn(1, by_input ? 0 : rank * out, out);
            Slice y = me.allocate(kRows * out, DType::f32, Category::activation);
            const TensorParallel tp = make_tensor_parallel(me, false);
            if (by_input)
              row_forward(tp, y, x, {weight, {}}, kRows, "product");
            else
              column_forward(tp, y, x, {weight, {}}, kRows);
            const std::vector<float> seen = to_host(me, y);
            return Values(seen.begin(), seen.end());
          }));
  outcome.check();
  if (by_input) return outcome.values[0];
  Values whole;
  for (std::size_t r = 0; r < kRows; ++r)
    for (const Values& part : outcome.values)
      for (std::size_t c = 0; c < out; ++c) whole.push_back(part[r * out + c]);
  return whole;
}

TEST(ClaimsWeek23, SplitByInputFeaturesASumIsRegroupedAndByOutputFeaturesNone) {
  for (const bool by_input : {false, true})
    EXPECT_EQ(product(2, by_input, true), product(1, by_input, true)) << "whole numbers: exact in any order";
  const Values whole = product(1, true, false), sum = product(2, true, false);
  std::size_t differ = 0;
  double largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    differ += sum[i] != whole[i];
    largest = std::max(largest, std::abs(sum[i] - whole[i]));
  }
  say("x·Wᵀ with 300 input features, split by them over 2 ranks: {:.0f}% of the elements differ in their bits, by at "
      "most {:.0e}",
      100.0 * static_cast<double>(differ) / static_cast<double>(whole.size()), largest);
  EXPECT_GT(differ, whole.size() / 10) << "two partial sums, added: floating-point addition is not associative";
  EXPECT_LT(largest, 1e-4);
}

TEST(ClaimsWeek23, TheCliffBetweenNodes) {
  const Machine machine = find_machine("dgx-a100-hdr", LOCKSTEP_SOURCE_DIR "/bench/machines");
  GptConfig config = course_model(4096);
  config.heads = 32;
  const Seen four = forward(machine, 4, config), node = forward(machine, 8, config), two = forward(machine, 16, config);
  say("d_model 4096, forward pass on 4 / 8 A100 of a node and on 16 in two: {:.1f} / {:.1f} / {:.1f} ms, of which sums "
      "{:.0f} / {:.0f} / {:.0f}%",
      four.pass * 1e3, node.pass * 1e3, two.pass * 1e3, four.communication / four.pass * 100,
      node.communication / node.pass * 100, two.communication / two.pass * 100);
  EXPECT_LT(node.pass, four.pass);
  EXPECT_GT(two.pass, 2 * node.pass) << "twice the GPUs, and twice the time";
  EXPECT_GT(two.communication, 0.75 * two.pass);
}

TEST(ClaimsWeek23, ParametersAreHalvedButForWhatStaysWhole) {
  const Machine machine = find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines");
  const double one = forward(machine, 1, course_model()).parameters,
               two = forward(machine, 2, course_model()).parameters;
  say("parameters {:.1f} MB on one rank, {:.1f} MB on each of two: {:.4f} of it (positions, norms and two biases a "
      "block are whole)",
      one / 1e6, two / 1e6, two / one);
  EXPECT_GT(two / one, 0.5);
  EXPECT_LT(two / one, 0.51);
}

}  // namespace
}  // namespace lockstep::week23
