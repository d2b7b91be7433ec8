// Every number of docs/theory/week22.md.
#include <gtest/gtest.h>

#include <cmath>

#include "common/runtime/run.hpp"
#include "labs/week22_zero/fsdp.hpp"
#include "labs/week22_zero/hsdp.hpp"
#include "labs/week22_zero/mixed_precision_testing.hpp"
#include "labs/week22_zero/serial_step_testing.hpp"
#include "tools/plan/flops.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

using namespace week22;

Page& theory() {
  static Page page("docs/theory/week22.md");
  return page;
}
template <class... Numbers>
void theory_says(const std::string& words, const Numbers&... numbers) {
  theory().says(words, {numbers...});
}

class Week22 : public Programs {};

/// Bytes that AdamW reads and writes for each parameter: seconds on a machine that moves a byte per second.
double moved_by_adamw(DType dtype) {
  constexpr std::size_t kCount = 1000;
  const RunOptions options{.machine = Machine::uniform(0, 0, 3), .phantom = true};
  return run(options,
             [&](Rank me) {
               const auto memory = [&](DType type) { return me.allocate(kCount, type, Category::buffer); };
               const Slice master = memory(DType::f32), values = dtype == DType::f32 ? master : memory(dtype);
               adamw(me, values, master, memory(DType::f32), memory(DType::f32), memory(dtype), {});
               return Values{};
             })
             .check()
             .seconds /
         kCount;
}

/// A step of GPT-2 124M, 8 sequences of 1,024 tokens, on an A100.
SerialStep small_step(DType storage, AttentionKind attention = AttentionKind::flash,
                      Recompute recompute = Recompute::none) {
  GptConfig model = gpt_preset("gpt2-124m");
  model.storage = storage;
  model.attention = attention;
  const SerialStep step = step_of(model, recompute, find_machine("dgx-a100", kMachines));
  EXPECT_EQ(step.memory.peak_of(Category::activation), activation_bytes(model, 8, model.context, recompute));
  return step;
}

std::string activations(const SerialStep& step) {
  return fixed(static_cast<double>(step.memory.peak_of(Category::activation)) / (1 << 30), 2);
}

TEST_F(Week22, Zero) {
  const auto recipe = [](const std::string& name, const Recipe& r) {
    const std::string master = r.master > 0 ? fixed(r.master) : "–", moment = fixed(r.moments / 2);
    theory_says("| " + name + " | {} | {} | {} | {} | {} | {} |", fixed(r.parameter), fixed(r.gradient), master, moment,
                moment, fixed(model_state(1, 0, 1, r).total_bytes()));
  };
  recipe("16 bits", recipe_of(DType::bf16));
  recipe("fp32", recipe_of(DType::f32));
  recipe("16 bits, updated in place", recipe_of(DType::bf16, false));
  const auto times = [](int stage) { return fixed(state_gb(1, 0, 8) / state_gb(1, stage, 8), 1); };
  theory_says("at p = 8 they are {} and {}.", times(1), times(2));
  theory_says("at stage 2 GPT-3 still needs {} GB of parameters on every GPU",
              fixed(175 * recipe_of(DType::bf16).parameter));
  theory_says("At stage 3, {} GB take {} GPUs of 80 GB", fixed(state_gb(175e9, 0, 1)),
              fixed(fewest_ranks(175e9, 3, {}, 80e9)));
  theory_says("really allocated: {}, {}, {} and {} GB.", fixed(state_gb(100e6, 0, 2), 3),
              fixed(state_gb(100e6, 1, 2), 3), fixed(state_gb(100e6, 2, 2), 3), fixed(state_gb(100e6, 3, 2), 3));

  EXPECT_EQ(moved_by_adamw(DType::f32), moved_by_adamw(DType::bf16));
  theory_says("AdamW moves {} bytes per parameter (in fp32 and in bf16)", fixed(moved_by_adamw(DType::bf16)));
  const auto ms = [&](int stage, const char* field) {
    return 1e3 * zero_step("dgx-a100", 8, 2048, stage).at(field).get<double>();
  };
  theory_says("For GPT-2 355M on 8 A100: {} ms of DDP's step of {} ms; with ZeRO-1 {}.",
              fixed(ms(0, "optimizer_seconds"), 1), fixed(ms(0, "seconds")), fixed(ms(1, "optimizer_seconds"), 2));

  const GptConfig model = gpt_preset("gpt2-355m");
  const std::size_t table = model.vocabulary * model.d_model;
  EXPECT_NEAR(static_cast<double>(model.parameters()) / static_cast<double>(table), 7, 0.2) << "a seventh of the model";
  const auto exposed = [](const Json& step) {
    return fixed(100 * step.at("exposed_seconds").get<double>() / step.at("communication_seconds").get<double>());
  };
  theory_says("FSDP then exposes {} % of its communication for GPT-2 355M on 8 A100 ({} units, ",
              exposed(zero_step("dgx-a100", 8, 2048, 3)),
              fixed(static_cast<double>(wrap(gpt_parameter_table(model), {}).size())));
  theory_says("{} % of that of `small`, a model of 4 blocks, on `--machine laptop`",
              exposed(row("bench_zero_sim --model small --batch 8 --phantom --machine laptop --ranks 4 --stages 3",
                          [](const Json& each) { return each.contains("seconds"); })));
  const auto throughput = [&](const std::string& words, const char* machine, int ranks, int tokens) {
    theory_says(words, fixed(of_ddp(machine, ranks, tokens, 1), 2), fixed(of_ddp(machine, ranks, tokens, 2), 2),
                fixed(of_ddp(machine, ranks, tokens, 3), 2));
  };
  theory().cites("the table's unit", {"throughput of DDP = 1:"});
  throughput("| PCIe box, 4 RTX 4090 | 2,048 | {} | {} | **{}** |", "pcie-box", 4, 2048);
  throughput("| | 4,096 | {} | {} | {} |", "pcie-box", 4, 4096);
  throughput("| | 8,192 | {} | {} | {} | | 8 A100", "pcie-box", 4, 8192);
  throughput("| 8 A100, NVLink | 2,048 | {} | {} | **{}** |", "dgx-a100", 8, 2048);
  throughput("| | 8,192 | {} | {} | {} | | 16 A100", "dgx-a100", 8, 8192);
  throughput("| 16 A100, 10 GbE | 8,192 | {} | {} | **{}** |", "dgx-a100-10gbe", 16, 8192);
  theory().cites("the course text, docs/claims.md",
                 {"So \"FSDP costs 5–15 %\" is true", "The often-quoted \"5–15 %\""});

  const auto least = full_sharding_bytes({1 << 20, 8, 1}, 1).across / hybrid_bytes({1 << 20, 8, 1}, 1).across;
  theory_says("hybrid sharding is faster by a factor of {}m or more", fixed(least, 1));
  const LevelBytes full = full_sharding_bytes({2, 4, 1}, 1), hybrid = hybrid_bytes({2, 4, 1}, 1);
  theory_says("(3(p − 1)/p) : (3(g − 1)/g + 2(k − 1)/p), {} % for g = 4 of 8",
              fixed(100 * ((full.inside + full.across) / (hybrid.inside + hybrid.across) - 1)));
}

TEST_F(Week22, SixteenBits) {
  const auto largest = [](int exponent_bits, int fraction_bits) {
    return (2 - std::exp2(-fraction_bits)) * std::exp2((1 << (exponent_bits - 1)) - 1);
  };
  theory_says("| fp32 | 8 bits | 23 | 2⁻²³ | {}·10³⁸ |", fixed(largest(8, 23) / 1e38, 1));
  theory_says("| bf16 | 8 | 7 | 2⁻⁷ | {}·10³⁸ |", fixed(largest(8, 7) / 1e38, 1));
  theory_says("| fp16 | 5 | 10 | 2⁻¹⁰ | {} |", fixed(largest(5, 10)));
  theory().cites("the ring's", {"a ring in bf16 rounds p − 1 times"});
  theory_says("{} updates of 2⁻¹² bring a weight of 1 to {};", fixed(512), fixed(1 + 512 * 0x1p-12, 3));

  Recipe half = recipe_of(DType::bf16), wide = half;
  wide.gradient = 4;
  const Recipe whole = recipe_of(DType::f32);
  theory_says("in 16 bits are {} + {} bytes per parameter, the master {}, AdamW's moments {}: {}.",
              fixed(half.parameter), fixed(half.gradient), fixed(half.master), fixed(half.moments),
              fixed(1e9 * state_gb(1, 0, 1)));
  theory_says("In fp32 it is {} + {} + {} = {},", fixed(whole.parameter), fixed(whole.gradient), fixed(whole.moments),
              fixed(model_state(1, 0, 1, whole).total_bytes()));
  theory_says("(Megatron-LM) it is even {}.", fixed(model_state(1, 0, 1, wide).total_bytes()));
  const SerialStep fp32 = small_step(DType::f32), bf16 = small_step(DType::bf16);
  theory().cites("the example's", {"GPT-2 124M, 8 sequences of 1,024 tokens"});
  theory_says("{} GB of state in fp32 and in bf16; activations fall from {} to {} GiB, the step from {} to {} ms.",
              fixed(state_gb(static_cast<double>(gpt_preset("gpt2-124m").parameters()), 0, 1), 2), activations(fp32),
              activations(bf16), fixed(1e3 * fp32.seconds), fixed(1e3 * bf16.seconds));

  const auto seen = run({},
                        [](Rank me) {
                          return Values{100 * lost_share(me, DType::f16, 0, kFactor),
                                        100 * lost_share(me, DType::f16, 65536, kFactor),
                                        100 * lost_share(me, DType::bf16, 0, kFactor),
                                        learned(me, DType::f32, 0, 60),
                                        learned(me, DType::bf16, 0, 60),
                                        learned(me, DType::f16, 0, 60),
                                        learned(me, DType::f16, 0x1p40f, 80)};
                        })
                        .check()
                        .values[0];
  theory_says(
      "fp16 rounds **{} %** of all gradients that fp32 has to 0; with S = 2¹⁶ **less than {} %**; bf16 **none**",
      fixed(seen[0]), fixed(std::ceil(10 * seen[1]) / 10, 1));
  EXPECT_EQ(seen[2], 0) << "bf16 none";
  theory_says(
      "After {} steps the losses are {} (fp32), {} (bf16), **{}** (fp16) and, after {}, of which the first only",
      fixed(60), fixed(seen[3], 2), fixed(seen[4], 2), fixed(seen[5], 1), fixed(80));
  theory_says("{} (fp16 with a scale), from ln 29 = {}.", fixed(seen[6], 2), fixed(std::log(29), 2));
  theory().cites("22.5's own", {"with S = 2¹⁶"});
  theory_says("After {} good steps in a row try 2S.", fixed(LossScaler{}.growth_interval));
}

TEST_F(Week22, Activations) {
  const auto bytes = [](std::size_t heads, std::size_t channels) {  // of a row with flash attention
    return static_cast<double>(
        block_activation_bytes({1, 1, heads, channels, AttentionKind::flash}, DType::bf16, 1, Recompute::none));
  };
  const double channel = (bytes(1, 8) - bytes(1, 4)) / 4, head = bytes(2, 4) - bytes(1, 4);
  theory_says("| total | **{}**: {}sbh bytes in 16 bits |", fixed(channel / 2), fixed(channel));
  theory_says("| {} bytes per row; {} bytes per row and head |", fixed(bytes(1, 4) - 4 * channel - head), fixed(head));

  const GptConfig gpt3 = gpt_preset("gpt3-175b"), small = gpt_preset("gpt2-124m");
  const BlockShape block{1, gpt3.context, gpt3.heads, gpt3.d_model, AttentionKind::materialised};
  const auto number = [](std::size_t value) { return static_cast<double>(value); };
  const auto saved = [&](Recompute how) {  // by the one block whose bytes a second one does not add
    const auto all = [&](std::size_t layers, Recompute r) {
      return number(block_activation_bytes(block, DType::bf16, layers, r));
    };
    return all(2, Recompute::none) - all(2, how);
  };
  const auto price = [&](Recompute how) { return recomputed_flop(block, how) / saved(how); };
  theory_says("(a = {}, s = {}, h = {}) are half of a block's bytes", fixed(number(gpt3.heads)),
              fixed(number(gpt3.context)), fixed(number(gpt3.d_model)));
  theory_says("h/2a = {} FLOP per byte saved. Full recomputation pays {} FLOP per byte.",
              fixed(price(Recompute::selective)), rounded(price(Recompute::full), 2));
  EXPECT_NEAR(saved(Recompute::selective) / number(block_activation_bytes(block, DType::bf16, 1, Recompute::none)), 0.5,
              0.01);
  EXPECT_NEAR(recomputed_flop(block, Recompute::selective) / (3 * block_forward_flop(block)), 0.0025, 0.0005);
  theory_says("the overhead in FLOP is {} % of the blocks' work",
              fixed(100 * recomputed_flop(block, Recompute::full) / (3 * block_forward_flop(block))));
  const plan::TokenFlop token = plan::token_flop(small, small.context);
  EXPECT_NEAR(token.head / token.sum(), 0.3, 0.02) << "three tenths of whose work is the head";

  theory().cites("the example's", {"GPT-2 124M, bf16, 8 × 1,024 tokens"});
  const auto line = [&](const std::string& name, AttentionKind attention, Recompute recompute) {
    const SerialStep step = small_step(DType::bf16, attention, recompute);
    theory_says("| " + name + " | {} | {} | {} ms |", activations(step), fixed(step.flop / 1e12, 2),
                fixed(1e3 * step.seconds, 1));
    return step;
  };
  const SerialStep none = line("flash, none", AttentionKind::flash, Recompute::none),
                   full = line("flash, full", AttentionKind::flash, Recompute::full);
  line("materialised, none", AttentionKind::materialised, Recompute::none);
  line("materialised, selective", AttentionKind::materialised, Recompute::selective);
  line("materialised, full", AttentionKind::materialised, Recompute::full);
  theory_says("{} % for GPT-2 124M,", fixed(100 * (full.flop / none.flop - 1)));
  theory_says("Of the {} GiB that full recomputation leaves, {} are logits: with a vocabulary of {}", activations(full),
              fixed(8 * number(small.context * small.vocabulary) * 2 / (1 << 30), 2), fixed(number(small.vocabulary)));
  theory_says("For L = {} that is {}:", fixed(number(gpt3.layers)), fixed(std::sqrt(number(gpt3.layers) / 16), 1));
}

TEST_F(Week22, Papers) {
  theory().cites(
      "arXiv 1910.02054, sections 1, 3.1, 5 and 7",
      {"Claims: 16 bytes per parameter; stages 1, 2 and 3 divide 12, 14 and 16 of them by p; stages 1 and 2 "
       "send as much as data parallelism, stage 3 1.5 times as much; a trillion parameters fit on 1,024 GPUs."});
  theory().cites("arXiv 2304.11277, abstract, sections 3.2.2 and 5",
                 {"backward prefetch is worth 18 % (GPT-175B on 128 GPUs)", "near-linear TFLOPS to 512 GPUs",
                  "(their section 3.2.2)"});
  theory().cites("blog.eleuther.ai/transformer-math", {"Claims: 12 to 16 bytes per parameter"});
  theory().cites("arXiv 1710.03740", {"their sections 3.1 to 3.3"});
  theory().cites(
      "arXiv 2205.05198, abstract and section 1",
      {"needs 5 × less activation memory, and removes over 90 % of the overhead of full recomputation (30–40 "
       "% of the time, as measured there)"});
}

TEST_F(Week22, EveryNumberIsComputedOrCited) { theory().expect_all_known(); }

}  // namespace
}  // namespace lockstep::numbers
