// Measures what the course texts say about data parallelism: docs/learn/claims.md has the verdicts. Prints a line for
// each.
//
//   ./lab test --all -R suite.claims.week21 -V
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::week21 {
namespace {

template <class... Args>
void say(const char* format, Args... args) {
  fmt::print("  measured: {}\n", fmt::format(fmt::runtime(format), args...));
}

Machine machine(const std::string& name) { return find_machine(name, LOCKSTEP_SOURCE_DIR "/bench/machines"); }

/// A DGX A100 whose GPUs see each other through PCIe 4 x16 only.
Machine a100_on_pcie() {
  Machine pcie = machine("dgx-a100");
  pcie.name = "dgx-a100 on PCIe";
  pcie.levels.front().latency = 5.7e-6;
  pcie.levels.front().bytes_per_second = 25e9;
  return pcie;
}

/// Seconds of one training step of GPT-2 124M in bf16, each rank on its own sequences of 1,024 tokens.
double gpt2_step_seconds(const Machine& machine, int ranks, std::size_t sequences, bool overlap) {
  RunOptions options{.ranks = ranks, .machine = machine, .phantom = true, .check_races = false};
  const Outcome outcome =
      run(options, Program([&](Rank me) {
            GptConfig config = gpt_preset("gpt2-124m");
            config.storage = DType::bf16;
            Gpt gpt(me, config, 1);
            Optimizer optimizer(me, gpt.parameters(), {});
            Activations saved = gpt.allocate_activations(me, sequences, 1024);
            Batch batch{me.allocate(sequences * 1024, DType::i32, Category::buffer),
                        me.allocate(sequences * 1024, DType::i32, Category::buffer), sequences, 1024};
            Slice loss = me.allocate(1, DType::f32, Category::activation);
            const auto ddp = make_ddp(me, gpt.parameters(), {.overlap = overlap}, ring_all_reduce);
            ring_all_reduce(me, loss);  // the broadcast left the ranks at different times
            const double began = me.now();
            fill(me, loss, 0);
            gpt.forward(me, batch, saved);
            cross_entropy(me, loss, saved.logits, batch.targets, 1.0f / static_cast<float>(batch.rows()));
            gpt.backward(me, batch, saved, [&](std::size_t i) { ddp->gradient_ready(i); });
            ddp->finish();
            optimizer.step(me, 1e-3f);
            return Values{me.now() - began};
          }));
  return outcome.check().values[0][0];
}

double overhead(const Machine& machine, int ranks, std::size_t sequences, bool overlap) {
  return gpt2_step_seconds(machine, ranks, sequences, overlap) / gpt2_step_seconds(machine, 1, sequences, overlap) - 1;
}

TEST(ClaimsWeek21, TwoGpusCommunicationOverhead) {
  for (std::size_t sequences : {4, 8, 16}) {
    const double pcie = overhead(a100_on_pcie(), 2, sequences, false);
    const double nvlink = overhead(machine("dgx-a100"), 2, sequences, false);
    say("GPT-2 124M in bf16 on 2 A100, {} tokens per rank, no overlap: PCIe +{:.1f}%, NVLink +{:.1f}%; with overlap "
        "+{:.1f}% and +{:.1f}%",
        1024 * sequences, 100 * pcie, 100 * nvlink, 100 * overhead(a100_on_pcie(), 2, sequences, true),
        100 * overhead(machine("dgx-a100"), 2, sequences, true));
    EXPECT_GT(pcie / nvlink, 7) << "the ratio is that of the bandwidths, far from the texts' 4";
    if (sequences == 8) {
      EXPECT_GT(pcie, 0.15);
      EXPECT_LT(pcie, 0.40);
      EXPECT_LT(nvlink, 0.05);
    }
  }
}

TEST(ClaimsWeek21, FourGpusOnPcie) {
  for (std::size_t sequences : {2, 8}) {
    const double flat = 1 / (1 + overhead(machine("pcie-box"), 4, sequences, false));
    const double overlapped = 1 / (1 + overhead(machine("pcie-box"), 4, sequences, true));
    say("weak scaling on 4 RTX 4090 without NVLink, {} tokens per rank: {:.0f}% without, {:.0f}% with overlap",
        1024 * sequences, 100 * flat, 100 * overlapped);
    EXPECT_GT(overlapped, flat);
  }
}

TEST(ClaimsWeek21, TenAndEightMilliseconds) {
  EXPECT_NEAR(communication_efficiency(10e-3, 8e-3), 0.5556, 1e-4);
  // The same step with overlap: forward 10/3 ms, backward 20/3 ms in 8 layers, 8 ms of all-reduce in 8 buckets.
  constexpr std::size_t kLayers = 8, kElements = std::size_t{1} << 18, kSide = 512;
  constexpr double kFlop = 2.0 * kSide * kSide * kSide, kLayerSeconds = 20e-3 / 3 / kLayers;
  RunOptions options{.ranks = 2, .machine = Machine::uniform(0, 1e-3 / (4 * kElements), 1e-15), .phantom = true};
  options.machine.peak_flop_per_second.fill(kFlop / kLayerSeconds);
  const Outcome outcome =
      run(options, Program([](Rank me) {
            Parameters parameters;
            for (std::size_t i = 0; i < kLayers; ++i)
              parameters.list.push_back({"layer" + std::to_string(i), i * kElements, kElements, 1, kElements});
            parameters.values = me.allocate(kLayers * kElements, DType::f32, Category::parameter);
            parameters.gradients = me.allocate(kLayers * kElements, DType::f32, Category::gradient);
            const Matrix a = matrix(me.allocate(kSide * kSide, DType::f32, Category::activation), kSide, kSide);
            const Matrix b = matrix(me.allocate(kSide * kSide, DType::f32, Category::activation), kSide, kSide);
            const Matrix c = matrix(me.allocate(kSide * kSide, DType::f32, Category::activation), kSide, kSide);
            const DdpOptions small{.bucket_bytes = 1, .first_bucket_bytes = 1};
            const auto ddp = make_ddp(me, parameters, small, ring_all_reduce);
            ring_all_reduce(me, parameters.gradients.cut(0, 1));
            const double began = me.now();
            for (std::size_t i = 0; i < kLayers / 2; ++i) matmul(me, c, a, b);  // forward: half of the backward
            for (std::size_t i = kLayers; i-- > 0;) {
              matmul(me, c, a, b);
              ddp->gradient_ready(i);
            }
            ddp->finish();
            return Values{me.now() - began};
          }));
  const double step = outcome.check().values[0][0];
  const double formula = 10e-3 / 3 + std::max(20e-3 / 3 + 1e-3, kLayerSeconds + 8e-3);
  say("10 ms of computing and 8 ms of all-reduce: 18 ms without overlap (56%), {:.2f} ms with it in 8 buckets "
      "({:.0f}%); formula {:.2f} ms",
      1e3 * step, 1e3 / step * 10e-3 * 0.1, 1e3 * formula);
  EXPECT_NEAR(step, formula, 0.01 * formula);
}

TEST(ClaimsWeek21, EfficiencyDependsOnTokensNotOnTheSizeOfTheModel) {
  const auto chart = overhead_chart({1e7, 1e8, 1e10}, {25e9}, {.ranks = 2, .tokens = 8192, .flop_per_second = 1.5e14});
  EXPECT_NEAR(chart[0].efficiency, chart[2].efficiency, 1e-12);
  say("10 M, 100 M and 10 G parameters, 8,192 tokens per rank, 25 GB/s: efficiency {:.3f}, {:.3f}, {:.3f}",
      chart[0].efficiency, chart[1].efficiency, chart[2].efficiency);
}

/// An all-reduce of 16-bit gradients, no arithmetic and no memory.
Outcome all_reduce(const Machine& machine, int ranks, double bytes, const std::function<void(Rank, Slice)>& algorithm) {
  RunOptions options{.ranks = ranks, .machine = machine, .phantom = true, .check_races = false};
  options.machine.eager_bytes = 0;
  Outcome outcome =
      run(options, Program([&](Rank me) {
            algorithm(me, me.allocate(static_cast<std::size_t>(bytes / 2), DType::bf16, Category::gradient));
            return Values{};
          }));
  outcome.check();
  return outcome;
}

double ring_seconds(const Machine& machine, int ranks, double bytes) {
  return all_reduce(machine, ranks, bytes, ring_all_reduce).seconds;
}

void in_nodes_of_8(Rank me, const Slice& data) { hierarchical_all_reduce(split_by_node(me, 8), data); }

TEST(ClaimsWeek21, OnlyLargeArraysTakeTheRing) {
  const Machine dgx = machine("dgx-a100");
  for (double kib : {4, 256, 1024, 65536}) {
    const double ring = ring_seconds(dgx, 8, kib * 1024);
    const double doubling = all_reduce(dgx, 8, kib * 1024, recursive_doubling_all_reduce).seconds;
    const double halving = all_reduce(dgx, 8, kib * 1024, rabenseifner_all_reduce).seconds;
    say("8 A100, {:g} KiB: ring {:.1f} µs, recursive doubling {:.1f} µs, Rabenseifner {:.1f} µs", kib, 1e6 * ring,
        1e6 * doubling, 1e6 * halving);
    if (kib == 4) {
      EXPECT_GT(ring, 4 * doubling);
    }
    if (kib == 65536) {
      EXPECT_GT(doubling, 1.4 * ring);
    }
  }
}

TEST(ClaimsWeek21, HierarchySpreadsTheTrafficBetweenNodesMoreThanItSavesAny) {
  for (const char* name : {"dgx-a100-hdr", "dgx-a100-10gbe"})
    for (int nodes : {2, 16}) {
      const double bytes = 256e6;
      const Outcome flat = all_reduce(machine(name), 8 * nodes, bytes, ring_all_reduce);
      const Outcome mine = all_reduce(machine(name), 8 * nodes, bytes, in_nodes_of_8);
      const auto across = [](const Outcome& outcome) {  // bytes that the first node sends to others
        double sent = 0;
        for (int rank = 0; rank < 8; ++rank)
          for (const PeerTraffic& with : outcome.ledgers[rank].peers)
            if (with.peer >= 8) sent += static_cast<double>(with.traffic.bytes_sent);
        return sent;
      };
      const double saved = across(flat) / across(mine), gain = flat.seconds / mine.seconds;
      say("256 MB on {} nodes of 8 ({}): a node sends {:.0f} MB across on a flat ring, {:.0f} MB hierarchically; the "
          "ring takes {:.1f} times as long",
          nodes, name, across(flat) / 1e6, across(mine) / 1e6, gain);
      EXPECT_LT(saved, nodes == 2 ? 1.9 : 1.07);
      if (std::string(name) == "dgx-a100-hdr")
        EXPECT_GT(gain, 4) << "eight ports instead of one";
      else
        EXPECT_LT(gain, 2) << "one port, however it is used";
    }
}

TEST(ClaimsWeek21, TheRingIsNotOrderN) {
  const Machine link = Machine::uniform(0, 1e-9, 1e-15);
  const double two = ring_seconds(link, 2, 1 << 20), many = ring_seconds(link, 512, 1 << 20);
  say("the same array on 512 ranks takes {:.3f} times as long as on 2", many / two);
  EXPECT_NEAR(many / two, 2.0 * 511 / 512, 1e-6);
}

TEST(ClaimsWeek21, GradientsOfGpt3OnEightGpus) {
  const Machine dgx = machine("dgx-a100");
  const double seconds = ring_seconds(dgx, 8, 350e9);
  Machine best = dgx;
  best.levels.front().bytes_per_second = 300e9;
  say("all-reduce of 350 GB on 8 A100 over NVLink: {:.2f} s as NCCL reaches it, {:.2f} s at 300 GB/s a direction; "
      "the text has 0.58 s",
      seconds, ring_seconds(best, 8, 350e9));
  EXPECT_GT(seconds, 3 * 0.58);
}

TEST(ClaimsWeek21, AdditionIsNotAssociative) {
  constexpr int kRanks = 4;
  constexpr std::size_t kElements = 4096;
  const auto draw = [](Rank me, Slice slice, int rank) {
    random_normal(me, slice, {.seed = 1, .tensor = static_cast<std::uint64_t>(rank)}, 0, 1);
  };
  const Outcome outcome = run({.ranks = kRanks}, Program([&](Rank me) {
                                Slice data = me.allocate(kElements, DType::f32, Category::gradient);
                                Slice serial = me.allocate(kElements, DType::f32, Category::gradient);
                                Slice term = me.allocate(kElements, DType::f32, Category::gradient);
                                draw(me, data, me.rank());
                                ring_all_reduce(me, data);
                                draw(me, serial, 0);
                                for (int rank = 1; rank < kRanks; ++rank) {
                                  draw(me, term, rank);
                                  add(me, serial, term);
                                }
                                Values seen;
                                testing::append(me, data, seen);
                                testing::append(me, serial, seen);
                                return seen;
                              }));
  const Values& seen = outcome.check().values[0];
  std::size_t differ = 0;
  double largest = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    differ += seen[i] != seen[kElements + i];
    largest = std::max(largest, std::abs(seen[i] - seen[kElements + i]));
  }
  say("sums of 4 numbers from N(0, 1), ring against left to right: {:.0f}% differ in their bits, by at most {:.1e}",
      100.0 * static_cast<double>(differ) / kElements, largest);
  EXPECT_GT(differ, kElements / 20);
  EXPECT_LT(largest, 2e-6);
  for (int rank = 1; rank < kRanks; ++rank) EXPECT_EQ(outcome.values[rank], outcome.values[0]) << "equal on all ranks";
}

/// The text's loop with no_sync on 10 batches, 4 of which make a step: what becomes of the last two.
TEST(ClaimsWeek21, AnIncompleteLastWindowIsNeverAveragedNorStepped) {
  constexpr int kBatches = 10, kWindow = 4;
  int steps = 0;
  const auto loop = [&](bool last_window) {
    return run({.ranks = 2}, Program([&](Rank me) {
                 Parameters parameters;
                 parameters.list.push_back({"weight", 0, 1, 1, 1});
                 parameters.values = me.allocate(1, DType::f32, Category::parameter);
                 parameters.gradients = me.allocate(1, DType::f32, Category::gradient);
                 fill(me, parameters.values, 0);
                 const auto ddp = make_ddp(me, parameters, {}, ring_all_reduce);
                 Slice gradient = me.allocate(1, DType::f32, Category::gradient);
                 fill(me, gradient, static_cast<float>(me.rank() + 1));
                 const auto backward = [&](int) {
                   add(me, parameters.gradients, gradient);
                   ddp->gradient_ready(0);
                 };
                 if (me.rank() == 0) steps = 0;
                 for (int first = 0; first < kBatches; first += kWindow) {
                   fill(me, parameters.gradients, 0);
                   const int count = std::min(kWindow, kBatches - first);
                   if (count == kWindow || last_window) {
                     run_window(*ddp, count, backward);
                     steps += me.rank() == 0;
                   } else {  // (i + 1) % accum_steps is never 0 again
                     const NoSync paused(*ddp);
                     for (int i = 0; i < count; ++i) {
                       backward(i);
                       ddp->finish();
                     }
                   }
                 }
                 return Values{to_host(me, parameters.gradients)[0]};
               }))
        .check();
  };
  const Outcome text = loop(false);
  say("10 batches in windows of 4: {} steps; the gradients of the last two stay {:g} and {:g} on the two ranks", steps,
      text.values[0][0], text.values[1][0]);
  EXPECT_EQ(steps, 2);
  EXPECT_NE(text.values[0][0], text.values[1][0]) << "never averaged";
  const Outcome whole = loop(true);
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(whole.values[0][0], whole.values[1][0]) << "a window of its own averages them";
}

/// Training steps as the texts' loops do them, with the gradients of all steps before still in place, and with zeros.
TEST(ClaimsWeek21, ALoopThatNeverZeroesItsGradientsDoesNotTrain) {
  const auto losses = [](bool zero) {
    return run({.ranks = 1}, Program([&](Rank me) {
                 const GptConfig config{.layers = 1, .heads = 2, .d_model = 16, .vocabulary = 16, .context = 16};
                 Gpt gpt(me, config, 1);
                 Optimizer optimizer(me, gpt.parameters(), {});
                 Activations saved = gpt.allocate_activations(me, 4, 16);
                 Batch batch{me.allocate(64, DType::i32, Category::buffer),
                             me.allocate(64, DType::i32, Category::buffer), 4, 16};
                 Slice loss = me.allocate(1, DType::f32, Category::activation);
                 fill(me, gpt.parameters().gradients, 0);
                 Values seen;
                 for (int step = 0; step < 300; ++step) {
                   std::vector<std::int32_t> inputs, targets;  // each row counts on from a place of its own
                   for (int row = 0; row < 4; ++row)
                     for (int at = 0; at < 16; ++at) {
                       const int begin = (7 * step + 5 * row) % 16;
                       inputs.push_back((begin + 3 * at) % 16);
                       targets.push_back((begin + 3 * at + 3) % 16);
                     }
                   upload(me, batch.tokens, inputs);
                   upload(me, batch.targets, targets);
                   fill(me, loss, 0);
                   gpt.forward(me, batch, saved);
                   cross_entropy(me, loss, saved.logits, batch.targets, 1.0f / 64);
                   gpt.backward(me, batch, saved, [](std::size_t) {});
                   optimizer.step(me, 3e-3f);
                   if (zero) fill(me, gpt.parameters().gradients, 0);
                   seen.push_back(to_host(me, loss)[0]);
                 }
                 return seen;
               }))
        .check()
        .values[0];
  };
  const Values with = losses(true), without = losses(false);
  const auto last = [](const Values& all) {
    double sum = 0;
    for (std::size_t i = all.size() - 50; i < all.size(); ++i) sum += all[i] / 50;
    return sum;
  };
  say("a small GPT on 300 batches, loss at first {:.2f}, mean of the last 50: {:.3f} with gradients zeroed, {:.3f} "
      "without",
      with[0], last(with), last(without));
  EXPECT_GT(last(without), 5 * last(with));
}

/// Strong scaling: a global batch of `sequences`, shared out; no overlap.
std::vector<Measurement> strong_scaling(const Machine& machine, std::size_t sequences) {
  std::vector<Measurement> times;
  for (int p : {1, 2, 4, 8})
    times.push_back({p, gpt2_step_seconds(machine, p, sequences / static_cast<std::size_t>(p), false)});
  return times;
}

TEST(ClaimsWeek21, AmdahlFractionsOfNvlinkAndPcie) {
  for (std::size_t sequences : {16, 40, 128}) {
    const SerialFraction pcie = fit_amdahl(strong_scaling(a100_on_pcie(), sequences));
    const SerialFraction nvlink = fit_amdahl(strong_scaling(machine("dgx-a100"), sequences));
    say("GPT-2 124M in bf16, {} tokens a step in all: parallel fraction PCIe {:.3f} ({:.3f} … {:.3f}), NVLink {:.3f} "
        "({:.3f} … {:.3f})",
        1024 * sequences, 1 - pcie.value, 1 - pcie.high, 1 - pcie.low, 1 - nvlink.value, 1 - nvlink.high,
        1 - nvlink.low);
    EXPECT_LT(nvlink.value, pcie.value / 3);
  }
}

TEST(ClaimsWeek21, DataParallelismFollowsAmdahlExactlyWithoutLatency) {
  // T(p) = C/p + 2(p − 1)/p·nβ = C·(s + (1 − s)/p) with s = 2nβ/C; latency bends it.
  constexpr double kCompute = 0.4, kBytes = 512e6;
  for (double alpha : {0.0, 1e-3}) {
    std::vector<Measurement> times{{1, kCompute}};
    for (int p : {2, 4, 8, 16, 32})
      times.push_back({p, kCompute / p + ring_seconds(Machine::uniform(alpha, 1 / 25e9, 1e-18), p, kBytes)});
    const SerialFraction fit = fit_amdahl(times);
    const double at_2 = karp_flatt(speedup(times[0].seconds, times[1].seconds), 2);
    const double at_32 = karp_flatt(speedup(times[0].seconds, times[5].seconds), 32);
    say("400 ms of computing, 512 MB at 25 GB/s, α = {} ms: fitted s = {:.4f} ± {:.4f}, 2nβ/C = {:.4f}; Karp–Flatt "
        "{:.4f} at p = 2, {:.4f} at p = 32",
        1e3 * alpha, fit.value, (fit.high - fit.low) / 2, 2 * kBytes / 25e9 / kCompute, at_2, at_32);
    if (alpha == 0) {
      EXPECT_NEAR(fit.value, 2 * kBytes / 25e9 / kCompute, 1e-6);
      EXPECT_NEAR(at_2, at_32, 1e-6);
    } else {
      EXPECT_GT(at_32, 1.3 * at_2) << "Karp–Flatt rises: the overhead grows with p";
    }
  }
}

}  // namespace
}  // namespace lockstep::week21
