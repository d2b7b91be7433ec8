// Numbers in docs/theory, and in the handouts where they say the same. Not all of them yet: each week's test prints how
// many, and rest() which not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/runtime/run.hpp"
#include "labs/week21_data_parallel/bucketed_ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

class Theory : public Programs {
 protected:
  /// A page that has at least so many numbers that are computed or cited.
  static void expect_coverage(const Page& page, std::size_t rest_at_most) {
    fmt::print("{}\n", page.coverage());
    EXPECT_LE(page.rest().size(), rest_at_most)
        << "compute or cite what is new; the first that is not: " << page.rest().front();
  }
};

TEST_F(Theory, Week21) {
  using namespace week21;
  Page page("docs/theory/week21.md");
  page.says("For α = 2 µs and 25 GB/s that is {} KB.", {fixed(2e-6 * 25e9 / 1e3)});
  page.says("| PCIe 4.0 x16, in practice | 25 GB/s | {} ms |", {fixed(1e3 * 100e6 / 25e9, 1)});
  page.says("| NVLink of an A100 | 300 GB/s | {} ms |", {fixed(1e3 * 100e6 / 300e9, 2)});
  page.says("| InfiniBand HDR, one port | 25 GB/s | {} ms |", {fixed(1e3 * 100e6 / 25e9, 1)});
  page.says("| 10 Gb/s Ethernet | {} GB/s | {} ms |", {fixed(10.0 / 8, 2), fixed(1e3 * 100e6 / 1.25e9)});
  const CostModel link{.beta = 1 / 25e9};
  const auto naive = [&](int p) { return 1e3 * naive_all_reduce_seconds(link, p, 100e6); };
  const auto ring = [&](int p) { return 1e3 * ring_all_reduce_seconds(link, p, 100e6); };
  page.says("| naive: 2(p − 1)nβ | {} ms | {} ms | {} ms | {} s |",
            {fixed(naive(2)), fixed(naive(8)), fixed(naive(64)), fixed(naive(1024) / 1e3, 1)});
  page.says("| ring: 2(p − 1)/p·nβ | {} ms | {} ms | {} ms | {} ms |",
            {fixed(ring(2)), fixed(ring(8)), fixed(ring(64), 1), fixed(ring(1024), 1)});
  page.says("For p = 1,024 and α = 2 µs that is {} ms",
            {fixed(1e3 * ring_all_reduce_seconds({.alpha = 2e-6}, 1024, 1))});
  page.says("about α/(2β + γ), some {} KB here", {fixed(2e-6 / (2 * link.beta) / 1e3)});
  page.says("(PyTorch: {} MB, the first {} MB)", {fixed(static_cast<double>(DdpOptions{}.bucket_bytes >> 20)),
                                                  fixed(static_cast<double>(DdpOptions{}.first_bucket_bytes >> 20))});
  const double tokens = 8 * 150e12 / (25e9 * 6);
  page.says("that is 8 · 150e12 / (25e9 · 6 · tokens) = {} / tokens. So with {} tokens per rank and step",
            {fixed(tokens), fixed(tokens)});
  page.says("with {} it takes an eighth; over NVLink (300 GB/s, twelve times as much) an eighth takes only {}",
            {fixed(8 * tokens), rounded(8 * tokens * 25 / 300, 2)});
  page.says("With {} % it is at most {}, and {} on 99 ranks.",
            {fixed(1), fixed(amdahl_speedup(0.01, 1 << 30)), fixed(amdahl_speedup(0.01, 99))});
  page.says("which is {} for a rate of 0.7 and μ = 0.9", {fixed(0.7 / (1 - 0.9))});
  page.cites("data sheets", {"an A100's \"600 GB/s\" is 300 in each"});
  page.cites("the example's", {"A100 at 150 TFLOP/s, fp32 gradients (4 bytes) and PCIe at 25 GB/s"});
  expect_coverage(page, 27);
}

/// Seconds of a gather and a scatter of 4 MiB over those of an all-reduce, on `ranks` A100 of a node.
double halves_over_all_reduce(int ranks) {
  const auto seconds = [&](bool halves) {
    const RunOptions options{
        .ranks = ranks, .machine = find_machine("dgx-a100", kMachines), .phantom = true, .check_races = false};
    return run(options, Program([&](Rank me) {
                 Slice whole = me.allocate(std::size_t{2} << 20, DType::bf16, Category::activation);
                 Slice own =
                     me.allocate(whole.size() / static_cast<std::size_t>(ranks), DType::bf16, Category::activation);
                 if (halves) {
                   week23::gather_rows(me, whole, own, "gather");
                   week23::scatter_rows(me, own, whole, "scatter");
                 } else {
                   week21::ring_all_reduce(me, whole);
                 }
                 return Values{};
               }))
        .check()
        .seconds;
  };
  return seconds(true) / seconds(false);
}

TEST_F(Theory, Week23) {
  Page page("docs/theory/week23.md"), handout("labs/week23_tensor_parallel/README.md");
  const auto longer = [](int ranks) { return fixed(100 * (halves_over_all_reduce(ranks) - 1)); };
  page.says("(4 MiB on a DGX A100: + {} % with p = 2, + {} % with p = 8)", {longer(2), longer(8)});
  handout.says("take {} % longer than one all-reduce with p = 2, {} % with p = 8", {longer(2), longer(8)});
  const double rows = 8 * 512, mib = rows * 512 * 2 / (1 << 20);
  page.says("that is {} × {} MiB = {} MiB forward", {fixed(2 * 12), fixed(mib), fixed(2 * 12 * mib)});
  page.says("for N = {} and V = 50,257 that is {} MB, against 8·N·p = {} KB.",
            {fixed(rows), fixed(4 * rows * 50257 / 1e6), fixed(8 * rows * 8 / 1e3)});
  const auto positions = [](double bytes_per_second) { return rounded(2 * 250e12 / (2 * bytes_per_second), 3); };
  page.says("(F ≈ 250e12, W ≈ 235e9, e = 2): {} positions; over one HDR port (23.5e9): {}.",
            {positions(235e9), positions(23.5e9)});
  expect_coverage(page, 17);
}

TEST_F(Theory, Week22) {
  using namespace week22;
  Page page("docs/theory/week22.md");
  const auto times = [](int stage) { return fixed(state_gb(1, 0, 8) / state_gb(1, stage, 8), 1); };
  page.says("at p = 8 they are {} and {}.", {times(1), times(2)});
  page.says("at stage 2 GPT-3 still needs {} GB of parameters on every GPU",
            {fixed(175 * recipe_of(DType::bf16).parameter)});
  page.says("At stage 3, {} GB take {} GPUs of 80 GB",
            {fixed(state_gb(175e9, 0, 1)), fixed(fewest_ranks(175e9, 3, {}, 80e9))});
  page.says("really allocated: {}, {}, {} and {} GB.",
            {fixed(state_gb(100e6, 0, 2), 3), fixed(state_gb(100e6, 1, 2), 3), fixed(state_gb(100e6, 2, 2), 3),
             fixed(state_gb(100e6, 3, 2), 3)});
  const Json deep = zero_step("dgx-a100", 8, 2048, 3);
  page.says("FSDP then exposes {} % of its communication for GPT-2 355M on 8 A100",
            {fixed(100 * deep.at("exposed_seconds").get<double>() / deep.at("communication_seconds").get<double>())});
  const auto row = [&](const std::string& words, const char* machine, int ranks, int tokens) {
    page.says(words, {fixed(of_ddp(machine, ranks, tokens, 1), 2), fixed(of_ddp(machine, ranks, tokens, 2), 2),
                      fixed(of_ddp(machine, ranks, tokens, 3), 2)});
  };
  row("| PCIe box, 4 RTX 4090 | 2,048 | {} | {} | **{}** |", "pcie-box", 4, 2048);
  row("| | 4,096 | {} | {} | {} |", "pcie-box", 4, 4096);
  row("| | 8,192 | {} | {} | {} | | 8 A100", "pcie-box", 4, 8192);
  row("| 8 A100, NVLink | 2,048 | {} | {} | **{}** |", "dgx-a100", 8, 2048);
  row("| | 8,192 | {} | {} | {} | | 16 A100", "dgx-a100", 8, 8192);
  row("| 16 A100, 10 GbE | 8,192 | {} | {} | **{}** |", "dgx-a100-10gbe", 16, 8192);
  expect_coverage(page, 75);
}

}  // namespace
}  // namespace lockstep::numbers
