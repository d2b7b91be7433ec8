// Every number of docs/learn/theory/week22.md.
#include <gtest/gtest.h>

#include <cmath>

#include "common/runtime/run.hpp"
#include "labs/week22_zero/hsdp.hpp"
#include "labs/week22_zero/mixed_precision_testing.hpp"
#include "labs/week22_zero/serial_step_testing.hpp"
#include "labs/week22_zero/sharding_policy.hpp"
#include "tools/plan/flops.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

using namespace week22;

Page& theory() {
  static Page page("docs/learn/theory/week22.md");
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
  theory_says("Our {} billion parameters need {} GB.", fixed(7), fixed(state_gb(7e9, 0, 1)));
  theory_says("a model of {} billion parameters is a file of {} GB.", fixed(7),
              fixed(7 * recipe_of(DType::bf16).parameter));
  theory().cites("the example's own", {"a GPU of 80 GB"});
  theory_says(
      "7.5 billion parameters: {} GB at stage 0, {} GB at stage 1, {} GB at stage 2 and {} GB at stage 3, beside a GPU",
      fixed(state_gb(7.5e9, 0, 64)), fixed(state_gb(7.5e9, 1, 64), 1), fixed(state_gb(7.5e9, 2, 64), 1),
      fixed(state_gb(7.5e9, 3, 64), 2));
  theory().cites("the figure's model", {"for a model of 7.5 billion parameters on 64 GPUs",
                                        "what each of 64 GPUs holds for a model of 7.5 billion parameters"});
  theory().cites("the table's", {"so we end at 16 bytes again", "Training takes 16 bytes per parameter"});
  theory().cites("a formula", {"With m it sends (m + 1)/2 times as much"});
  theory().cites("docs/pictures/draw.py, from a run", {"A step of eight layers of 1 MiB", "which rises to 9 MiB"});
  theory_says("at stage 2 GPT-3 still needs {} GB of parameters on every GPU",
              fixed(175 * recipe_of(DType::bf16).parameter));
  theory_says("At stage 3, {} GB take {} GPUs of 80 GB", fixed(state_gb(175e9, 0, 1)),
              fixed(fewest_ranks(175e9, 3, {}, 80e9)));
  theory_says("100 million parameters on two ranks take {}, {}, {} and {} GB", fixed(state_gb(100e6, 0, 2), 3),
              fixed(state_gb(100e6, 1, 2), 3), fixed(state_gb(100e6, 2, 2), 3), fixed(state_gb(100e6, 3, 2), 3));
}

TEST_F(Week22, ZeroAgainstDdp) {
  EXPECT_EQ(moved_by_adamw(DType::f32), moved_by_adamw(DType::bf16));
  theory_says("AdamW moves {} bytes per parameter, and in fp32", fixed(moved_by_adamw(DType::bf16)));
  const auto ms = [&](int stage, const char* field) {
    return 1e3 * zero_step("dgx-a100", 8, 2048, stage).at(field).get<double>();
  };
  theory_says("For GPT-2 355M on 8 A100, AdamW takes {} ms of DDP's step of {} ms, and with ZeRO-1 it takes {}.",
              fixed(ms(0, "optimizer_seconds"), 1), fixed(ms(0, "seconds")), fixed(ms(1, "optimizer_seconds"), 2));

  const GptConfig model = gpt_preset("gpt2-355m");
  const std::size_t table = model.vocabulary * model.d_model;
  EXPECT_NEAR(static_cast<double>(model.parameters()) / static_cast<double>(table), 7, 0.2) << "a seventh of the model";
  const auto exposed = [](const Json& step) {
    return fixed(100 * step.at("exposed_seconds").get<double>() / step.at("communication_seconds").get<double>());
  };
  theory_says("FSDP then exposes {}% of its communication for GPT-2 355M on 8 A100 ({} units, ",
              exposed(zero_step("dgx-a100", 8, 2048, 3)),
              fixed(static_cast<double>(wrap(gpt_parameter_table(model), {}).size())));
  theory_says("It exposes {}% of that of `small`, a model of 4 blocks, on `--machine laptop`",
              exposed(row("bench_zero_sim --model small --batch 8 --phantom --machine laptop --ranks 4 --stages 3",
                          [](const Json& each) { return each.contains("seconds"); })));
  const auto throughput = [&](const std::string& words, const char* machine, int ranks, int tokens) {
    theory_says(words, fixed(of_ddp(machine, ranks, tokens, 1), 2), fixed(of_ddp(machine, ranks, tokens, 2), 2),
                fixed(of_ddp(machine, ranks, tokens, 3), 2));
  };
  throughput("| PCIe box, 4 RTX 4090 | 2,048 | {} | {} | **{}** |", "pcie-box", 4, 2048);
  throughput("| | 4,096 | {} | {} | {} |", "pcie-box", 4, 4096);
  throughput("| | 8,192 | {} | {} | {} | | 8 A100", "pcie-box", 4, 8192);
  throughput("| 8 A100, NVLink | 2,048 | {} | {} | **{}** |", "dgx-a100", 8, 2048);
  throughput("| | 8,192 | {} | {} | {} | | 16 A100", "dgx-a100", 8, 8192);
  throughput("| 16 A100, 10 GbE | 8,192 | {} | {} | **{}** |", "dgx-a100-10gbe", 16, 8192);
  theory().cites("the course text, docs/learn/claims.md",
                 {"So \"FSDP costs 5–15%\" is true", "The often-quoted \"5–15%\""});

  const auto least = full_sharding_bytes({1 << 20, 8, 1}, 1).across / hybrid_bytes({1 << 20, 8, 1}, 1).across;
  theory_says("hybrid sharding is faster by a factor of {}m or more", fixed(least, 1));
  const LevelBytes full = full_sharding_bytes({2, 4, 1}, 1), hybrid = hybrid_bytes({2, 4, 1}, 1);
  theory_says("(3(p − 1)/p) : (3(g − 1)/g + 2(k − 1)/p). Hybrid sharding saves {}% for g = 4 of 8",
              fixed(100 * ((full.inside + full.across) / (hybrid.inside + hybrid.across) - 1)));
}

/// FLOP per second of the largest products, and bytes per second of the slowest link of a ring.
double product_rate(const Machine& machine) {
  return machine.peak_flop_per_second[static_cast<std::size_t>(DType::bf16)] * machine.matmul_efficiency(1e13);
}
double link_rate(const Machine& machine, int ranks) { return 1 / week21::cost_model(machine, ranks).beta; }

TEST_F(Week22, TimeOfZero) {
  const Machine nvlink = find_machine("dgx-a100", kMachines), pcie = find_machine("pcie-box", kMachines),
                ethernet = find_machine("dgx-a100-10gbe", kMachines);
  const double moved = moved_by_adamw(DType::bf16);
  const auto break_even = [&](const Machine& machine, double bytes) {
    return fixed(machine.memory_bytes_per_second * bytes / moved / 1e9);
  };
  theory().cites("of 28 bytes, 16 + 12 or 14 + 14", {"it reads a gradient (2 bytes)", "(2 bytes per parameter)"});
  theory_says(
      "stage 1 gains where B is more than M/{}. An A100 moves {} TB per second, and a fourteenth of that is {} GB/s.",
      fixed(moved / 2), fixed(nvlink.memory_bytes_per_second / 1e12), break_even(nvlink, 2));
  theory_says("Its NVLink ring has {}, so we gain. An RTX 4090 would need {} GB/s, and between two sockets it has {},",
              fixed(link_rate(nvlink, 8) / 1e9), break_even(pcie, 2), fixed(link_rate(pcie, 4) / 1e9));

  const auto parameters = static_cast<double>(gpt_preset("gpt2-124m").parameters());
  theory_says("The gather now sends {} bytes per parameter, so B must be more than M/{}, which is {} GB/s.", fixed(4),
              fixed(moved / 4), break_even(nvlink, 4));
  theory_says("The link has {}, and we lose a little. AdamW saves {} ms, and the gather takes {} ms.",
              fixed(link_rate(nvlink, 4) / 1e9),
              fixed(1e3 * 0.75 * moved * parameters / nvlink.memory_bytes_per_second, 2),
              fixed(1e3 * 0.75 * 4 * parameters / link_rate(nvlink, 4), 2));
  const auto seconds = [&](int stage) {
    return row("bench_zero_sim --model gpt2-124m --dtype fp32 --ranks 4 --stages 0,1 --phantom --machine dgx-a100 "
               "--batch 8 --sequence 512",
               [&](const Json& each) { return each.contains("seconds") && each.at("stage") == stage; })
        .at("seconds")
        .get<double>();
  };
  EXPECT_LT(seconds(1), seconds(0)) << "in the run of 22.2 stage 1 gains";

  const auto step = [&](int sequence, int microbatches, int stage) {
    return fixed(row(fmt::format("bench_zero_sim --model gpt2-355m --phantom --machine pcie-box --ranks 4 --batch 4 "
                                 "--sequence {} --microbatches {} --stages 0,3",
                                 sequence, microbatches),
                     [&](const Json& each) { return each.contains("seconds") && each.at("stage") == stage; })
                     .at("seconds")
                     .get<double>(),
                 2);
  };
  theory_says(
      "steps of {} tokens per rank with FSDP. Which is better, four microbatches of {} tokens or sixteen of {}?",
      fixed(4 * 4 * 2048), fixed(4 * 2048), fixed(4 * 512));
  theory_says("so it sends {} times Ψ(p − 1)/p or {} times. And {} tokens", fixed(3 * 4), fixed(3 * 16),
              fixed(4 * 512));
  theory_says("the step takes {} s with four microbatches and {} s with sixteen. DDP takes {} and {} s,",
              step(2048, 4, 3), step(512, 16, 3), step(2048, 4, 0), step(512, 16, 0));

  const auto tokens = [&](const std::string& name, const Machine& machine, int ranks, int decimals) {
    const double rate = product_rate(machine), link = link_rate(machine, ranks);
    theory_says("| " + name + " | {} | {} | {} |", fixed(rate / 1e12), fixed(link / 1e9, decimals),
                rounded((ranks - 1.0) / ranks * rate / link, 2));
  };
  tokens("PCIe box, 4 RTX 4090", pcie, 4, 0);
  tokens("8 A100, NVLink", nvlink, 8, 0);
  tokens("16 A100, 10 GbE", ethernet, 16, 2);
}

TEST_F(Week22, ProblemsOfZero) {
  const auto gb = [](int stage, int decimals) { return fixed(state_gb(30e9, stage, 16), decimals); };
  const ModelState first = model_state(30e9, 1, 16, recipe_of(DType::bf16)),
                   second = model_state(30e9, 2, 16, recipe_of(DType::bf16));
  theory().cites("the problem's own", {"You have 16 GPUs of 80 GB", "How many GPUs of 80 GB hold its state",
                                       "in bf16 on 16 GPUs, with 8 microbatches",
                                       "Four nodes of 8 GPUs train with four", "one node of 8 GPUs, if"});
  theory_says("Stage 0 holds {} GB, stage 1 holds {} + {} + {} = {} GB, and stage 2 holds {} + {} = {} GB.", gb(0, 0),
              fixed(first.parameter_bytes / 1e9), fixed(first.gradient_bytes / 1e9),
              fixed(first.optimizer_bytes / 1e9, 1), gb(1, 1), fixed(second.parameter_bytes / 1e9),
              fixed((second.gradient_bytes + second.optimizer_bytes) / 1e9, 2), gb(2, 2));
  theory_says("Only stage 3 fits, with {} GB.", gb(3, 0));
  theory_says("to be at most {} GB, so p is at least {},", fixed(80 - 60),
              fixed(fewest_ranks(30e9, 2, recipe_of(DType::bf16), 80e9)));

  const auto peak = [](double units) { return 100 * (1.0 / 8 + 2 / units); };
  theory_says("With 24 blocks it is 1/8 + 2/24, which is {}% of Ψ, and {}% stay for large p.", fixed(peak(24)),
              fixed(100 * 2.0 / 24));
  theory_says("With four blocks it is 1/8 + 2/4, which is {}%, and half", fixed(peak(4), 1));

  const Recipe recipe = recipe_of(DType::bf16);
  const double kept = model_state(13e9, 1, 16, recipe).gradient_bytes,
               shard = model_state(13e9, 2, 16, recipe).gradient_bytes;
  const double before = bytes_sent(13e9, 1, 16, 8, recipe), after = bytes_sent(13e9, 2, 16, 8, recipe);
  theory_says("15/16 of {} GB, which is {} GB per GPU.", fixed(kept / 1e9), fixed((kept - shard) / 1e9, 1));
  theory_says("A rank used to send {} GB per step, and now it sends {} GB, which is {} times as much.",
              fixed(before / 1e9, 2), fixed(after / 1e9, 1), fixed(after / before, 1));
  theory_says("the optimizer's {} GB", fixed(13 * recipe.optimizer()));

  const week21::CostModel link{.alpha = 5e-6, .beta = 1 / 25e9};
  theory().cites("the problem's own", {"a message takes 5 µs, and a link carries 25 GB per second"});
  const double block_bytes = 2.0 * static_cast<double>(wrap(gpt_parameter_table(gpt_preset("gpt2-124m")), {})[1].size);
  theory_says("with {} MB in bf16", fixed(block_bytes / 1e6, 1));
  theory_says("equal for x = pαB, which is {} MB.", fixed(64 * link.alpha / link.beta / 1e6));
  const double norm = 2.0 * static_cast<double>(gpt_preset("gpt2-124m").d_model);
  theory_says("a norm's weight, with {} numbers", fixed(norm / 2));
  theory_says("The norm's {} bytes take {} ms,", fixed(norm), fixed(1e3 * gather_seconds(link, 64, norm), 1));

  const Hybrid nodes{4, 8, 4};
  const double whole = full_sharding_bytes(nodes, 1).across, hybrid = hybrid_bytes(nodes, 1).across;
  theory_says("3 · 4 · 31/32 = {} times Ψ and hybrid sharding 2 · 3/4 = {} times, which is a factor of {}.",
              fixed(whole, 3), fixed(hybrid, 1), fixed(whole / hybrid, 2));
}

TEST_F(Week22, ProblemsOfSixteenBits) {
  const auto stops = [](int fraction_bits) { return fixed(std::exp2(fraction_bits + 1)); };
  theory().cites("a fraction of one bit more", {"spacing 2 from 2^(f+1) on"});
  theory_says("So bf16 stops at {}, fp16 at {} and fp32 at {}.", stops(7), stops(10), stops(23));
  theory_says("2⁻¹² = {}·10⁻⁴, which is less than the move, and for larger weights it is 2⁻¹¹ = {}·10⁻⁴",
              fixed(std::exp2(-12) * 1e4, 1), fixed(std::exp2(-11) * 1e4, 1));
  EXPECT_TRUE(std::exp2(-8 - 4) < 3e-4 && std::exp2(-8 - 3) > 3e-4) << "bf16: up to 1/8";
  EXPECT_TRUE(std::exp2(-11 - 1) < 3e-4 && std::exp2(-11 - 0) > 3e-4) << "fp16: up to 1";
  theory_says("That is two doublings, after {} good steps.", fixed(2 * LossScaler{}.growth_interval));
  const int interval = LossScaler{}.growth_interval;
  theory_says(
      "After {} good steps we try 2S, and the next step overflows and is skipped. That is one step of {}, or {}%.",
      fixed(interval), fixed(interval + 1), fixed(100.0 / (interval + 1), 2));
  theory_says("From 2⁴⁰ to 2²¹ we halve {} times,", fixed(40 - 21));
  theory_says("The largest number of fp16 is {}, just", fixed((2 - std::exp2(-10)) * std::exp2(15)));
}

TEST_F(Week22, SixteenBits) {
  const auto largest = [](int exponent_bits, int fraction_bits) {
    return (2 - std::exp2(-fraction_bits)) * std::exp2((1 << (exponent_bits - 1)) - 1);
  };
  theory_says("| fp32 | 8 bits | 23 | 2⁻²³ | {}·10³⁸ |", fixed(largest(8, 23) / 1e38, 1));
  theory_says("| bf16 | 8 | 7 | 2⁻⁷ | {}·10³⁸ |", fixed(largest(8, 7) / 1e38, 1));
  theory_says("| fp16 | 5 | 10 | 2⁻¹⁰ | {} |", fixed(largest(5, 10)));
  theory().cites("the ring's", {"a ring in bf16 rounds p − 1 times"});
  theory_says("{} updates of 2⁻¹² bring a weight of 1 to {}, and", fixed(512), fixed(1 + 512 * 0x1p-12, 3));

  Recipe half = recipe_of(DType::bf16), wide = half;
  wide.gradient = 4;
  const Recipe whole = recipe_of(DType::f32);
  theory_says("in 16 bits are {} + {} bytes per parameter, the master {}, AdamW's moments {}, together {}.",
              fixed(half.parameter), fixed(half.gradient), fixed(half.master), fixed(half.moments),
              fixed(1e9 * state_gb(1, 0, 1)));
  theory_says("In fp32 it is {} + {} + {} = {},", fixed(whole.parameter), fixed(whole.gradient), fixed(whole.moments),
              fixed(model_state(1, 0, 1, whole).total_bytes()));
  theory_says("as in Megatron-LM, it is even {}.", fixed(model_state(1, 0, 1, wide).total_bytes()));
  const SerialStep fp32 = small_step(DType::f32), bf16 = small_step(DType::bf16);
  theory().cites("the example's", {"GPT-2 124M, 8 sequences of 1,024 tokens"});
  theory_says("{} GB of state in fp32 and in bf16. Its activations fall from {} to {} GiB, the step from {} to {} ms.",
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
      "fp16 rounds **{}%** of all gradients that fp32 has to 0. With S = 2¹⁶ it is **less than {}%**, and bf16 loses "
      "**none**",
      fixed(seen[0]), fixed(std::ceil(10 * seen[1]) / 10, 1));
  EXPECT_EQ(seen[2], 0) << "bf16 none";
  theory_says("After {} steps the losses are {} (fp32), {} (bf16) and **{}** (fp16), which is worse", fixed(60),
              fixed(seen[3], 2), fixed(seen[4], 2), fixed(seen[5], 1));
  theory_says("begins at 2⁴⁰, fp16 spends its first steps only on halving it, and after {} it has {}.", fixed(80),
              fixed(seen[6], 2));
  theory_says("All runs begin near a loss of ln 29 = {}, because", fixed(std::log(29), 2));
  theory().cites("22.5's own", {"With S = 2¹⁶"});
  theory_says("After {} good steps in a row we try 2S.", fixed(LossScaler{}.growth_interval));
}

TEST_F(Week22, ProblemsOfActivations) {
  const GptConfig gpt3 = gpt_preset("gpt3-175b"), small = gpt_preset("gpt2-124m");
  constexpr double kArrays = 16;  // the total of the table
  const auto half_probabilities = [](const GptConfig& model) {
    return kArrays * static_cast<double>(model.d_model) / static_cast<double>(model.heads);
  };
  EXPECT_EQ(half_probabilities(small), small.context);
  EXPECT_EQ(half_probabilities(gpt3), gpt3.context);
  theory_says("We want 2as/h = {}, so s = 16h/a, which is {} times the channels of a head.", fixed(2 * kArrays),
              fixed(kArrays));
  theory_says("For GPT-2 it is {} and for GPT-3 {},", fixed(half_probabilities(small)),
              fixed(half_probabilities(gpt3)));
  theory_says("{} + {} + {} of the 16 arrays, or {}% of the bytes", fixed(1), fixed(1), fixed(4),
              fixed(100 * 6 / kArrays, 1));
  GptConfig medium = gpt_preset("gpt2-355m");
  medium.storage = DType::bf16;
  medium.attention = AttentionKind::materialised;
  const auto most = [&](Recompute how) {
    return static_cast<double>(activation_bytes(medium, 4, medium.context, how)) / (1 << 20);
  };
  theory_says("at most {} GiB without recomputation, {} GiB with selective and {} MiB with full recomputation",
              fixed(most(Recompute::none) / 1024, 2), fixed(most(Recompute::selective) / 1024, 2),
              fixed(most(Recompute::full)));
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
  theory_says("the overhead in FLOP is {}% of the blocks' work",
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
  theory_says("Full recomputation adds {}% for GPT-2 124M,", fixed(100 * (full.flop / none.flop - 1)));
  theory_says("Of the {} GiB that full recomputation leaves, {} are logits. With a vocabulary of {}", activations(full),
              fixed(8 * number(small.context * small.vocabulary) * 2 / (1 << 30), 2), fixed(number(small.vocabulary)));
  theory_says("For L = {} that is {}, so", fixed(number(gpt3.layers)), fixed(std::sqrt(number(gpt3.layers) / 16), 1));
}

TEST_F(Week22, Papers) {
  theory().cites(
      "arXiv 1910.02054, sections 1, 3.1, 5 and 7",
      {"*Claims*: 16 bytes per parameter, of which stages 1, 2 and 3 divide 12, 14 and 16 by p. Stages 1 and 2 "
       "send as much as data parallelism, stage 3 1.5 times as much. A trillion parameters fit on 1,024 GPUs."});
  theory().cites("arXiv 2304.11277, abstract, sections 3.2.2 and 5",
                 {"backward prefetch is worth 18% (GPT-175B on 128 GPUs)", "near-linear TFLOPS to 512 GPUs",
                  "(their section 3.2.2)"});
  theory().cites("blog.eleuther.ai/transformer-math", {"*Claims*: 12 to 16 bytes per parameter"});
  theory().cites("arXiv 1710.03740", {"their sections 3.1 to 3.3"});
  theory().cites(
      "arXiv 2205.05198, abstract and section 1",
      {"needs 5 × less activation memory, and removes over 90% of the overhead of full recomputation (30–40% "
       "of the time, as measured there)"});
}

TEST_F(Week22, EveryNumberIsComputedOrCited) { theory().expect_all_known(); }

}  // namespace
}  // namespace lockstep::numbers
