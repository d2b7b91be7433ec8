// Every number of docs/theory/week21.md.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week21_data_parallel/bucketed_ddp.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

TEST(Week21, Theory) {
  using namespace week21;
  Page page("docs/theory/week21.md");
  page.says("For α = 2 µs and 25 GB/s that is {} KB.", {fixed(2e-6 * 25e9 / 1e3)});
  page.says("| PCIe 4.0 x16, in practice | 25 GB/s | {} ms |", {fixed(1e3 * 100e6 / 25e9, 1)});
  page.says("| NVLink of an A100 | 300 GB/s | {} ms |", {fixed(1e3 * 100e6 / 300e9, 2)});
  page.says("| InfiniBand HDR, one port | 25 GB/s | {} ms |", {fixed(1e3 * 100e6 / 25e9, 1)});
  page.says("| 10 Gb/s Ethernet | {} GB/s | {} ms |", {fixed(10.0 / 8, 2), fixed(1e3 * 100e6 / 1.25e9)});
  page.cites("data sheets", {"an A100's \"600 GB/s\" is 300 in each"});

  const CostModel link{.beta = 1 / 25e9};
  const auto naive = [&](int p) { return 1e3 * naive_all_reduce_seconds(link, p, 100e6); };
  const auto ring = [&](int p) { return 1e3 * ring_all_reduce_seconds(link, p, 100e6); };
  page.cites("the example's", {"| link | 1/β, one direction | n = 100 MB |",
                               "| n = 100 MB, 25 GB/s, α and γ ignored | p = 2 | 8 | 64 | 1,024 |"});
  page.says("| naive: 2(p − 1)nβ | {} ms | {} ms | {} ms | {} s |",
            {fixed(naive(2)), fixed(naive(8)), fixed(naive(64)), fixed(naive(1024) / 1e3, 1)});
  page.says("| ring: 2(p − 1)/p·nβ | {} ms | {} ms | {} ms | {} ms |",
            {fixed(ring(2)), fixed(ring(8)), fixed(ring(64), 1), fixed(ring(1024), 1)});
  const double latency = 1e3 * ring_all_reduce_seconds({.alpha = 2e-6}, 1024, 1);
  EXPECT_NEAR(latency / ring(1024), 0.5, 0.02);
  page.says("For p = 1,024 and α = 2 µs that is {} ms, half as long as the {} MB take.", {fixed(latency), fixed(100)});
  page.says("about α/(2β + γ), some {} KB here", {fixed(2e-6 / (2 * link.beta) / 1e3)});
  page.cites("the formula's and the examples' own",
             {"sends the sum p − 1 times", "between p = 4 and p = 8", "S(p) = 1/(f + (1 − f)/p)"});

  page.says("(PyTorch: {} MB, the first {} MB)", {fixed(static_cast<double>(DdpOptions{}.bucket_bytes >> 20)),
                                                  fixed(static_cast<double>(DdpOptions{}.first_bucket_bytes >> 20))});
  const double of_one = 1 / 4.0 / 1, of_eight = 1 / 4.0 / 8;  // what a sample counts in a mean of four means
  page.says("that one sample would count {} times as much", {fixed(of_one / of_eight)});

  page.says("10 ms of compute, 8 ms of all-reduce: 10/18 = {} %", {fixed(100 * communication_efficiency(10e-3, 8e-3))});
  const double tokens = 8 * 150e12 / (25e9 * 6);
  const Workload share{.ranks = 1 << 20, .tokens = tokens, .flop_per_second = 150e12, .bytes_per_parameter = 4};
  EXPECT_NEAR(overhead_chart({1e9}, {25e9}, share).front().efficiency, 0.5, 1e-6) << "as long as compute";
  page.cites("the example's", {"A100 at 150 TFLOP/s, fp32 gradients (4 bytes) and PCIe at 25 GB/s"});
  page.says("that is 8 · 150e12 / (25e9 · 6 · tokens) = {} / tokens. So with {} tokens per rank and step",
            {fixed(tokens), fixed(tokens)});
  page.says("with {} it takes an eighth; over NVLink (300 GB/s, twelve times as much) an eighth takes only {}",
            {fixed(8 * tokens), rounded(8 * tokens * 25 / 300, 2)});

  page.says("With {} % it is at most {}, and {} on 99 ranks.",
            {fixed(1), fixed(amdahl_speedup(0.01, 1 << 30)), fixed(amdahl_speedup(0.01, 99))});
  const Compression top_k{.method = Method::top_k, .density = 0.01}, int8{.method = Method::int8, .block = 1 << 20},
      two_step{.method = Method::int8_two_step, .block = 1 << 20};
  constexpr double kElements = 1 << 24;
  EXPECT_NEAR(ranks_to_break_even(top_k), 1 / top_k.density, 1e-6);
  page.says("Top-k at density ρ, {} bytes per pair, breaks even at p = 1/ρ; int8 at {};",
            {fixed(bytes_sent(top_k, 2, kElements) / (top_k.density * kElements)), fixed(ranks_to_break_even(int8))});
  for (int ranks : {2, 64})
    page.says("int8 keeps its factor of {} for every p",
              {fixed(bytes_sent({}, ranks, kElements) / bytes_sent(two_step, ranks, kElements))});
  page.cites("the formula's", {"a delay of some 1/ρ steps"});
  page.says("which is {} for a rate of {} and μ = {}",
            {fixed(OuterSgd{}.learning_rate / (1 - OuterSgd{}.momentum)), fixed(OuterSgd{}.learning_rate, 1),
             fixed(OuterSgd{}.momentum, 1)});

  page.cites("Gibiansky, 2017", {"the 40 GPUs of their experiment"});
  page.cites("arXiv 1802.05799, sections 2, 7 and 8",
             {"about half of 128 GPUs' capacity was lost",
              "88 % efficiency for Inception V3 and ResNet-101 on 25 GbE; RDMA adds 3–4 % for these but about 30 % for "
              "VGG-16",
              "brought up to 65 %"});
  page.cites("arXiv 2006.15704, abstract", {"near-linear to 256 GPUs"});
  page.cites("arXiv 1706.02677, title, abstract and section 2",
             {"ImageNet in 1 hour", "(8,192 images for ResNet-50 on ImageNet)", "a gradual warm-up of 5 epochs",
              "up to batches of 8,192; about 90 % efficiency from 8 to 256 GPUs"});
  page.cites("./lab bench local_sgd --ranks 4 --steps 400 and 1600, as in the handout of 21.12",
             {"overshoot at H = 4; with H = 16 on 4 ranks they match the plain average after 400 steps and beat it "
              "after 1,600"});
  page.expect_all_known();
}

}  // namespace
}  // namespace lockstep::numbers
