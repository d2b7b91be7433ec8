// Every number of an answer in docs/learn/questions.md.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week21_data_parallel/bucketed_ddp.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "labs/week22_zero/sixteen_bit_sums.hpp"
#include "tools/plan/flops.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

using namespace week21;
using namespace week22;

Page& page() {
  static Page questions("docs/learn/questions.md");
  return questions;
}
template <class... Numbers>
void says(const std::string& words, const Numbers&... numbers) {
  page().says(words, {numbers...});
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

class Questions : public Programs {};

TEST_F(Questions, Interview) {
  const double efficiency = communication_efficiency(10e-3, 8e-3);
  says("Without overlap 10/18 = {}%.", fixed(100 * efficiency));
  const double backward = 20.0 / 3, exposed = 8 - backward + backward / 4;
  says(
      "a backward of about {} ms and that you have four buckets. Then 8 − {} + {}/4 = {} ms are exposed, so 10/{} = "
      "{}%",
      fixed(backward, 1), fixed(backward, 1), fixed(backward, 1), fixed(exposed), fixed(10 + exposed),
      fixed(100 * 10 / (10 + exposed)));
  says("{} MB is PyTorch's compromise", fixed(mib(DdpOptions{}.bucket_bytes)));
  page().cites("the question's", {"halves the 8 ms"});

  // f(p) = replicated + sharded/p, of a parameter
  const auto sharded = [](int stage) { return 2e9 * (state_gb(1, stage, 1) - state_gb(1, stage, 2)); };
  const double all = 1e9 * state_gb(1, 0, 1);
  says("Of {} bytes per parameter a rank holds {} + {}/p, {} + {}/p, {}/p.", fixed(all), fixed(all - sharded(1)),
       fixed(sharded(1)), fixed(all - sharded(2)), fixed(sharded(2)), fixed(sharded(3)));

  const Recipe recipe = recipe_of(DType::bf16);
  const int fewest = fewest_ranks(175e9, 3, recipe, 80e9);
  says(
      "{} GB of state need {}, with stage 3 and without activations. With less sharding it never fits, because the "
      "parameters alone are {} GB.",
      fixed(state_gb(175e9, 0, 1)), fixed(fewest), fixed(175 * recipe.parameter));
  const Recipe halves{.master = 0, .moments = 4};
  says("Texts that say 16 GPUs ({} GB each) count {} bytes per parameter",
       fixed(model_state(175e9, 3, 16, halves).total_bytes() / 1e9, 1),
       fixed(model_state(1, 0, 1, halves).total_bytes()));
  says("With {} bytes it is {} GB, and even {} is above 80.", fixed(state_gb(1e9, 0, 1)), fixed(state_gb(175e9, 3, 16)),
       fixed(model_state(175e9, 3, 16, halves).total_bytes() / 1e9, 1));
  says("so at worst {} times as long", fixed(bytes_sent(1, 3, 8, 1, recipe) / bytes_sent(1, 0, 8, 1, recipe), 1));

  const std::string slow = fixed(of_ddp("dgx-a100-10gbe", 16, 8192, 3), 2);
  const auto percent = [](double ratio) { return fixed(std::abs(100 * (ratio - 1))); };
  says("On 10 GbE it reaches {} of DDP's throughput, and it loses {}–{}% on PCIe with a few thousand tokens.", slow,
       percent(of_ddp("pcie-box", 4, 4096, 3)), percent(of_ddp("pcie-box", 4, 2048, 3)));
  says("on 8 A100, by {} to {}%", percent(of_ddp("dgx-a100", 8, 8192, 3)), percent(of_ddp("dgx-a100", 8, 2048, 3)));
}

TEST_F(Questions, Week21) {
  const Machine uniform = find_machine("uniform", kMachines);
  says("above the limit ({} KiB here, `eager_bytes` of the machine file)",
       fixed(static_cast<double>(uniform.eager_bytes) / 1024));
  says("n, {} n, 2n. O(p·n)", fixed(arrays_sent(8), 2));
  const auto steps = [](int ranks) { return fixed(rabenseifner_seconds({.alpha = 1}, ranks, 1)); };
  says("Two more steps ({} instead of {} for Rabenseifner)", steps(1025), steps(1024));
  says("2·15/16 versus 2·1/2 is {} times for k = 2. For k = 32, 255/256 versus 31/32 is {}%.",
       fixed(arrays_sent(16) / arrays_sent(2), 1), fixed(100 * (arrays_sent(256) / arrays_sent(32) - 1)));

  const CostModel link{.alpha = 5e-6, .beta = 1 / 25e9};
  const double equal = 8 * link.alpha / link.beta;
  EXPECT_NEAR(ring_all_reduce_seconds(link, 8, equal), 2 * ring_all_reduce_seconds({.alpha = link.alpha}, 8, equal),
              1e-12);
  says("at n = pα/β = 8 · 5 µs · 25 GB/s = {} MB", fixed(equal / 1e6));
  says("B for 2, {} B for 8, half of B for ∞", fixed(1 / arrays_sent(8), 2));
  const double efficiency = communication_efficiency(10e-3, 8e-3);
  says("10/18 = {}%, so two GPUs do 2 · {} = {} times the work of one.", fixed(100 * efficiency), fixed(efficiency, 2),
       fixed(2 * efficiency, 1));
  says("counts 1/3 instead of 1/65: {} times too much", fixed(65.0 / 3));
  page().cites("the question's", {"1 KB for 100 MB of gradients and 8 ranks at 5 µs"});
  says("{} · {} · 5 µs = {} s", fixed(100e6 / 1e3), fixed(ring_all_reduce_seconds({.alpha = 1}, 8, 1)),
       fixed(100e3 * ring_all_reduce_seconds({.alpha = 5e-6}, 8, 1e3)));
  const auto share = [](int ranks) { return (ranks - 1) * 8 * 0.1 / (arrays_sent(ranks) * 4); };  // (p − 1)·8ρn bytes
  says("is pρ: {}%, and {}%", fixed(100 * share(2)), fixed(100 * share(16)));

  const double s8 = speedup(100, 20), s16 = speedup(100, 15);
  says("S = {}, E = {}, e = (1/5 − 1/8)/(1 − 1/8) = {}.", fixed(s8), fixed(week21::efficiency(100, 20, 8), 3),
       fixed(karp_flatt(s8, 8), 3));
  says("Then S = {}, E = {}, e = {}: it rises, so besides a serial part of {}% or so", fixed(s16, 1),
       fixed(week21::efficiency(100, 15, 16), 2), fixed(karp_flatt(s16, 16), 3), fixed(100 * karp_flatt(s8, 8) - 0.5));
  says("e = {}, negative.", fixed(karp_flatt(8.5, 8), 3));
  says("A speedup of {}; the efficiency is {}.", fixed(1.6, 1), fixed(1.6 / 2, 1));
  page().cites("the interval of the question", {"\"At most 3% serial; consistent with none.\" Not \"1%\"."});
  page().cites("the question's delay", {"A lasting delay costs both methods the 10%"});
  page().cites("PyTorch's documentation", {"(10 minutes for NCCL's watchdog in PyTorch)"});
  const float stopped = 1 << 24;
  EXPECT_EQ(stopped + 1.0f, stopped);
  says("A count in f32 that grows by one stops at {}.", fixed(static_cast<double>(stopped)));
  page().cites("the question's", {"is off by 10⁻⁷"});
  says("With one of 4 ranks left they count {}%.", fixed(100.0 / 4));
}

TEST_F(Questions, Week22) {
  const Recipe bf16 = recipe_of(DType::bf16), f32 = recipe_of(DType::f32);
  const auto bytes = [](Recipe r) { return fixed(r.parameter + r.gradient + r.master + r.moments); };
  says("2 + 2 + 4 + 4 + 4 = {}. fp32 is its own master, so 4 + 4 + 4 + 4 = {}.", bytes(bf16), bytes(f32));
  says("Stages 0 to 3 hold {}, {}, {} and {} GB, which leaves {} GB", fixed(state_gb(7e9, 0, 8)),
       fixed(state_gb(7e9, 1, 8), 1), fixed(state_gb(7e9, 2, 8), 2), fixed(state_gb(7e9, 3, 8)),
       fixed(24 - state_gb(7e9, 3, 8)));
  const auto times = [](int ranks) { return fixed(state_gb(1e9, 0, 1) / state_gb(1e9, 1, ranks), 1); };
  says("16/(4 + 12/p) is {} at p = 8, {} at p = 64", times(8), times(64));
  says("Stage 3, by {}%.", fixed(100 * (bytes_sent(1, 3, 8, 1, bf16) / bytes_sent(1, 2, 8, 1, bf16) - 1)));
  says("4 + 4 + 8 = {} bytes per parameter, divided by p; {} bytes per element for each gather", bytes(f32),
       fixed(bf16.parameter));

  const Json ddp = zero_step("dgx-a100", 8, 2048, 0), fsdp = zero_step("dgx-a100", 8, 2048, 3);
  const auto more = [&](const char* field) {
    return 1e3 * (fsdp.at(field).get<double>() - ddp.at(field).get<double>());
  };
  says(
      "AdamW and new zeros on 1/p save {} of {} ms for GPT-2 355M on 8 A100; of the additional communication {} ms are "
      "exposed.",
      fixed(more("exposed_seconds") - more("seconds"), 1), fixed(1e3 * ddp.at("seconds").get<double>()),
      fixed(more("exposed_seconds"), 1));
  says("With master weights 1 + 10⁶/4096 = {}, rounded to bf16", fixed(1 + 1e6 / 4096));
  says("Model state is {} bytes per parameter either way: 4 + 4 + 8, or 2 + 2 + 12.", bytes(bf16));
  page().cites("the question's", {"Eight gradients of 20,000 are finite"});

  const GptConfig gpt3 = gpt_preset("gpt3-175b");
  const double s = static_cast<double>(gpt3.context), h = static_cast<double>(gpt3.d_model),
               a = static_cast<double>(gpt3.heads);
  const LayerShape layer{.positions = s, .sequences = 1, .channels = h, .heads = a, .dropout = false};
  const double kept = activation_bytes_per_layer(layer) - 2 * s * h, scores = 2 * a * s * s;
  EXPECT_EQ(kept, s * h * (30 + 2 * a * s / h));
  says("for 2as²b bytes, h/2a = {}.", fixed(2 * s * s * h / 2 / scores));
  says("for sbh(30 + 2as/h): about {}.", rounded((24 * s * h * h + 2 * s * h * (s + 1)) / kept, 2));
  const plan::TokenFlop token = plan::token_flop(gpt_preset("gpt2-124m"), 1024);
  const double flash = token.scores / 6;  // its backward has five products for the forward's two
  says("in GPT-2 124M the head is {}% of the products, so a step has {}% more.", fixed(100 * token.head / token.sum()),
       fixed(100 * (token.sum() - token.head) / 3 / (token.sum() + flash)));
  says("Stage 2 with more than one microbatch per step: (m + 1)/{} times.",
       fixed(bytes_sent(1, 1, 2, 1, bf16) / bytes_sent(1, 3, 2, 1, bf16) * 3));

  says("with p = 16 and k = 2 is {}.", fixed(3 * 15.0 / 16 / arrays_sent(2), 2));
  says("Ranks send {}n instead of {}n (g = 4, k = 2)", fixed(3 * 3.0 / 4 + arrays_sent(2) / 4, 1),
       fixed(3 * 7.0 / 8, 3));

  float ones = 1;  // recursive doubling: in each step a partner has as much
  int roundings = 0;
  for (int ranks = 1; ranks < 1024; ranks *= 2, ++roundings) ones = round_to_bf16(ones + ones);
  says("{}, after {} roundings that change nothing.", fixed(ones), fixed(roundings));
  constexpr double kRanks = 64, kPerNode = 8, kOutside = kRanks - kPerNode;  // chunks, of which a rank keeps one
  says("With the ring {}/64 n, from one rank. With part b 8 · {}/64 n = {}n.", fixed(kRanks - 1), fixed(kOutside),
       fixed(kPerNode * kOutside / kRanks));
}

TEST_F(Questions, Week24) {
  const GptConfig small = gpt_preset("gpt2-124m");
  says("It is worth V/(12·C) blocks: {} in GPT-2.",
       fixed(static_cast<double>(small.vocabulary) / (12 * static_cast<double>(small.d_model)), 1));
  const double used = 1 - week24::bubble_of_total({2, 4});
  says("Two stages at {}% do the work of {} GPUs: {}% less than two ideal ones.", fixed(100 * used), fixed(2 * used, 1),
       fixed(100 * (1 - used)));
  const PipelineShape shape = week24::shape_of("interleaved", 4, 8, 2);
  says("For p = 4, v = 2 that is {}.", fixed(peak_in_flight(week24::interleaved(shape, 0)) / 2.0 / 4, 3));
  const auto gain = [](int m, double hop) {
    return makespan("1f1b", 4, m, hop) - makespan("interleaved", 4, m, hop, 2);
  };
  const auto both = [](int m, double hop) {
    return std::pair{fixed(makespan("interleaved", 4, m, hop, 2), hop < 1), fixed(makespan("1f1b", 4, m, hop))};
  };
  EXPECT_NEAR(gain(8, 0), gain(32, 0), 1e-9);
  says(
      "v = 2 saves {} ms without hops. With T = 0.5 ms, {} ms for m = 8 ({} instead of {}) and {} ms for m = 32 ({} "
      "instead of {}). With T = 1 ms, {} ms ({} instead of {}) and {} ms.",
      fixed(gain(8, 0), 1), fixed(gain(8, 0.5), 1), both(8, 0.5).first, both(8, 0.5).second, fixed(gain(32, 0.5), 1),
      both(32, 0.5).first, both(32, 0.5).second, fixed(gain(8, 1)), both(8, 1).first, both(8, 1).second,
      fixed(gain(32, 1), 1));
  page().cites("the example's", {"For p = 4 and F = B = W = 1 ms"});
  const auto loses = [](int chunks, int m) {  // the hop at which it takes as long as 1F1B
    double low = 0, high = 4;
    for (int i = 0; i < 30; ++i) {
      const double hop = (low + high) / 2;
      (makespan("interleaved", 4, m, hop, chunks) < makespan("1f1b", 4, m, hop) ? low : high) = hop;
    }
    return fixed(low, 2);
  };
  says("at T = {} ms for m = 8, {} for m = 16 and {} for m = 32.", loses(2, 8), loses(2, 16), loses(2, 32));
  says("loses from T = {}, {} and {} ms on.", loses(4, 8), loses(4, 16), loses(4, 32));
  page().cites("the question's", {"the other stages work only 1/1.3 of it", "v = 4, with chunks half as long"});
}

TEST_F(Questions, Week25) {
  page().cites("the question's", {"2 ms behind the messages", "The 2 s: training continues for the other 58"});
  const SerialFraction all = fit_amdahl(strong_scaling());
  says("as the width of its interval ({} to {}) shows", fixed(all.low, 2), fixed(all.high, 2));
  const auto waste = [](const week25::SavingCosts& costs, double of_best) {
    return 100 * expected_waste(costs, of_best * week25::best_intervals(costs).daly);
  };
  says("With 60 s and 3.1 hours, {} and {}% are wasted instead of {}%.", fixed(waste(kSaving, 0.5), 1),
       fixed(waste(kSaving, 2), 1), fixed(waste(kSaving, 1), 1));
  week25::SavingCosts ten = kSaving;
  ten.mtbf /= 10;
  says("With 60 s and 10 minutes, {}% become {}%, of which restarts are {}", fixed(waste(kSaving, 1), 1),
       fixed(waste(ten, 1), 1), fixed(100 * (1 - std::exp(-ten.restart / ten.mtbf))));
  says(
      "These cost nothing without failures; with one, the last complete checkpoint is {} s older, so each failure "
      "costs {} s more",
      fixed(60.0 - 2), fixed(60.0 - 2));
}

TEST_F(Questions, Budget) {
  const week25::Training llama{.parameters = 8e9, .tokens = 15e12}, tenfold = week25::training_for(10, 20);
  const week25::Training rule = week25::training_for(training_flop(llama), 20);
  says("Parameters and tokens each grow by √10, that is {} times",
       fixed(tenfold.parameters / week25::training_for(1, 20).parameters, 1));
  says("Of the dense 989, it is {}%", fixed(20.0 * 1979 / 989));
  says("The rule would train {} billion parameters on {}e12 tokens. Serving would cost {} times",
       fixed(rule.parameters / 1e9), fixed(rule.tokens / 1e12, 1), fixed(rule.parameters / llama.parameters, 1));
  week25::Rental rental{.peak = 1, .mfu = 1, .serial_fraction = 0.01, .price = 1};
  int gpus = 1;
  while (week25::bill(1, rental, gpus).cost < 2 * week25::bill(1, rental, 1).cost * (1 - 1e-12)) ++gpus;
  says("On 1 + 1/s = {} GPUs", fixed(gpus));
}

TEST_F(Questions, EveryNumberIsComputedOrCited) { page().expect_all_known(); }

}  // namespace
}  // namespace lockstep::numbers
