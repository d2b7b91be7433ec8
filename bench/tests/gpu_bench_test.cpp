// Benchmark programs of the cuda backend, with the fake GPU: the same rows, and what only one GPU has.
#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

class GpuBenchProgram : public BenchProgram {
 protected:
  GpuBenchProgram() : BenchProgram("fake") {}
};

TEST_F(GpuBenchProgram, AllReduceIsComparedWithItsMemoryTraffic) {
  Json rows = rows_of("--ranks 4 --bytes 64KiB --samples 5", "all_reduce");
  ASSERT_EQ(rows.size(), 5u);
  const Json& copy = rows[4];
  EXPECT_EQ(copy.at("algorithm"), "device_copy");
  const double bytes = rows[0].at("bytes"), rate = copy.at("copy_bytes_per_second");
  EXPECT_NEAR(rate * copy.at("seconds").get<double>() / (2 * 4 * bytes), 1, 1e-9);
  // p − 1 additions of the array and 2 (p − 1) messages of it; recursive doubling: p lg p of both
  for (std::size_t i : {0, 1, 2, 3}) {
    const bool doubling = rows[i].at("algorithm") == "recursive_doubling";
    const double sent = doubling ? 8 : 6, added = doubling ? 8 : 3;
    EXPECT_EQ(rows[i].at("backend"), "cuda");
    EXPECT_EQ(rows[i].at("verified"), true);
    EXPECT_EQ(rows[i].at("traffic_bytes").get<double>(), bytes * (2 * sent + 3 * added));
    const double bound = rows[i].at("traffic_bytes").get<double>() / rate, seconds = rows[i].at("seconds");
    EXPECT_NEAR(rows[i].at("predicted_seconds").get<double>() / bound, 1, 1e-9);
    EXPECT_NEAR(rows[i].at("fraction_of_traffic_bound").get<double>() / (bound / seconds), 1, 1e-9);
    EXPECT_NEAR(rows[i].at("fraction_of_fused_bound").get<double>() / (bound / seconds),
                (2 * sent + added) / (2 * sent + 3 * added), 1e-9);
  }
}

TEST_F(GpuBenchProgram, AStepOfATinyModelLearns) {
  Json rows = rows_of("--model tiny --batch 1 --sequence 8 --matmul 16 --samples 5 --machine dgx-h200", "gpt");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("verified"), true);
  EXPECT_GT(rows[0].at("predicted_seconds"), 0);
  EXPECT_GT(rows[0].at("tokens_per_second"), 0);
}

TEST_F(GpuBenchProgram, AStepsOperationsAddUp) {
  Json rows = rows_of("--model tiny --batch 1 --sequence 8 --matmul 16 --samples 5 --operations 1000", "gpt");
  double flop = 0, fractions = 0, before = 1, matmuls = 0;
  for (const Json& row : rows) {
    if (!row.contains("operation")) continue;
    const double seconds = row.at("seconds");
    EXPECT_LE(row.at("fraction_of_operations").get<double>(), before);
    before = row.at("fraction_of_operations");
    fractions += before;
    flop += row.at("flop_per_second").get<double>() * seconds;
    EXPECT_GE(row.at("calls"), 1);
    if (row.at("operation") == "matmul") matmuls += row.at("calls").get<double>();
  }
  EXPECT_NEAR(fractions, 1, 1e-9);
  EXPECT_GE(matmuls, 16) << "of two blocks and a head";
  const Json& step = rows.at(rows.size() - 2);
  const double model = step.at("model_flop_per_token").get<double>() * 8;
  EXPECT_GT(flop, model);
  EXPECT_LT(flop, 1.5 * model) << "beside its products a step adds, norms, updates";
  EXPECT_NE(out_.find("operations of a step, tiny"), std::string::npos) << out_;
}

TEST_F(GpuBenchProgram, WhatIsSlowIsSaid) {
  const auto said = [&](const char* dtype, const char* vocabulary) {
    (void)rows_of(std::string("--model tiny --batch 1 --sequence 8 --matmul 16 --samples 5 --dtype ") + dtype +
                      " --vocabulary " + vocabulary,
                  "gpt");
    return Json::parse(read(file("rows.json"))).at("context").at("slow_paths").get<std::string>();
  };
  EXPECT_EQ(said("fp32", "64"), "none");
  EXPECT_EQ(said("bf16", "64"), "none");
  EXPECT_EQ(out_.find("slower way"), std::string::npos) << out_;
  const std::string odd = said("bf16", "67");
  EXPECT_NE(odd.find(" × a product whose rows do not begin at multiples of 16 bytes"), std::string::npos) << odd;
  EXPECT_NE(out_.find("slower way than usual (docs/use/gpu.md): " + odd + "\n"), std::string::npos) << out_;
}

TEST_F(GpuBenchProgram, AProfilerSeesTheNamesOfTraces) {
  setenv("NVTX_INJECTION64_PATH", LOCKSTEP_NVTX_LISTENER, 1);
  setenv("LOCKSTEP_NVTX_NAMES", file("names").c_str(), 1);
  EXPECT_EQ(start("--ranks 2 --bytes 64 --algorithm ring --samples 1"), 0) << err_;
  unsetenv("NVTX_INJECTION64_PATH");
  const std::string names = read(file("names"));
  EXPECT_NE(names.find("region ring_all_reduce\n"), std::string::npos) << names;
  EXPECT_NE(names.find("operation add\n"), std::string::npos) << names;
}

TEST_F(GpuBenchProgram, WhatAGpuCannotDoIsOneSentence) {
  for (const char* arguments : {"--phantom", "--emulate laptop", "--ranks 0"}) {
    expect_refused(start(arguments), arguments);
  }
}

}  // namespace
}  // namespace lockstep::bench
