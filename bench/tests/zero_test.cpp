// ./lab bench zero and ./lab memory, from outside.
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

TEST_F(BenchProgram, EveryByteOfZeroIsExplained) {
  const char* models[] = {"--model tiny --ranks 1,2,3,8",
                          "--model tiny --ranks 3 --dtype fp32 --wrap layer --prefetch 2",
                          "--params 3e5 --ranks 5 --wrap 20000 --no-overlap", "--params 7e9 --phantom --ranks 7",
                          "--model small --ranks 2 --wrap 300000 --prefetch 3"};
  for (const char* arguments : models) {
    std::size_t weighed = 0;
    for (const Json& row : rows_of(std::string(arguments) + " --sequence 8 --memory-only", "zero")) {
      const double formula = row.at("predicted_bytes"), explained = row.at("explained_bytes");
      EXPECT_NEAR(row.at("measured_bytes"), formula + explained, 0.5) << arguments << ": " << row;
      EXPECT_EQ(explained != 0, !row.at("reason").get<std::string>().empty()) << row;
      ++weighed;
    }
    EXPECT_EQ(weighed % 32, 0u) << "4 stages, 4 kinds, at rest and at the peak";
  }
}

TEST_F(BenchProgram, AHundredMillionParametersOnTwoRanks) {
  // 1.6 / 1.0 / 0.9 / 0.8 GB of parameters, gradients and optimizer state. `./lab bench zero --params 100e6 --ranks 2`
  // really allocates them, which takes half a minute.
  const double expected[] = {1.6e9, 1.0e9, 0.9e9, 0.8e9};
  double seen[4] = {};
  for (const Json& row : rows_of("--params 100e6 --ranks 2 --phantom --memory-only", "zero"))
    if (row.at("moment") == "resident" && row.at("category") != "activations")
      seen[row.at("stage").get<int>()] += row.at("measured_bytes").get<double>();
  for (int stage : {0, 1, 2, 3}) EXPECT_NEAR(seen[stage], expected[stage], 0.01 * expected[stage]) << "stage " << stage;
}

TEST_F(BenchProgram, TimesOfZeroStages) {
  std::size_t timed = 0;
  for (const Json& row :
       rows_of("--model gpt2-355m --phantom --ranks 8 --machine dgx-a100 --batch 4 --sequence 512", "zero")) {
    if (!row.contains("seconds")) continue;
    ++timed;
    const int stage = row.at("stage");
    EXPECT_NEAR(row.at("bytes_sent_per_rank"), row.at("predicted_bytes_sent_per_rank"),
                1e-4 * row.at("bytes_sent_per_rank").get<double>());
    if (stage == 3) {
      EXPECT_LT(row.at("exposed_seconds"), 0.2 * row.at("communication_seconds").get<double>());
    }
    EXPECT_GT(row.at("throughput_of_stage0"), 0.85) << row;
  }
  EXPECT_EQ(timed, 4u);
  for (const Json& row : rows_of("--ranks 2,3 --dtype fp32 --sequence 8", "zero"))
    if (row.contains("seconds")) {
      EXPECT_TRUE(row.at("verified")) << row;
    }
}

TEST_F(BenchProgram, FsdpAgainstDdp) {
  // docs/learn/claims.md: 5–15 % slower on PCIe with some thousand tokens, a third on 10 GbE, faster over NVLink.
  const auto relative = [&](const std::string& machine, int tokens) {
    const std::string shape = machine + " --batch 4 --sequence " + std::to_string(tokens / 4);
    for (const Json& row : rows_of("--model gpt2-355m --phantom --stages 0,3 " + shape, "zero"))
      if (row.contains("seconds") && row.at("stage") == 3) return row.at("throughput_of_stage0").get<double>();
    return 0.0;
  };
  EXPECT_NEAR(relative("--machine pcie-box --ranks 4", 2048), 0.81, 0.03);
  EXPECT_NEAR(relative("--machine pcie-box --ranks 4", 4096), 0.89, 0.03);
  EXPECT_NEAR(relative("--machine pcie-box --ranks 4", 8192), 1.00, 0.03);
  EXPECT_NEAR(relative("--machine dgx-a100 --ranks 8", 2048), 1.17, 0.03);
  EXPECT_NEAR(relative("--machine dgx-a100-10gbe --ranks 16", 8192), 0.69, 0.03);
}

TEST_F(BenchProgram, ZeroRefusesInOneSentence) {
  for (const auto& [arguments, says] : {std::pair{"--stages 4", "from 0 to 3"},
                                        {"--params 5", "1e4"},
                                        {"--wrap blocks", "--wrap"},
                                        {"--params 1e12 --ranks 2", "--phantom"},
                                        {"--dtype int8", "dtype"}}) {
    expect_refused(start(arguments, "zero"), arguments, says);
  }
}

TEST_F(BenchProgram, TheMemoryCalculator) {
  // Two cells of the ZeRO paper's Table 1, and GPT-3's 175 GB on 16 GPUs.
  std::size_t cells = 0;
  for (const Json& row : rows_of("--params 7.5e9,1e12 --zero 1,3 --ranks 4,1024 --csv " + file("m.csv"), "memory")) {
    ++cells;
    EXPECT_DOUBLE_EQ(row.at("total_bytes"), row.at("parameter_bytes").get<double>() +
                                                row.at("gradient_bytes").get<double>() +
                                                row.at("optimizer_bytes").get<double>());
    if (row.at("stage") == 1 && row.at("ranks") == 4 && row.at("model") == "7.5e9") {
      EXPECT_DOUBLE_EQ(row.at("total_bytes"), 52.5e9);
    }
    if (row.at("stage") == 3 && row.at("ranks") == 1024 && row.at("model") == "1e12") {
      EXPECT_DOUBLE_EQ(row.at("total_bytes"), 15.625e9);
    }
  }
  EXPECT_EQ(cells, 8u);
  EXPECT_TRUE(read(file("m.csv")).starts_with("model,parameters,stage,ranks,parameter_bytes,gradient_bytes,"));
  EXPECT_EQ(start("--params 175e9 --zero 3 --ranks 16", "memory"), 0);
  EXPECT_NE(out_.find("175"), std::string::npos) << out_;
  EXPECT_NE(out_.find("16 bytes per parameter"), std::string::npos) << out_;
  EXPECT_EQ(start("--params 1e9 --ranks 1", "memory"), 0);
  EXPECT_EQ(out_.find("V100"), std::string::npos) << "a V100 has no units for bf16:\n" << out_;
  EXPECT_EQ(start("--params 1e9 --ranks 1 --dtype fp16", "memory"), 0);
  EXPECT_NE(out_.find("V100"), std::string::npos) << out_;
  EXPECT_EQ(start("--params 7e9 --no-master", "memory"), 0);
  EXPECT_NE(out_.find("12 bytes per parameter"), std::string::npos) << out_;
  for (const auto& [arguments, says] :
       {std::pair{"--params 7e9 --zero 4", "--zero"},
        {"", "--params"},
        {"--params seven", "--params"},
        {"--params 7e9 --ranks 0", "--ranks"},
        {"--params 7e9 --batch 2", "--model"},
        {"--params 7e9 --model gpt3-175b", "--params has no effect together with --model"},
        {"--params 7e9 --zero 1.5", "--zero counts: not '1.5'"},
        {"--params 7e9 --ranks 2.5", "--ranks counts: not '2.5'"},
        {"--model tiny --sequence 9", "add --batch"},
        {"--params 7e9 --plot x.bmp", "ends in .svg, .pdf or .png"},
        {"--model gpt4", "gpt4"},
        {"--model tiny --ep 2", "tiny has no experts"},
        {"--model mixtral-8x7b --ep 3", "8 experts, which do not divide"},
        {"--model mixtral-8x7b --ep 8 --ranks 1,4", "divides none of the --ranks"}}) {
    expect_refused(start(arguments, "memory"), arguments, says);
  }
}

TEST_F(BenchProgram, TheMemoryOfAMixture) {
  const double all = 46702792704, experts = 32.0 * 8 * 3 * 4096 * 14336, others = all - experts;
  std::size_t cells = 0;
  for (const Json& row :
       rows_of("--model mixtral-8x7b --ep 8 --zero 0,1,3 --ranks 4,8,64 --batch 1 --sequence 4096", "memory")) {
    ++cells;
    const double ranks = row.at("ranks").get<double>(), stage = row.at("stage").get<double>();
    const double held = others + experts / 8, shared = stage > 0 ? all / ranks : held;
    EXPECT_DOUBLE_EQ(row.at("optimizer_bytes"), 12 * shared) << "over the ranks / 8 that have the same experts";
    EXPECT_DOUBLE_EQ(row.at("parameter_bytes"), 2 * (stage == 3 ? shared : held));
    EXPECT_DOUBLE_EQ(row.at("active_parameters"), all - experts * 6 / 8);
    // For each token, a block keeps four rows of C around norms, qkv, attention's output, and statistics. For each of
    // its two slots it keeps a row there and one back, gate and up, and down's input.
    const double channels = 4 * 4096 + 6144 + 4096 + 2 * (2 * 4096 + 3 * 14336);
    EXPECT_DOUBLE_EQ(row.at("activation_bytes"), 32.0 * 4096 * (2 * channels + 2 * 4 + 32 * 4));
  }
  EXPECT_EQ(cells, 6u) << "4 ranks cannot be groups of 8";
  EXPECT_EQ(start("--model mixtral-8x7b --ranks 8", "memory"), 0);
  EXPECT_NE(out_.find("12.88 billion of which a token meets, experts shared by 1 rank"), std::string::npos) << out_;
}

}  // namespace
}  // namespace lockstep::bench
