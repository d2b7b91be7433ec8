// Tests of ./lab validate, and of the prices that it predicts with.
#include "tools/plan/validate.hpp"

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
#include "common/runtime/run.hpp"
#include "common/support/json/document.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/files.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/software.hpp"

namespace lockstep::plan {
namespace {

const std::string kRoot = LOCKSTEP_SOURCE_DIR;

Json published(const std::string& name) { return Json::parse(read_file(kRoot + "/bench/published/" + name + ".json")); }

// Prices of libraries -------------------------------------------------------------------------------------------------

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
  // OpenXLA's table was measured in short runs, whose clock is higher than under a long load: what is compared is how
  // the rate falls with k, beside that of k = 4096.
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
  std::ifstream lines(kRoot + "/docs/results/" + card + "-2026-11-27/rates.jsonl");
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

/// Seconds of forward and backward of the published layer, whose scatters go on behind products for weights, with the
/// passes that Megatron-LM makes.
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

// Published tables ----------------------------------------------------------------------------------------------------

TEST(Validate, RowsSayWhatTheyLack) {
  const std::string path = ::testing::TempDir() + "/published_row.json";
  std::ofstream(path) << R"({"name": "x", "kind": "training", "source": "y", "machine": "dgx-a100-hdr", "zero": 3,
    "models": {"m": {"layers": 2, "heads": 2, "d_model": 64, "vocabulary": 256}},
    "columns": ["model", "gpus", "microbatch"], "rows": [["m", 8, 1]]})";
  EXPECT_TRUE(contains(refusal([&] { (void)read_published(path); }), "row 1: has no sequence"));
}

TEST(Validate, PredictsATableOfOnesOwn) {
  const std::string path = ::testing::TempDir() + "/own.json";
  std::ofstream(path) << R"({"name": "own", "kind": "training", "source": "y", "machine": "dgx-a100-hdr", "zero": 3,
    "recompute": "none", "sequence": 2048, "microbatches": 1,
    "models": {"m": {"layers": 24, "heads": 16, "d_model": 2048, "vocabulary": 50368}},
    "columns": ["model", "gpus", "microbatch", "seconds"], "rows": [["m", 8, 8, 1], ["m", 16, 8, 1]]})";
  const std::vector<ValidatedTable> tables = validate(kRoot, path);
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].rows.size(), 2u);
  const double one_node = tables[0].rows[0].library, two = tables[0].rows[1].library;
  EXPECT_NEAR(two / one_node, 1, 0.1) << "the same work on each GPU, sums hidden";
}

TEST(Validate, PyTorchsStepsOnOurCards) {  // docs/results/gpus.md; nothing is known of them but this
  // PyTorch 2.11's default attention on these cards is cuDNN's. Per parameter, weights are cast to 16 bits (6 bytes)
  // and their gradients to 32 (6), and gradients are measured and clipped (12, ours: 2).
  const std::string path = ::testing::TempDir() + "/pytorch.json";
  for (const auto& [machine, model, sizes, folder] :
       {std::array{"dgx-h100", "gpt2-124m", R"("layers": 12, "heads": 12, "d_model": 768)", "nvidia-h100-80gb-hbm3"},
        {"dgx-h100", "gpt2-355m", R"("layers": 24, "heads": 16, "d_model": 1024)", "nvidia-h100-80gb-hbm3"},
        {"dgx-h200", "gpt2-124m", R"("layers": 12, "heads": 12, "d_model": 768)", "nvidia-h200"}}) {
    const Json measured =
        Json::parse(read_file(fmt::format("{}/docs/results/{}-2026-11-27/pytorch_{}.json", kRoot, folder, model)));
    for (const Json& row : measured.at("rows")) {
      const auto error = [&, machine = machine, sizes = sizes](const char* software) {
        std::ofstream(path) << fmt::format(
            R"({{"name": "x", "kind": "training", "source": "y", "machine": "{}", "zero": 0, "recompute": "none",
            "sequence": 1024, "microbatches": 1, "attention": "flash", "kernel": "cuDNN, heads of 64", {}
            "columns": ["model", "gpus", "microbatch", "seconds"],
            "models": {{"m": {{{}, "vocabulary": 50304}}}}, "rows": [["m", 1, 16, {}]]}})",
            machine, software, sizes, row.at("seconds").get<double>());
        return validate(kRoot, path)[0].rows[0].error();
      };
      const double fused = error("");
      fmt::print("{} {} {}: {:+.1f}% as if all was fused", machine, model, row.at("algorithm").dump(), 100 * fused);
      if (row.at("algorithm") == "eager") {
        const double eager = error(R"("unfused": "autocast", "copied_bytes": 22,)");
        fmt::print(", {:+.1f}% with its passes", 100 * eager);
        EXPECT_NEAR(eager, 0, 0.08) << machine << ", " << model;
        EXPECT_LT(fused, -0.2) << machine << ", " << model;
      } else {
        EXPECT_NEAR(fused, 0, 0.11) << machine << ", " << model;
      }
      fmt::print("\n");
    }
  }
}

TEST(Validate, FewerPortsOfANodeMakeItSlower) {
  const auto seconds = [](const char* ports) {
    const std::string path = ::testing::TempDir() + "/ports.json";
    std::ofstream(path) << R"({"name": "x", "kind": "training", "source": "y", "machine": "dgx-a100-hdr", "zero": 3,
      "recompute": "none", "sequence": 2048, "microbatches": 1, )"
                        << ports
                        << R"("models": {"m": {"layers": 24, "heads": 16, "d_model": 2048, "vocabulary": 50368}},
      "columns": ["model", "gpus", "microbatch", "seconds"], "rows": [["m", 16, 1, 1]]})";
    return validate(kRoot, path)[0].rows[0].library;
  };
  const double eight = seconds(""), two = seconds(R"("node_ports": 2, )");
  EXPECT_GT(two, 1.5 * eight) << "three sums of 2.6 GB take longer than one sequence of each GPU";
  EXPECT_NEAR(seconds(R"("node_ports": 8, )") / eight, 1, 1e-12) << "as the file says";
}

/// The only row of a run on 16 GPUs, with these fields in its file.
Validated one_run(const std::string& fields) {
  const std::string path = ::testing::TempDir() + "/one_run.json";
  std::ofstream(path)
      << R"({"name": "x", "kind": "training", "source": "y", "machine": "dgx-a100-hdr", "sequence": 2048,
    "recompute": "none", "microbatches": 1, )"
      << fields << R"("models": {"m": {"layers": 24, "heads": 16, "d_model": 2048, "vocabulary": 50368}},
    "columns": ["model", "gpus", "microbatch", "seconds", "memory_gb"], "rows": [["m", 16, 1, 1, 40]]})";
  return validate(kRoot, path)[0].rows[0];
}

TEST(Validate, UnitsAreCopiedAndReducedInFp32AsFsdpDoes) {
  const Validated plain = one_run(R"("zero": 3, )"), fp32 = one_run(R"("zero": 3, "gradients": "fp32", )"),
                  copied = one_run(R"("zero": 3, "copied_bytes": 14, )");
  GptConfig model{.layers = 24, .heads = 16, .d_model = 2048, .vocabulary = 50368, .context = 2048};
  const auto parameters = static_cast<double>(model.parameters());
  EXPECT_NEAR(copied.library - plain.library, 14 * parameters / 1.581e12, 1e-6) << "once for this one microbatch";
  EXPECT_EQ(copied.memory_bytes, plain.memory_bytes);
  EXPECT_GT(fp32.library, plain.library) << "scatters of twice the bytes";
  EXPECT_GT(fp32.memory_bytes - plain.memory_bytes, 2 * parameters / 16) << "shards, and units as they are reduced";
}

TEST(Validate, KeptProductsAreNotComputedAgain) {  // PyTorch's selective checkpointing of operations
  const auto row = [](const char* fields, const char* recompute) {
    const std::string path = ::testing::TempDir() + "/kept.json";
    std::ofstream(path) << R"({"name": "x", "kind": "training", "source": "y", "machine": "dgx-a100-hdr", "zero": 3,
      "sequence": 4096, "microbatches": 1, "microbatch": 2, "gpus": 8, "stops_early": true, "recompute": ")"
                        << recompute << "\", " << fields << R"("models": {"m": {"layers": 32, "heads": 32,
      "d_model": 4096, "vocabulary": 32000, "kv_heads": 8, "ffn": 14336, "tied_head": false}},
      "columns": ["model", "seconds"], "rows": [["m", 1]]})";
    return validate(kRoot, path)[0].rows[0];
  };
  const Validated none = row("", "none"), kept = row("", "operations"), full = row("", "full");
  const double rate = 238e12, rows = 8192, d = 4096, flash = full.library - kept.library;
  // q is 4,096 channels wide, v 1,024 and gate 14,336; attention, with a causal mask, costs 2 T d FLOP per token.
  const double products = 32 * 2 * rows * d * (4096 + 1024 + 14336) / rate;
  EXPECT_GT(flash, products * 1.02) << "attention is not computed again, and products write their results";
  EXPECT_LT(flash, products + 32 * 2 * rows * 4097 * d / 60e12 + 32 * rows * 2 * 19456 / 1e12 + 32 * 4 * 10e-6);
  EXPECT_GT(kept.library, none.library * 1.05) << "k, the projection, up, norms and SwiGLU are";
  const double bytes = 31 * 2 * rows * (4096 + 1024 + 14336 + 2 * 4096);  // of the last block, all is there anyway
  EXPECT_NEAR((kept.memory_bytes - full.memory_bytes) / bytes, 1, 1e-6);
  EXPECT_LT(kept.memory_bytes, none.memory_bytes);
  EXPECT_TRUE(contains(refusal([] { (void)one_run(R"("zero": 3, "or": [{"recompute": "operations"}], )"); }),
                       "of a Llama block"));
}

TEST(Validate, NodesThatEachHoldTheStateExchangeOnlyGradients) {
  const Validated all = one_run(R"("zero": 3, "node_ports": 1, )"),
                  hybrid = one_run(R"("zero": 3, "node_ports": 1, "shards": 8, )");
  EXPECT_LT(hybrid.library, 0.8 * all.library) << "a node of one slow port";
  EXPECT_GT(hybrid.memory_bytes, all.memory_bytes);
  EXPECT_EQ(one_run(R"("zero": 3, "node_ports": 1, "shards": 16, )").library, all.library);
}

TEST(Validate, TheUpdatesFp32GradientsNeedMemory) {
  const Validated plain = one_run(R"("zero": 1, )"), copied = one_run(R"("zero": 1, "gradients": "copied", )");
  GptConfig model{.layers = 24, .heads = 16, .d_model = 2048, .vocabulary = 50368, .context = 2048};
  const double part = 4 * static_cast<double>(model.parameters()) / 16;
  EXPECT_NEAR((copied.memory_bytes - plain.memory_bytes) * 0.85, part, 1e-3 * part)
      << "of which the allocator holds more";
  EXPECT_EQ(copied.library, plain.library);
}

TEST(Validate, WhatASourceLeavesOpenIsABracket) {
  const Validated row = one_run(R"("zero": 3, "or": [{"recompute": "full"}], )");
  EXPECT_GT(row.other, 1.1 * row.library);
  Validated between = row;
  between.published = (row.library + row.other) / 2;
  EXPECT_TRUE(between.bracketed());
  between.published = 2 * row.other;
  EXPECT_FALSE(between.bracketed());
  const double most = one_run(R"("zero": 3, "or": [{"recompute": "full"}, {"overlap": false}], )").other;
  EXPECT_GE(most, row.other);
  EXPECT_EQ(one_run(R"("zero": 3, "or": [{"overlap": false}, {"recompute": "full"}], )").other, most)
      << "the case that changes most";
}

TEST(Validate, RanksShareSequences) {
  const PublishedTable table = read_published(kRoot + "/bench/published/predict/nemo-long-sequence.json");
  const PublishedRun& longest = table.runs.back();  // 1,048,576 tokens on 1,024 GPUs: tp 8, cp 32, 4 replicas
  EXPECT_EQ(longest.strategy.cp, 32);
  EXPECT_EQ(longest.strategy.dp, 32 * 4);
  EXPECT_TRUE(longest.strategy.sequence_parallel);
  // Its rate counts the masked half of attention, 12 T² d per layer in all.
  const double tokens = 1048576, attention = 4 * 12 * tokens * tokens * 4096 * 32;
  EXPECT_NEAR(longest.seconds * 1024 * 536e12 / attention, 1, 0.03) << "nearly all of its FLOP";
}

TEST(Validate, PublishedRatesBecomeSeconds) {
  const PublishedTable table = read_published(kRoot + "/bench/published/predict/megatron-zero3.json");
  // Days for 300 G tokens in the same table: 90 at 384 GPUs with a batch of 1,536 sequences of 2,048.
  const double steps = 300e9 / (1536.0 * 2048);
  EXPECT_NEAR(table.runs[0].seconds * steps / 86400, 90, 1);
}

TEST(Validate, MediansDoNotWorsen) {
  // In %: what they are, rounded up. Goals: 10 of every table, and 3.65 on average of megatron-recomputation (missed).
  const std::map<std::string, double> most{{"bloom-february", 10},
                                           {"bloom-fp32-gradients", 6.5},
                                           {"bloom-numa", 8},
                                           {"fms-fsdp", 9},
                                           {"fms-hybrid", 15},
                                           {"kempner-h200", 8},
                                           {"llama3", 8},
                                           {"llm-c", 5.5},
                                           {"megatron-moe", 8},
                                           {"megatron-ptd", 1},
                                           {"megatron-recomputation", 3.5},
                                           {"megatron-tensor", 34},
                                           {"megatron-weak-scaling", 2},
                                           {"megatron-zero3", 53.5},
                                           {"moe-folding", 14},
                                           {"mpt-a100-40gb", 4},
                                           {"mpt-a100-80gb", 6.5},
                                           {"mpt-h100", 7},
                                           {"mt-nlg", 18.5},
                                           {"nemo-5b", 9},
                                           {"pytorch-aws", 19.5},
                                           {"pytorch-fsdp", 6.5},
                                           {"torchtitan-a100", 1},
                                           {"torchtitan-operations", 6},
                                           {"torchtitan-tensor", 7},
                                           {"nemo-b200", 8},
                                           {"nemo-fp8", 4.5},
                                           {"nemo-2024", 15},
                                           {"nemo-2024-context", 10.5},
                                           {"nemo-fp8-context", 8},
                                           {"nemo-long-sequence", 29},
                                           {"torchtitan-float8", 11},
                                           {"torchtitan-float8-tensor", 22.5},
                                           {"nccl-8xa100", 4},
                                           {"nccl-8xb200", 6.5},
                                           {"nccl-8xh200", 2},
                                           {"nccl-nodes", 11.5},
                                           {"zero-bubble", 0.1}};
  // Committed after all costs were fixed, and before anything was predicted of them.
  const std::set<std::string> added{"llm-c",
                                    "torchtitan-a100",
                                    "nemo-5b",
                                    "pytorch-fsdp",
                                    "fms-fsdp",
                                    "pytorch-aws",
                                    "bloom-february",
                                    "bloom-numa",
                                    "bloom-fp32-gradients",
                                    "mt-nlg",
                                    "kempner-h200",
                                    "megatron-moe",
                                    "moe-folding",
                                    "fms-hybrid",
                                    "torchtitan-operations",
                                    "torchtitan-tensor",
                                    "torchtitan-float8",
                                    "torchtitan-float8-tensor",
                                    "nemo-b200",
                                    "nemo-fp8",
                                    "nemo-2024",
                                    "nemo-2024-context",
                                    "nemo-fp8-context",
                                    "nemo-long-sequence"};
  const std::map<std::string, double> most_memory{
      {"bloom-february", 5}, {"bloom-fp32-gradients", 2}, {"bloom-numa", 5.5}};
  std::size_t closer_than_file = 0, closer_than_simple = 0, runs = 0;
  std::vector<double> errors, later;
  for (const ValidatedTable& table : validate(kRoot)) {
    ASSERT_TRUE(most.contains(table.name)) << table.name << ": what is its median?";
    const Deviation off = deviation(table, &Validated::library);
    fmt::print("{:<24} {:>3} points: median {:.1f}%, mean {:.1f}%, worst {:.1f}%\n", table.name, table.rows.size(),
               100 * off.median, 100 * off.mean, 100 * off.worst);
    EXPECT_LE(100 * off.median, most.at(table.name)) << table.name;
    if (most_memory.contains(table.name)) {
      EXPECT_LE(100 * memory_deviation(table).median, most_memory.at(table.name)) << table.name;
    }
    if (table.name == "megatron-recomputation") {
      EXPECT_LT(off.mean, 0.05) << "Calculon's is 3.65%; ours was 2.7% before steps waited for their slowest card";
    }
    for (const Validated& row : table.rows) {
      errors.push_back(std::abs(row.error()));
      if (added.contains(table.name)) later.push_back(errors.back());
      EXPECT_GT(row.library, 0) << row.name;
      if (table.unit != "s") continue;
      ++runs;
      closer_than_file += std::abs(row.error()) < std::abs(row.file / row.published - 1);
      closer_than_simple += std::abs(row.error()) < std::abs(row.simple / row.published - 1);
    }
  }
  EXPECT_GE(errors.size(), 200u);
  const std::string said_later = fmt::format("{:.0f}% on {} training runs", 100 * median(later).value, later.size());
  const std::string said = fmt::format("{:.1f}% on all [{} published measurements](docs/use/validation.md)",
                                       100 * median(errors).value, errors.size());
  std::string front = read_file(kRoot + "/README.md");
  std::replace(front.begin(), front.end(), '\n', ' ');
  EXPECT_TRUE(contains(front, said_later)) << "README.md should say: " << said_later;
  EXPECT_TRUE(contains(front, said)) << "README.md should say: " << said;
  EXPECT_GT(closer_than_file, 0.8 * static_cast<double>(runs));
  EXPECT_GT(closer_than_simple, 0.65 * static_cast<double>(runs));
}

}  // namespace
}  // namespace lockstep::plan
