// Tests prices by the vendor's libraries: products, collectives and blocks, compared with measurements.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/support/json/document.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/files.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/software.hpp"

namespace lockstep::plan {
namespace {

Json published(const std::string& name) {
  return Json::parse(read_file(LOCKSTEP_SOURCE_DIR "/bench/published/" + name + ".json"));
}

TEST(Library, IsOnlyForThoseWhoAsk) {
  const Machine with = find_machine("dgx-a100", kMachines);
  Machine without = with;
  without.library.reset();
  for (const double flop : {1e6, 1e9, 1e12}) {
    const Operation product{.flop = flop, .bytes = 1e6, .dtype = DType::bf16, .matmul = true, .mnk = {64, 64, 64}};
    EXPECT_EQ(with.seconds(product), without.seconds(product)) << "the lab's own price, to the last bit";
  }
  EXPECT_EQ(with.gamma(), without.gamma());
  EXPECT_EQ(with.as_library().gamma(), 0) << "NCCL was timed with its additions";
  EXPECT_TRUE(contains(refusal([&] { (void)without.as_library(); }), "has no library cost model"));
  EXPECT_TRUE(contains(refusal([&] { (void)with.as_library(AttentionKernel::flash, "Tritton"); }), "Triton"));
}

TEST(Library, ProductsPayForWhatTheyWrite) {
  // OpenXLA's table was measured in short runs, whose clock is higher than under a long load: compared is how the rate
  // falls with k, relative to that of k = 4096.
  const Machine machine = find_machine("dgx-h100", kMachines).as_library();
  const auto rate = [&](double batch, double m, double n, double k) {
    const auto size = [](double x) { return static_cast<std::size_t>(x); };
    const Operation product{.flop = 2 * batch * m * n * k,
                            .bytes = 2 * batch * (m * n + m * k + n * k),
                            .dtype = DType::bf16,
                            .matmul = true,
                            .mnk = {size(batch * m), size(n), size(k)}};
    return product.flop / machine.seconds(product) / 1e12;
  };
  double predicted_first = 0, measured_first = 0;
  const Json table = published("calibrate/matmul-h100");
  for (const Json& row : table.at("rows")) {
    const auto batch = row[0].get<double>(), k = row[3].get<double>(), measured = row[4].get<double>();
    if (batch != 4) continue;
    const double predicted = rate(batch, row[1].get<double>(), row[2].get<double>(), k);
    if (predicted_first == 0) predicted_first = predicted, measured_first = measured;
    EXPECT_NEAR(predicted / predicted_first / (measured / measured_first), 1, k < 512 ? 0.2 : 0.11) << "k = " << k;
  }
  const double long_load = rate(1, 10240, 10240, 10240) / 719.72;
  EXPECT_TRUE(long_load > 0.85 && long_load < 1) << "a run of hours against a loop of seconds: " << long_load;
}

Operation product_of(std::size_t m, std::size_t n, std::size_t k) {
  return {.flop = static_cast<double>(2 * m * n * k),
          .bytes = static_cast<double>(2 * (m * n + m * k + n * k)),
          .dtype = DType::bf16,
          .matmul = true,
          .mnk = {m, n, k}};
}

/// A product of rates.jsonl: its part in a linear layer, its sizes, and predicted over measured seconds.
struct OwnProduct {
  std::string kind;
  std::size_t m, n, k;
  double ratio;
};

/// A card's products that a launch does not decide. They were measured in short runs, whose clock is higher than under
/// a long load. So their times count as much longer as those of four of them were for seconds on end.
std::vector<OwnProduct> own_products(const Machine& machine, const std::string& card) {
  std::vector<OwnProduct> products;
  const std::set<std::pair<std::size_t, std::size_t>> block{{12288, 4096}, {4096, 4096}, {16384, 4096}, {4096, 16384}};
  double four_alone = 0, four_loaded = 0;
  std::ifstream lines(LOCKSTEP_SOURCE_DIR "/docs/results/" + card + "-2026-11-27/rates.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    const std::string rate = row.value("rate", "");
    if (rate == "sustained" && row.at("name").get<std::string>().starts_with("the four")) {
      const Json& samples = row.at("tflops");
      std::vector<double> late;
      for (std::size_t i = samples.size() / 4; i < samples.size(); ++i) late.push_back(samples[i][1].get<double>());
      four_loaded = 24.0 * 8192 * 4096 * 4096 / (median(late).value * 1e12);
    }
    if (rate != "product") continue;
    const std::string kind = row.at("kind").get<std::string>();
    auto m = row.at("m").get<std::size_t>(), n = row.at("n").get<std::size_t>(), k = row.at("k").get<std::size_t>();
    const auto seconds = row.at("seconds").get<double>();
    if (kind == "forward" && m == 8192 && block.contains({n, k})) four_alone += seconds;
    if (kind == "input") std::swap(n, k);                           // dy · w
    if (kind == "weight") std::tie(m, n, k) = std::tuple(n, k, m);  // dyᵀ · x
    const Operation product = product_of(m, n, k);
    if (product.flop > 1e10) products.push_back({kind, m, n, k, machine.seconds(product) / seconds});
  }
  const double load = four_loaded / four_alone;
  EXPECT_TRUE(load > 1 && load < 1.05) << card << ": " << load;
  for (OwnProduct& product : products) product.ratio /= load;
  return products;
}

TEST(Library, OurOwnProducts) {  // docs/results/gpus.md
  const std::vector<std::pair<const char*, std::function<bool(const OwnProduct&)>>> classes{
      {"all", [](const OwnProduct&) { return true; }},
      {"large",
       [](const OwnProduct& p) {
         return std::min({p.m, p.n, p.k}) >= 4096;
       }},
      {"few rows or columns", [](const OwnProduct& p) { return std::min(p.m, p.n) <= 1280; }},
      {"small inner dimension", [](const OwnProduct& p) { return p.k <= 1280; }},
      {"gradients of weights", [](const OwnProduct& p) { return p.kind == "weight"; }}};
  for (const auto& [name, card] :
       {std::pair{"dgx-h100", "nvidia-h100-80gb-hbm3"}, std::pair{"dgx-h200", "nvidia-h200"}}) {
    const std::vector<OwnProduct> products = own_products(find_machine(name, kMachines).as_library(), card);
    ASSERT_GT(products.size(), 500u);
    for (const auto& [label, belongs] : classes) {
      std::vector<double> ratios;
      for (const OwnProduct& product : products)
        if (belongs(product)) ratios.push_back(product.ratio);
      ASSERT_GT(ratios.size(), 50u) << label;
      const double middle = median(ratios).value;
      fmt::print("{} {:<22} {:>3} products: {:+.1f}%\n", name, label, ratios.size(), 100 * (middle - 1));
      EXPECT_NEAR(middle, 1, ratios.size() == products.size() ? 0.02 : 0.04) << card << ", " << label;
    }
  }
}

TEST(Library, ALoadedRateContainsNothingThatIsAddedToIt) {
  // The products of a block that each rate was taken from cost the seconds measured.
  const auto rate = [](const char* name) {
    const Machine machine = find_machine(name, kMachines).as_library();
    double flop = 0, seconds = 0;
    for (const auto& [n, k] : {std::pair{12288, 4096}, {4096, 4096}, {16384, 4096}, {4096, 16384}}) {
      const Operation product = product_of(8192, static_cast<std::size_t>(n), static_cast<std::size_t>(k));
      flop += product.flop;
      seconds += machine.seconds(product);
    }
    return flop / seconds / 1e12;
  };
  EXPECT_NEAR(rate("dgx-h100") / 680, 1, 0.005);
  EXPECT_NEAR(rate("dgx-h200") / 665, 1, 0.005);
  EXPECT_NEAR(rate("dgx-a100") / 231, 1, 0.005) << "by the rule that gives 676 for H100";
}

TEST(Library, AB200sProductsAreOpenXlas) {
  constexpr double kUnderLoad = 1237.0 / 1450;  // what a B200 keeps at its power limit; these are short runs
  Machine machine = find_machine("dgx-b200", kMachines).as_library();
  machine.library->matmul_flop_per_second /= kUnderLoad, machine.library->fp8_flop_per_second /= kUnderLoad;
  for (const std::size_t column : {4, 5}) {
    machine.library->fp8 = column == 5;
    std::vector<double> ratios;
    const Json table = published("calibrate/matmul-b200");
    for (const Json& row : table.at("rows")) {
      const auto size = [&](std::size_t at) { return row[at].get<std::size_t>(); };
      const Operation product = product_of(size(0) * size(1), size(2), size(3));
      const double measured = product.flop / (row[column].get<double>() * 1e12);
      ratios.push_back(machine.seconds(product) / measured);
      EXPECT_NEAR(ratios.back(), 1, 0.25) << row.dump();
    }
    fmt::print("dgx-b200, {}: median {:.3f}\n", column == 4 ? "bf16" : "fp8", median(ratios).value);
    EXPECT_NEAR(median(ratios).value, 1, 0.02);
  }
}

TEST(Library, AllReducesFollowTheirCurve) {
  const Machine machine = find_machine("dgx-a100", kMachines);
  for (const CollectivePoint& point : machine.library->all_reduce)
    EXPECT_NEAR(library_all_reduce_seconds(machine, 8, point.bytes) / point.seconds, 1, 1e-12);
  EXPECT_NEAR(library_all_reduce_seconds(machine, 8, 1) / 43.8e-6, 1, 1e-12) << "a floor of latency";
  EXPECT_LT(library_all_reduce_seconds(machine, 4, 1e9), library_all_reduce_seconds(machine, 8, 1e9));
  EXPECT_EQ(library_all_reduce_seconds(machine, 1, 1e9), 0);
  const Machine nvls = find_machine("dgx-h100", kMachines);
  EXPECT_GT(library_gather_seconds(nvls, 8, 8e9), 0.6 * library_all_reduce_seconds(nvls, 8, 8e9))
      << "the switch adds for an all-reduce; a gather has its links alone";
}

TEST(Library, RingsAreStripedOverThePortsOfANode) {
  const Machine machine = find_machine("dgx-a100-hdr", kMachines);
  const double bytes = 16e9, moved = 2 * 15.0 / 16 * bytes;
  EXPECT_NEAR(moved / library_all_reduce_seconds(machine, 16, bytes) / (8 * 23.5e9), 1, 0.01) << "eight ports";
  EXPECT_NEAR(moved / library_all_reduce_seconds(machine, 16, bytes, 8) / 23.5e9, 1, 0.01) << "with tp 8 one each";
  EXPECT_NEAR(library_all_reduce_seconds(machine.as_library(), 16, bytes, 8) /
                  library_all_reduce_seconds(machine, 16, bytes, 8),
              1, 1e-9)
      << "a node's ports as one, shared, or each rank's own: the same";
}

TEST(Library, ATreeOverTwoNodesSendsTheArrayOnce) {
  const auto busbw = [](const char* machine, int ranks, double bytes) {
    return 2.0 * (ranks - 1) / ranks * bytes /
           library_all_reduce_seconds(find_machine(machine, kMachines), ranks, bytes);
  };
  // p3dn.24xlarge, one port of 100 Gb/s: 134 ms for 1 GiB by trees and 268 by rings (NVIDIA/nccl-tests issue 22).
  EXPECT_NEAR(busbw("dgx-a100-100gbe", 16, 1 << 30) / 12e9, 2 * 15.0 / 16, 0.01);
  EXPECT_NEAR(busbw("dgx-a100-100gbe", 24, 1 << 30) / 12e9, 1, 0.01) << "three nodes send it twice";
  const Machine ndr = find_machine("dgx-h100-ndr", kMachines);
  EXPECT_EQ(library_all_reduce_seconds(ndr, 16, 1 << 30), library_all_reduce_seconds(ndr, 8, 1 << 30))
      << "links inside a node are what limits it";
  EXPECT_LT(busbw("dgx-a100-hdr", 16, 1 << 30), 8 * 23.5e9) << "NCCL's trees on A100 are slower than rings on 8 ports";
}

TEST(Library, TheReportPredictsTheSame) {  // bench/plots/reported_test.py has the same numbers
  const auto seconds = [](const char* machine, int ranks, double bytes) {
    return library_all_reduce_seconds(find_machine(machine, kMachines), ranks, bytes);
  };
  EXPECT_NEAR(seconds("dgx-a100", 4, 1 << 20), 7.739273815008322e-05, 1e-15);
  EXPECT_NEAR(seconds("dgx-a100-hdr", 16, 64 << 20), 0.0008110538297872341, 1e-15);
  EXPECT_NEAR(seconds("dgx-a100-10gbe", 16, 1 << 20), 0.0010224887000849616, 1e-15);
}

TEST(Library, AdditionsAreNotPaidTwice) {
  const Machine machine = find_machine("dgx-a100", kMachines);
  for (const bool library : {false, true}) {
    const Machine priced = library ? machine.as_library() : machine;
    DryRun dry_run(priced, {.ranks = 8, .alpha = machine.alpha(0), .beta = machine.beta(0)});
    Rank me = dry_run.rank();
    week21::ring_all_reduce(me, me.allocate(1 << 24, DType::bf16, Category::buffer));
    const double expected = library ? library_all_reduce_seconds(machine, 8, 1 << 25)
                                    : week21::ring_all_reduce_seconds(week21::cost_model(machine, 8), 8, 1 << 25);
    EXPECT_NEAR(dry_run.seconds() / expected, 1, 1e-9) << (library ? "library" : "lab");
  }
}

TEST(Library, HalvesOfABackwardAreTheWhole) {
  // A pipeline's stage works inside regions that name its phases; they are no collectives, and nothing in them is free.
  const Task task = task_of("gpt3-13b", "dgx-h100x2", 64);
  Task library = task;
  library.cluster.machine = task.cluster.machine.as_library();
  week25::Strategy halves{.dp = 2, .pp = 8, .schedule = "zb-h1"}, whole{.dp = 2, .pp = 8};
  Pricer pricer(library.model, library.cluster.machine, library.length);
  const double apart = pricer.work(halves, 32).stages[3].backward, together = pricer.work(whole, 32).stages[3].backward;
  EXPECT_NEAR(apart / together, 1, 0.05);
}

/// Seconds of forward and backward of the published layer, whose scatters continue behind products for weights, with
/// the passes that Megatron-LM makes.
std::array<double, 2> layer(const Machine& machine, bool sequence_parallel) {
  DryRun dry_run(machine, {.ranks = 8, .alpha = machine.alpha(0), .beta = machine.beta(0)});
  Rank me = dry_run.rank();
  GptConfig config = gpt_preset("gpt-22b");
  config.storage = DType::bf16;
  config.layers = 1;
  config.tensor = {0, 8, sequence_parallel};
  Gpt gpt(me, config, 1);
  gpt.use(week25::make_layers(week23::make_tensor_parallel(me), config, /*overlap_scatter=*/true));
  Activations saved = gpt.allocate_activations(me, 4, 2048);
  const double begin = dry_run.seconds();
  gpt.forward_block(me, 0, saved);
  const double middle = dry_run.seconds();
  gpt.backward_block(me, 0, saved, {});
  Pieces passes;
  add_unfused(machine, unfused("megatron", config), config, 4 * 2048, passes);
  return {middle - begin + passes.block.seconds, dry_run.seconds() - middle + passes.block_back.seconds};
}

TEST(Library, PredictsThePublishedLayer) {
  const Machine machine = find_machine("dgx-a100", kMachines);
  const Json table = published("calibrate/megatron-layer");
  std::map<std::string, double> saved;  // by sequence parallelism, which divides norms and dropouts too
  for (const Json& row : table.at("rows")) {
    if (row[0] == "full") continue;
    const auto kernel = row[0] == "selective" ? AttentionKernel::materialised_again : AttentionKernel::materialised;
    const auto [forward, backward] = layer(machine.as_library(kernel), row[1].get<bool>());
    const double both = (row[2].get<double>() + row[3].get<double>()) / 1e3;
    fmt::print("{} {}: {:.2f} + {:.2f} ms, published {:.1f} + {:.1f}\n", row[0].get<std::string>(),
               row[1].get<bool>() ? "sequence parallel" : "", forward * 1e3, backward * 1e3, row[2].get<double>(),
               row[3].get<double>());
    EXPECT_NEAR((forward + backward) / both, 1, 0.045) << row.dump();
    saved[row[0].get<std::string>()] += (row[1].get<bool>() ? -1 : 1) * (forward + backward);
  }
  for (const auto& [recompute, seconds] : saved) EXPECT_NEAR(seconds, 0.6e-3, 0.2e-3) << recompute;
}

}  // namespace
}  // namespace lockstep::plan
