// Every number of docs/learn/theory/week23.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/runtime/run.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear_testing.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "tools/plan/flops.hpp"
#include "tools/plan/validate.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

class Week23 : public Programs {};

/// For Megatron's published iterations on 1, 2, 4 and 8 GPUs, by the machine file: the largest difference of predicted
/// / published from that of one GPU, relative to it. All are predicted at less than half.
double largest_difference_from_one_gpu() {
  const std::string path = LOCKSTEP_SOURCE_DIR "/bench/published/predict/megatron-tensor.json";
  const std::vector<plan::ValidatedTable> tables = plan::validate(LOCKSTEP_SOURCE_DIR, path);
  const std::vector<plan::Validated>& rows = tables.at(0).rows;
  double most = 0;
  for (const plan::Validated& row : rows) {
    EXPECT_LT(row.file, row.published / 2) << row.name;
    most = std::max(most, std::abs(row.file / row.published / (rows[0].file / rows[0].published) - 1));
  }
  return most;
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

/// Numbers of the page's worked examples and problems.
void expect_problems(Page& page) {
  const auto gelu = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
  };
  page.says("We want gelu(1), which is {}, but gelu(−1) + gelu(2) is {}.",
            {fixed(gelu(1), 3), fixed(gelu(-1) + gelu(2), 3)});
  page.cites("the problem's", {"C = 1,024 and a batch of 4,096 tokens", "GPT-3 has 96 layers of 12,288 channels",
                               "one sequence of 2,048 tokens", "at 235 GB/s"});
  page.says("With C = {} and N = {} tensor parallelism sends {} times as much.",
            {fixed(1024), fixed(4096), fixed(4096.0 / 1024)});
  const double array = 2048 * 12288 * 2, sums = 4 * 96, sent = sums * 2 * 7 / 8 * array;
  page.says("is N·C·2 bytes, which is {} MB. The blocks have 4 all-reduces per layer, {} in all",
            {fixed(array / 1e6, 1), fixed(sums)});
  page.says("Together that is {} GB per rank and sequence, or {} ms on the link",
            {fixed(sent / 1e9, 1), fixed(1e3 * sent / 235e9)});
  page.says("All ranks find ln(3 + 5) − ln 3, and the loss is {}.", {fixed(std::log(8.0) - std::log(3.0), 3)});
  const double vocabulary = static_cast<double>(gpt_preset("gpt2-124m").vocabulary);
  const double shard = std::ceil(vocabulary / 8);
  page.says("How many padding rows do {} tokens need on 8 ranks?", {fixed(vocabulary)});
  page.says("8 ranks hold {} rows each, and {} of all these rows are padding.",
            {fixed(shard), fixed(8 * shard - vocabulary)});
  const double replicated = 4 + 12.0 / 8, sharded = 16.0 / 8;
  page.says("which is {}·N·C. With sequence parallelism it is N·C·16/p, which is {}·N·C, so the factor is {}.",
            {fixed(replicated, 1), fixed(sharded), fixed(replicated / sharded, 2)});
  page.cites("the problem's", {"64 heads of q and 8 of k and v"});
  page.says("The bound falls to {} positions.", {fixed(2 * 250e12 / (2 * 235e9) / (64.0 / 8))});
  page.cites("the problems'", {"33% of a step with C = 4,096", "for C = 8,192?", "33% of the step are about half",
                               "remaining 67%", "shrink with p = 8", "they are 64/8 times shorter",
                               "Side A has ℓ_A = 0 and y_A = 4, side B has ℓ_B = ln 3 and y_B = 8."});
  const double all = std::exp(0) + std::exp(std::log(3));
  page.says("e^{ℓ_A} + e^{ℓ_B} = 1 + 3, so ℓ = ln {}. The weights are ¼ and ¾, and y is {} + {}, that is, {}.",
            {fixed(all), fixed(4 / all), fixed(8 * 3 / all), fixed(4 / all + 8 * 3 / all)});
}

TEST_F(Week23, Theory) {
  Page page("docs/learn/theory/week23.md"), handout("labs/week23_tensor_parallel/extras.md");
  const auto longer = [](int ranks) { return fixed(100 * (halves_over_all_reduce(ranks) - 1)); };
  page.says("(4 MiB on a DGX A100: + {}% with p = 2, + {}% with p = 8)", {longer(2), longer(8)});
  handout.says("take {}% longer than one all-reduce with p = 2, {}% with p = 8", {longer(2), longer(8)});
  const double rows = 8 * 512, mib = rows * 512 * 2 / (1 << 20);
  page.cites("the example's", {"With 12 layers, C = 512, batch 8, sequence 512 in 16 bits"});
  page.says("that is {} × {} MiB = {} MiB forward", {fixed(2 * 12), fixed(mib), fixed(2 * 12 * mib)});
  const double vocabulary = static_cast<double>(gpt_preset("gpt2-124m").vocabulary);
  page.says("for N = {} and V = {} that is {} MB, against 8·N·p = {} KB.",
            {fixed(rows), fixed(vocabulary), fixed(4 * rows * vocabulary / 1e6), fixed(8 * rows * 8 / 1e3)});
  page.cites("the definition's", {"For an empty set, ℓ = −∞ and y = 0."});
  const auto positions = [](double bytes_per_second) { return rounded(2 * 250e12 / (2 * bytes_per_second), 3); };
  page.says("(F ≈ 250e12, e = 2) it is {} positions over NVLink (1/β ≈ 235e9), and {} over one HDR port (23.5e9).",
            {positions(235e9), positions(23.5e9)});

  const GptConfig gpt = gpt_preset("gpt2-124m");
  const plan::TokenFlop token = plan::token_flop(gpt, gpt.context);
  page.says("A block computes about {}·N·C² FLOP forward",
            {fixed((token.attention_matrices + token.mlp) / 3 /
                   static_cast<double>(gpt.layers * gpt.d_model * gpt.d_model))});
  const auto share = [&](const std::string& machine, int ranks, int d_model = 4096) {
    const Json step =
        row(fmt::format("bench_tp_sim --machine {} --ranks {} --heads {} --d-model {} --phantom", machine, ranks,
                        d_model / 128, d_model),
            [](const Json& each) {
              return each.contains("algorithm") && each.at("algorithm") == "no_overlap" && each.at("pass") == "step";
            });
    return fixed(100 * step.at("communication_share").get<double>());
  };
  page.says(
      "For C = {} all-reduces are {}% of a step on two A100 with NVLink and {}% on eight. In a PCIe box they are {} "
      "and "
      "{}% on two and four GPUs, and in two nodes {}% on sixteen A100.",
      {fixed(4096), share("dgx-a100", 2), share("dgx-a100", 8), share("pcie-box", 2), share("pcie-box", 4),
       share("dgx-a100-hdr", 16)});

  page.says("`./lab bench tp --machine dgx-a100 --ranks 8 --heads 64 --d-model 8192` says {}%.",
            {share("dgx-a100", 8, 8192)});
  page.cites("arXiv 1909.08053, abstract", {"8.3 G parameters on 512 GPUs, 76% scaling efficiency"});
  page.cites("arXiv 2205.05198, abstract", {"reduce activation memory 5×"});
  page.cites("arXiv 2311.09431, abstract", {"measured up to 1.45× from doing so on 8 A100"});
  const auto parameters = [](std::size_t layers, std::size_t heads, std::size_t d_model) {
    const GptConfig model{.layers = layers, .heads = heads, .d_model = d_model, .vocabulary = 51200, .context = 1024};
    return fixed(static_cast<double>(model.parameters()) / 1e9, 1);
  };
  page.cites("Megatron-LM's", {"(1, 2, 4 and 8 GPUs;", "Relative to one GPU, 2, 4 and 8 GPUs are right"});
  page.says("(1, 2, 4 and 8 GPUs; {} G to {} G parameters)", {parameters(24, 15, 1920), parameters(42, 32, 4096)});
  page.says("2, 4 and 8 GPUs are right within {}%",
            {fixed(std::ceil(1000 * largest_difference_from_one_gpu()) / 10, 1)});
  expect_problems(page);
  page.expect_all_known();
}

TEST_F(Week23, OverlapInsideTensorParallelism) {
  Page page("labs/week23_tensor_parallel/extras.md");
  constexpr int kRanks = 8;
  const RunOptions options{
      .ranks = kRanks, .machine = find_machine("dgx-a100", kMachines), .phantom = true, .check_races = false};
  for (const std::size_t own : {8, 32, 64, 128, 512, 2048}) {
    std::vector<std::string> row{fixed(static_cast<double>(own))};
    for (week23::RankProduct product : week23::products_of(4096, kRanks)) {
      product.rows = own * kRanks;
      const Values seconds =
          run(options, Program([&](Rank me) { return week23::both_orders(me, product); })).check().values[0];
      row.insert(row.end(),
                 {fixed(seconds[0] * 1e6, 1), fixed(seconds[1] * 1e6, 1), fixed(seconds[0] / seconds[1], 2)});
    }
    page.says("| {} | {} µs | {} µs | × {} | {} µs | {} µs | × {} |",
              {row[0], row[1], row[2], row[3], row[4], row[5], row[6]});
  }
}

}  // namespace
}  // namespace lockstep::numbers
