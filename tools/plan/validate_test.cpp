// Tests of ./lab validate: published tables, and what their rows leave open.
#include "tools/plan/validate.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/support/json/document.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/files.hpp"
#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

const std::string kRoot = LOCKSTEP_SOURCE_DIR;

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
  // Errors in %, rounded up. Goals: 10 of every table, and 3.65 on average of megatron-recomputation (missed).
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
