// Benchmark programs from outside, as ./lab bench calls them: output files, documentation, bad input.
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "bench/programs/bench_program.hpp"
#include "bench/programs/pipelined_all_reduce.hpp"
#include "bench/support/calibration.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {
namespace {

void expect_documented(const Json& rows) {
  const std::string documentation = read(LOCKSTEP_SOURCE_DIR "/docs/output.md");
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items())
      EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/output.md";
}

TEST_F(BenchProgram, RowsHoldWhatTheDocumentationSays) {
  ASSERT_EQ(
      start("--ranks 8 --machine dgx-a100 --bytes 4096,64KiB --json " + file("a.json") + " --csv " + file("a.csv")), 0)
      << err_;
  Json document = Json::parse(read(file("a.json")));
  ASSERT_EQ(document.at("rows").size(), 8u) << "four algorithms; on one node, the hierarchical one is the ring";
  expect_documented(document.at("rows"));
  for (const Json& row : document.at("rows")) {
    for (const char* name :
         {"backend", "machine", "ranks", "bytes", "algorithm", "seconds", "predicted_seconds", "algbw_gb_per_s",
          "busbw_gb_per_s", "messages", "bytes_sent_per_rank_max", "verified", "wall_seconds", "peak_rss_bytes"})
      EXPECT_TRUE(row.contains(name)) << name;
    EXPECT_EQ(row.at("backend"), "sim");
    EXPECT_EQ(row.at("machine"), "dgx-a100");
    EXPECT_EQ(row.at("verified"), true);
    double seconds = row.at("seconds"), bytes = row.at("bytes");
    EXPECT_NEAR(row.at("predicted_seconds").get<double>() / seconds, 1, 1e-12) << row;
    EXPECT_NEAR(row.at("busbw_gb_per_s").get<double>() * 1e9 / (bytes / seconds * 2 * 7 / 8), 1, 1e-12);
    const std::map<std::string, std::array<double, 2>> messages_and_arrays = {
        {"naive", {2 * 7, 7}},
        {"recursive_doubling", {8 * 3, 3}},
        {"rabenseifner", {8 * 2 * 3, 2 * 7.0 / 8}},
        {"ring", {8 * 2 * 7, 2 * 7.0 / 8}}};
    const auto& [messages, arrays] = messages_and_arrays.at(row.at("algorithm").get<std::string>());
    EXPECT_EQ(row.at("messages"), messages);
    EXPECT_EQ(row.at("bytes_sent_per_rank_max"), bytes * arrays);
  }
  EXPECT_EQ(document.at("context").at("command"), "all_reduce");
  const std::string line = document.at("context").at("command_line");
  EXPECT_TRUE(line.starts_with("./lab bench all_reduce --ranks 8 ")) << line;
  EXPECT_EQ(line.find('/', 2), std::string::npos) << "no path of this computer: " << line;
  EXPECT_TRUE(document.at("context").at("versions").contains("blas"));
  EXPECT_TRUE(read(file("a.csv")).starts_with("backend,machine,"));
}

TEST_F(BenchProgram, TwoRunsGiveTheSameVirtualTimes) {
  auto times = [&] {
    EXPECT_EQ(start("--ranks 7 --machine pcie-box-10gbe --bytes 1KiB:64KiB --json " + file("b.json")), 0) << err_;
    std::vector<double> seconds;
    Json document = Json::parse(read(file("b.json")));
    for (const Json& row : document.at("rows")) seconds.push_back(row.at("seconds"));
    return seconds;
  };
  std::vector<double> first = times();
  EXPECT_EQ(first.size(), 28u);
  EXPECT_EQ(first, times());
}

TEST_F(BenchProgram, BadInputIsOneSentenceAndNothingIsWritten) {
  std::string json_file = " --json " + file("c.json");
  for (const char* arguments :
       {"--ranks -1", "--ranks two", "--ranks 0", "--ranks 1,x", "--machine dgx-h10", "--machine dgx-a100 --ranks 9",
        "--algorithm rnig", "--bytes 64k", "--bytes 6", "--bytes 0", "--samples 0", "--rank 3", "--emulate laptop",
        "surplus", "--ranks 4 --ranks-per-node 3", "--ranks 4 --ranks-per-node -2"}) {
    EXPECT_EQ(start(arguments + json_file), 2) << arguments;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << arguments << ": " << err_;
    EXPECT_EQ(out_, "") << arguments;
  }
  EXPECT_EQ(start("--json /nowhere/x.json"), 2);
  EXPECT_EQ(start("--bytes 0", "compression"), 2);
  EXPECT_EQ(err_, "--bytes 0: a sum is of fp32 elements, of 4 bytes each and at least one\n");
  EXPECT_EQ(start("--ranks 2,1", "compression"), 2);
  EXPECT_EQ(err_, "--ranks 1: one rank sends nothing that could be compressed; at least 2 are wanted\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "only out and err";
}

TEST_F(BenchProgram, WhichBlasDoesNotDependOnWhoAsksFirst) {
  std::set<std::string> names;
  for (const char* phantom : {"", " --phantom"}) {
    rows_of(std::string("--ranks 2 --bytes 64KiB") + phantom, "all_reduce");
    names.insert(Json::parse(read(file("rows.json"))).at("context").at("versions").at("blas"));
  }
  EXPECT_EQ(names.size(), 1u) << "a phantom run computes nothing, and asks only for the name";
}

TEST_F(BenchProgram, SeveralNumbersOfRanksAndSizes) {
  Json rows = rows_of("--ranks 1,2,5 --bytes 20,40 --algorithm all", "all_reduce");
  ASSERT_EQ(rows.size(), 24u);
  EXPECT_EQ(rows[23].at("ranks"), 5);
  EXPECT_EQ(rows[23].at("bytes"), 40);
}

TEST_F(BenchProgram, CompressionSendsWhatItsFormulasSay) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 2,4,8 --bytes 8MiB --density 0.125 --block 256", "compression");
  ASSERT_EQ(rows.size(), 12u);
  expect_documented(rows);
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("verified"), true) << row;
    EXPECT_EQ(row.at("bytes_sent_per_rank_max"), row.at("predicted_bytes_sent_per_rank")) << row;
    EXPECT_NEAR(row.at("predicted_seconds").get<double>() / row.at("seconds").get<double>(), 1, 0.1) << row;
    const Json& even = row.at("ranks_to_break_even");
    if (row.at("algorithm") != "ring") {
      EXPECT_EQ(row.at("relative_bytes") >= 1, !even.is_null() && row.at("ranks") >= even) << row;
    }
  }
}

/// The row of a size with the least `field`, of those that `auto` may take.
Json fastest(const Json& rows, std::uint64_t bytes, const char* field) {
  Json best;
  for (const Json& row : rows)
    if (row.at("bytes") == bytes && row.at("algorithm") != "naive" && row.at("algorithm") != "auto")
      if (best.is_null() || row.at(field).get<double>() < best.at(field).get<double>()) best = row;
  return best;
}

TEST_F(BenchProgram, AutoTakesWhatThePricesPredictAsTheFastest) {
  // A port for each GPU, another number of nodes, one port a node (rails in turn), a number with guests, one level.
  for (const char* where : {"--machine dgx-a100-hdr --ranks 16", "--machine dgx-a100-hdr --ranks 24",
                            "--machine dgx-a100-10gbe --ranks 16", "--machine uniform --ranks 7", "--ranks 8"}) {
    const Json rows = rows_of(std::string(where) + " --bytes 1KiB:256MiB --phantom --algorithm all,auto", "all_reduce");
    std::set<std::string> taken;
    for (const Json& row : rows) {
      if (row.at("algorithm") != "auto") continue;
      const Json predicted = fastest(rows, row.at("bytes"), "predicted_seconds");
      EXPECT_EQ(row.at("chosen"), predicted.at("algorithm")) << where << ", " << row.at("bytes") << " bytes";
      EXPECT_EQ(row.at("seconds"), predicted.at("seconds"));
      taken.insert(row.at("chosen"));
      const double lost =
          row.at("seconds").get<double>() / fastest(rows, row.at("bytes"), "seconds").at("seconds").get<double>() - 1;
      EXPECT_LT(lost, 0.2) << where << ", " << row.at("bytes") << " bytes: rails that take turns hide latency";
      if (std::string(where).find("hdr") != std::string::npos) {
        EXPECT_NEAR(predicted.at("predicted_seconds").get<double>() / predicted.at("seconds").get<double>(), 1, 1e-3);
        EXPECT_LT(lost, 1e-9) << "where the formulas are exact, so is the choice";
      }
    }
    EXPECT_GE(taken.size(), 2u) << where << ": there is a crossover between 1 KiB and 256 MiB";
    EXPECT_NE(out_.find("auto, "), std::string::npos) << "the thresholds are printed";
    EXPECT_NE(out_.find("  predicted: recursive_doubling up to "), std::string::npos) << out_;
    EXPECT_NE(out_.find("  simulated: recursive_doubling up to "), std::string::npos) << out_;
  }
}

TEST_F(BenchProgram, AHierarchyGainsItsRails) {
  const auto seconds = [&](const std::string& options) {
    return rows_of(options + " --ranks 64 --bytes 256MiB --phantom", "all_reduce")[0].at("seconds").get<double>();
  };
  const auto gain = [&](const std::string& machine) {
    return seconds("--algorithm ring --machine " + machine) / seconds("--algorithm hierarchical --machine " + machine);
  };
  EXPECT_GT(gain("dgx-a100-hdr"), 4) << "a port for each GPU";
  EXPECT_LT(gain("dgx-a100-10gbe"), 1.3) << "one port a node";
  EXPECT_NEAR(seconds("--algorithm hierarchical --machine uniform --ranks-per-node 64") /
                  seconds("--algorithm ring --machine uniform"),
              1, 1e-9)
      << "one node: a ring";
}

TEST_F(BenchProgram, PipelinedSegmentsHideTheAdditions) {
  // 6 MiB on 2, 3, 5 and 8 ranks are 12, 8, 4 and 3 blocks, of segments of 256 KiB and more.
  for (const char* ranks : {"2", "3", "5", "8"}) {
    Json rows =
        rows_of(std::string("--machine laptop --bytes 6MiB --algorithm ring,pipelined --ranks ") + ranks, "all_reduce");
    const Json &ring = rows[0], &pipelined = rows[1];
    const double seconds = pipelined.at("seconds"), bytes = 6 << 20, p = pipelined.at("ranks");
    EXPECT_LT(seconds, ring.at("seconds"));
    EXPECT_NEAR(pipelined.at("predicted_seconds").get<double>() / seconds, 1, 1e-3) << pipelined;
    EXPECT_NEAR(pipelined.at("bytes_sent_per_rank_max").get<double>() / (2 * (p - 1) / p * bytes), 1, 1e-4);
    EXPECT_EQ(pipelined.at("verified"), true);
    const std::string least = std::string("--machine laptop --bytes 64KiB --algorithm ring,pipelined --ranks ") + ranks;
    const Json few = rows_of(least, "all_reduce");
    EXPECT_NEAR(few[1].at("seconds").get<double>() / few[0].at("seconds").get<double>(), 1, 1e-9)
        << "one block: a ring";
  }
}

TEST(PipelinedAllReduce, SumsWhateverTheSizesAndWithoutARace) {
  for (int ranks : {1, 2, 3, 4, 5, 7, 8})
    for (int elements : {0, 1, ranks - 1, ranks + 1, 97, 500}) {
      const RunOptions options{.ranks = ranks};  // checks are on, memory is poisoned
      const Outcome outcome = run(options, [=](Rank me) -> Values {
        Slice data = me.allocate(static_cast<std::size_t>(elements), DType::f32, Category::gradient);
        std::vector<float> values;
        for (int i = 0; i < elements; ++i) values.push_back(static_cast<float>(i + me.rank() * me.rank()));
        upload(me, data, values);
        pipelined_all_reduce(me, data, 32);  // 8 elements a segment: blocks of all kinds
        values = to_host(me, data);
        return Values(values.begin(), values.end());
      });
      ASSERT_TRUE(outcome.passed()) << outcome.message;
      Values sums;
      for (int i = 0; i < elements; ++i) sums.push_back(ranks * i + (ranks - 1) * ranks * (2 * ranks - 1) / 6);
      for (const Values& of_rank : outcome.values) EXPECT_EQ(of_rank, sums) << ranks << " ranks, " << elements;
    }
}

TEST_F(BenchProgram, OnMpiTheLibraryAndAPlainCopyStandBeside) {
  if (std::string_view(LOCKSTEP_LAUNCH_TWO).empty()) GTEST_SKIP() << "no MPI in this build";
  backend_ = "mpi";
  before_ = LOCKSTEP_LAUNCH_TWO;
  Json rows = rows_of("--bytes 64KiB,1MiB --ranks 1,2 --samples 7", "all_reduce");
  const std::size_t others = std::string_view(LOCKSTEP_GLOO).empty() ? 0 : 1;
  ASSERT_EQ(rows.size(), 28u + 4 * others) << "six all-reduces and the copy, also where a process has nothing to do";
  for (const Json& row : rows) {
    const std::string algorithm = row.at("algorithm");
    if (algorithm == "memory_copy") continue;
    EXPECT_EQ(row.at("verified"), true) << algorithm;
    EXPECT_GT(row.at("fraction_of_copy_bound"), 0) << algorithm;
    EXPECT_LE(row.at("times_library_low"), row.at("times_library")) << algorithm;
    EXPECT_LE(row.at("times_library"), row.at("times_library_high")) << algorithm;
    if (algorithm == "library") {
      EXPECT_EQ(row.at("times_library"), 1);
    }
  }
}

TEST_F(BenchProgram, OnMpiGlooStandsBeside) {
  if (std::string_view(LOCKSTEP_GLOO).empty()) GTEST_SKIP() << "no Gloo in this build: libgloo-dev is not installed";
  backend_ = "mpi";
  before_ = LOCKSTEP_LAUNCH_TWO;
  const Json rows = rows_of("--bytes 4,20KiB,1MiB --ranks 2 --samples 5 --algorithm ring,library,gloo", "all_reduce");
  ASSERT_EQ(rows.size(), 12u);
  for (const Json& row : rows) {
    const std::string algorithm = row.at("algorithm");
    if (algorithm == "memory_copy") continue;
    EXPECT_EQ(row.at("verified"), true) << algorithm << " of " << row.at("bytes") << " bytes";
    EXPECT_EQ(row.contains("messages"), algorithm == "ring") << "Gloo's messages are not the runtime's";
    EXPECT_LE(row.at("times_gloo_low"), row.at("times_gloo")) << algorithm;
    EXPECT_LE(row.at("times_gloo"), row.at("times_gloo_high")) << algorithm;
    EXPECT_EQ(row.at("times_gloo") == 1, algorithm == "gloo") << row;
  }
  const Json context = Json::parse(read(file("rows.json"))).at("context");
  EXPECT_NE(context.at("gloo").get<std::string>().find("TCP"), std::string::npos);
  EXPECT_NE(out_.find("× Gloo's"), std::string::npos) << out_;
  rows_of("--bytes 4 --ranks 2 --samples 5 --algorithm ring", "all_reduce");
  EXPECT_FALSE(Json::parse(read(file("rows.json"))).at("context").contains("gloo")) << "it took no part";
}

/// Noise of at most 3 %, the same on every run.
class Noise {
 public:
  double operator()(double value) {
    state_ = state_ * 1664525u + 1013904223u;
    return value * (1 + 0.06 * (static_cast<double>(state_ >> 8) / (1 << 24) - 0.5));
  }

 private:
  std::uint32_t state_ = 1;
};

TEST(Calibration, FindsTheConstantsThroughNoise) {
  const double alpha = 2e-6, beta = 2e-10, launch = 3e-7, memory = 2e10, peak = 1e11;
  Noise noisy;
  Readings readings;
  for (double bytes = 4; bytes <= 4 << 20; bytes *= 4) {
    readings.messages.push_back({.bytes = bytes, .seconds = noisy(alpha + beta * bytes)});
    readings.copies.push_back({.bytes = bytes, .seconds = noisy(launch + 2 * bytes / memory)});
  }
  for (std::size_t n = 16; n <= 1024; n *= 2) {
    const double flop = 2.0 * static_cast<double>(n * n * n);
    readings.squares.push_back({.m = n, .n = n, .k = n, .seconds = noisy(launch + 1e-6 + flop / peak)});
  }
  readings.halves.push_back({.m = 1024, .n = 1024, .k = 1024, .dtype = DType::bf16});
  readings.halves[0].seconds = launch + readings.halves[0].flop() / (4 * peak);
  const Machine machine = fit_machine(readings, unmeasured_of_host(8e9, 4)).machine;
  EXPECT_EQ(machine.memory_bytes, 2e9) << "of one rank";
  EXPECT_NEAR(machine.alpha(0) / alpha, 1, 0.03);
  EXPECT_NEAR(machine.beta(0) / beta, 1, 0.03);
  EXPECT_NEAR(machine.launch / launch, 1, 0.03);
  EXPECT_NEAR(machine.memory_bytes_per_second / memory, 1, 0.03);
  EXPECT_NEAR(machine.peak_flop_per_second[static_cast<std::size_t>(DType::f32)] / peak, 1, 0.04);
  EXPECT_NEAR(machine.peak_flop_per_second[static_cast<std::size_t>(DType::bf16)] / (4 * peak), 1, 0.08);
  EXPECT_LT(std::abs(worst_residual(machine, readings.messages, predicted_message)), 0.06);
  EXPECT_LT(std::abs(worst_residual(machine, readings.squares, predicted_product)), 0.06);
  readings.messages.resize(1);
  EXPECT_THROW(fit_machine(readings, {}), Error);
}

TEST_F(BenchProgram, CalibrationReadsBackTheMachineThatIsSimulated) {
  for (const char* name : {"laptop", "dgx-a100", "dgx-h100"}) {
    const Machine truth = read_machine(std::string(LOCKSTEP_SOURCE_DIR "/bench/machines/") + name + ".json");
    const Json rows = rows_of(std::string("--ranks 2 --machine ") + name + " --output " + file("m.json"), "calibrate");
    const Machine found = read_machine(file("m.json"));
    EXPECT_NEAR(found.alpha(0) / truth.alpha(0), 1, 1e-6) << name;
    EXPECT_NEAR(found.beta(0) / truth.beta(0), 1, 1e-6) << name;
    EXPECT_NEAR(found.memory_bytes_per_second / truth.memory_bytes_per_second, 1, 1e-6) << name;
    EXPECT_NEAR(found.launch / truth.launch, 1, 1e-6) << name;
    EXPECT_NEAR(found.memory_bytes / truth.memory_bytes, 1, 1e-6) << name;
    EXPECT_EQ(found.eager_bytes, truth.eager_bytes) << name;
    for (const Json& row : rows) {
      const double bound = row.at("kind") == "other product" ? 0.1 : 1e-6;
      EXPECT_NEAR(row.at("residual"), 0, bound) << name << ": " << row;
    }
    const Json document = Json::parse(read(file("m.json")));
    for (const char* field : {"date", "commit", "versions", "cores"})
      EXPECT_TRUE(document.at("measured").at("context").contains(field)) << field;
    EXPECT_EQ(document.at("measured").at("rows"), rows);
    EXPECT_EQ(document.at("sources").size(), 9u);
    const auto of_kind = [&](const char* kind) {
      return std::count_if(rows.begin(), rows.end(), [&](const Json& row) { return row.at("kind") == kind; });
    };
    EXPECT_EQ(of_kind("message"), 9);
    EXPECT_EQ(of_kind("one way"), 9) << "links of a machine are full duplex: their residuals are 0 too";
  }
}

TEST_F(BenchProgram, CalibrationThatCannotBeWrittenSaysSoFirst) {
  EXPECT_EQ(start("--output /dev/null/m.json", "calibrate"), 2);
  EXPECT_NE(err_.find("cannot write /dev/null/m.json"), std::string::npos) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_EQ(start("--ranks 1 --output " + file("m.json"), "calibrate"), 2);
  EXPECT_EQ(start("--ranks 2,4 --output " + file("m.json"), "calibrate"), 2);
  EXPECT_FALSE(fs::exists(file("m.json")));
}

TEST_F(BenchProgram, OnMpiPredictionsStartFromTheCalibratedMachine) {
  if (std::string_view(LOCKSTEP_LAUNCH_TWO).empty()) GTEST_SKIP() << "no MPI in this build";
  const std::string machines = "LOCKSTEP_MACHINES=" + folder_.string();
  setenv("LOCKSTEP_MACHINES", folder_.c_str(), 1);
  const std::string place = calibrated_file("mpi");
  unsetenv("LOCKSTEP_MACHINES");
  ASSERT_EQ(start("--machine laptop --output " + place, "calibrate"), 0) << err_;
  backend_ = "mpi";
  before_ = machines + " " + LOCKSTEP_LAUNCH_TWO;
  const std::string arguments = "--bytes 1MiB --ranks 2 --samples 5 --algorithm ring ";
  const Json row = rows_of(arguments, "all_reduce")[0];
  EXPECT_NE(out_.find("predicting from " + place), std::string::npos) << out_;
  EXPECT_EQ(row.at("machine"), "host");
  const double half = 1 << 19;  // of laptop.json: α 1 µs, 5 GB/s, 10 GB/s of memory, 200 ns
  EXPECT_NEAR(row.at("predicted_seconds"), 2 * (1e-6 + half / 5e9) + half * 3 / 10e9 + 200e-9, 1e-9);
  const Json context = Json::parse(read(file("rows.json"))).at("context");
  EXPECT_NE(context.at("predicted_from").get<std::string>().find("laptop"), std::string::npos);
  EXPECT_EQ(rows_of(arguments + "--machine uniform", "all_reduce")[0].at("machine"), "uniform");
  EXPECT_EQ(out_.find("predicting from"), std::string::npos) << out_;
}

TEST_F(BenchProgram, OverlapHidesCommunicationAndTheStepIsPredicted) {
  Json rows = rows_of("--ranks 4 --machine dgx-a100 --batch 2 --microbatches 1,2", "ddp");
  ASSERT_EQ(rows.size(), 8u);
  for (std::size_t i = 0; i < 8; i += 4) {
    double compute = rows[i].at("seconds"), after = rows[i + 1].at("seconds"), overlapped = rows[i + 2].at("seconds"),
           communication = rows[i + 3].at("seconds");
    EXPECT_LT(compute, overlapped);
    EXPECT_LT(overlapped, after);
    EXPECT_NEAR(after / (compute + communication), 1, 1e-3);
    EXPECT_EQ(rows[i + 1].at("verified"), true);
    EXPECT_EQ(rows[i + 2].at("verified"), true);
    EXPECT_GT(rows[i + 2].at("hidden_fraction"), 0.1);
    double bytes = rows[i].at("bytes");
    EXPECT_NEAR(rows[i + 2].at("bytes_sent_per_rank_max").get<double>() / (bytes * 2 * 3 / 4), 1, 0.01);
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_NEAR(rows[i + k].at("predicted_seconds").get<double>() / rows[i + k].at("seconds").get<double>(), 1, 0.02)
          << rows[i + k];
  }
}

TEST_F(BenchProgram, AStepIsPricedAndItsModelFlopAreCounted) {
  Json rows = rows_of("--phantom --machine dgx-h200 --model gpt2-124m --batch 16 --sequence 1024 --matmul 8192", "gpt");
  ASSERT_EQ(rows.size(), 2u);
  const Json& step = rows[0];
  const double matrices = 12 * 12 * 768.0 * 768 + 50257.0 * 768, attention = 6 * 12 * 768.0 * 1024;
  EXPECT_EQ(step.at("model_flop_per_token").get<double>(), 6 * matrices + attention);
  const double seconds = step.at("seconds"), flop = 16 * 1024 * (6 * matrices + attention);
  EXPECT_NEAR(step.at("flop_per_second").get<double>() * seconds / flop, 1, 1e-12);
  EXPECT_NEAR(step.at("mfu").get<double>() * 989e12 * seconds / flop, 1, 1e-12);
  EXPECT_NEAR(step.at("predicted_seconds").get<double>() / seconds, 1, 1e-9)
      << "the simulator prices the same operations";
  EXPECT_EQ(step.at("vocabulary"), 50257);
  EXPECT_LT(step.at("fraction_of_matmul_rate"), 1);
  EXPECT_EQ(rows[1].at("fraction_of_matmul_rate"), 1);
}

TEST_F(BenchProgram, AVocabularyCanBePadded) {
  Json rows = rows_of("--phantom --machine dgx-h200 --model gpt2-124m --vocabulary 50304 --sequence 64", "gpt");
  EXPECT_EQ(rows[0].at("vocabulary"), 50304);
  EXPECT_EQ(rows[0].at("parameters"), 124439808 + 47 * 768);
}

TEST_F(BenchProgram, AStepOfATinyModelLearns) {
  for (const char* dtype : {"fp32", "bf16"}) {
    Json rows = rows_of(std::string("--model tiny --batch 4 --matmul 64 --dtype ") + dtype, "gpt");
    EXPECT_EQ(rows[0].at("verified"), true);
    EXPECT_EQ(rows[0].at("dtype"), dtype);
  }
  EXPECT_EQ(start("--ranks 2", "gpt"), 2);
  EXPECT_EQ(start("--model tyni", "gpt"), 2);
  EXPECT_EQ(start("--batch 1000000000", "gpt"), 2);
  EXPECT_EQ(err_, "--batch wants a whole number from 1 to 1048576, not '1000000000'\n");
}

TEST_F(BenchProgram, AFullDiskBehindStandardOutputIsAFailure) {
  for (const char* program : {"/bench_schedule_sim", "/bench_memory_sim --params 7e9", "/bench_overhead_sim"}) {
    const int status = std::system((LOCKSTEP_PROGRAMS + std::string(program) + " >/dev/full 2>" + file("err")).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << program;
    EXPECT_NE(read(file("err")).find("cannot write to standard output"), std::string::npos)
        << program << read(file("err"));
  }
}

TEST_F(BenchProgram, ActivationsAreThoseOfTheFormulaToTheByte) {
  for (const char* options : {"--model gpt2-124m --batch 8 --machine dgx-a100 --phantom",
                              "--model tiny --batch 3 --precision fp32 --samples 5"}) {
    const Json rows = rows_of(options, "activations");
    std::map<std::string, double> parts;
    std::size_t modes = 0;
    for (const Json& row : rows) {
      const std::string mode = row.at("attention").get<std::string>() + "/" + row.at("recompute").get<std::string>();
      if (row.contains("part")) {
        parts[mode] += row.at("predicted_bytes").get<double>();
        continue;
      }
      ++modes;
      EXPECT_EQ(row.at("measured_bytes"), row.at("predicted_bytes")) << mode;
      EXPECT_EQ(row.at("measured_bytes"), parts.at(mode)) << mode;
      const double extra = row.at("extra_flop"), predicted = row.at("predicted_extra_flop");
      EXPECT_NEAR(extra, predicted, 0.05 * predicted) << mode;  // elementwise operations, of a tiny model
      if (mode.ends_with("full")) {
        EXPECT_GT(row.at("relative_seconds"), 1) << mode;
      }
    }
    EXPECT_EQ(modes, 5u);
  }
  EXPECT_EQ(start("--precision fp8", "activations"), 2);
}

TEST_F(BenchProgram, TensorParallelAccountComesFromTheLedger) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 2 --phantom --vocabulary 1000", "tp");
  std::uint64_t sums = 0, bytes = 0;
  double communication = 0, alone = 0;
  for (const Json& row : rows) {
    const std::string place = row.at("place");
    if (row.at("algorithm") == "no_overlap" && row.at("pass") != "step")
      communication += row.at("seconds").get<double>();
    if (row.at("algorithm") == "no_overlap" && (place == "attention forward" || place == "mlp forward")) {
      EXPECT_EQ(row.at("bytes_each"), 4u << 20);
      EXPECT_NEAR(row.at("predicted_seconds").get<double>() / row.at("seconds").get<double>(), 1, 1e-9);
      sums += row.at("collectives").get<std::uint64_t>();
      bytes += row.at("total_bytes").get<std::uint64_t>();
    }
    if (row.at("algorithm") == "compute") alone = row.at("seconds");
  }
  EXPECT_EQ(sums, 24u);
  EXPECT_EQ(bytes, 96u << 20);
  const double all = 1000 * 512 + 512 * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512;
  const double whole = 512 * 512 + 12 * 6 * 512 + 2 * 512;  // positions, norms, two biases a block
  for (const Json& row : rows) {
    if (row.at("pass") != "step") continue;
    const double seconds = row.at("seconds");
    EXPECT_EQ(row.at("compute_seconds"), alone);
    EXPECT_NEAR(row.at("exposed_seconds"), seconds - alone, 1e-12);
    EXPECT_NEAR(row.at("communication_share"), (seconds - alone) / seconds, 1e-12);
    EXPECT_EQ(row.at("fits_cores"), true);
    EXPECT_EQ(row.at("parameter_bytes"), 2 * (whole + (all - whole) / 2));
    EXPECT_EQ(row.at("replicated_bytes"), 2 * whole);
    if (row.at("algorithm") == "no_overlap") {
      EXPECT_NEAR(seconds, alone + communication, 0.01 * communication);
      EXPECT_NEAR(row.at("communication_seconds"), communication, 0.01 * communication);
    }
    if (row.at("algorithm") == "overlap") {
      EXPECT_LT(seconds, alone + 0.75 * communication);
      EXPECT_GT(row.at("hidden_fraction"), 0.25);
    }
    if (row.at("algorithm") != "sequence_parallel") {
      EXPECT_NEAR(row.at("predicted_seconds"), seconds, 1e-3 * seconds) << row;
      EXPECT_NEAR(row.at("predicted_communication_share"), row.at("communication_share"), 1e-3) << row;
    }
  }
  expect_documented(rows);
  EXPECT_EQ(start("--ranks 3 --phantom", "tp"), 2);
  EXPECT_NE(err_.find("8 heads do not divide over 3"), std::string::npos) << err_;
}

TEST_F(BenchProgram, TensorParallelAccountOfTwoRanksOnEveryMachine) {
  std::map<std::string, double> bytes, seconds;
  for (const Json& row : rows_of("", "tp")) {
    EXPECT_EQ(row.at("ranks"), 2);
    const std::string place = row.at("place"), machine = row.at("machine");
    if (row.at("algorithm") != "no_overlap" || (place != "attention forward" && place != "mlp forward")) continue;
    bytes[machine] += row.at("total_bytes").get<double>();
    seconds[machine] += row.at("predicted_seconds").get<double>();
  }
  EXPECT_GE(bytes.size(), 7u);
  for (const auto& [machine, sum] : bytes) EXPECT_EQ(sum, 24 * 4 << 20) << machine;
  EXPECT_GT(seconds.at("pcie-box"), 5 * seconds.at("dgx-a100"));
  EXPECT_EQ(seconds.count("dgx-a100-hdr"), 0u) << "two ranks of it are those of dgx-a100";
}

TEST_F(BenchProgram, TensorParallelTimesAreThePublishedOnes) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 8 --published --phantom", "tp");
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) EXPECT_LT(std::abs(row.at("relative_error").get<double>()), 0.05) << row;
}

TEST_F(BenchProgram, OverheadShrinksWithTheBandwidth) {
  Json rows = rows_of("--ranks 2 --parameters 1e6,4e6 --links 10,100", "overhead");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_LT(rows[0].at("efficiency"), rows[1].at("efficiency"));
  EXPECT_EQ(start("--links 0", "overhead"), 2);
  EXPECT_EQ(start("--parameters many", "overhead"), 2);
}

TEST_F(BenchProgram, ScalingStartsFromTheSerialStep) {
  Json rows = rows_of("--ranks 2,4 --machine pcie-box --phantom --model gpt2-124m --batch 64", "scaling");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].at("speedup"), 1);
  for (std::size_t i : {1, 2}) {
    double speedup = rows[i].at("speedup"), p = rows[i].at("ranks");
    EXPECT_GT(speedup, 1);
    EXPECT_LT(speedup, p);
    EXPECT_NEAR(rows[i].at("karp_flatt").get<double>(), (1 / speedup - 1 / p) / (1 - 1 / p), 1e-12);
  }
  EXPECT_GT(rows[5].at("efficiency"), rows[2].at("efficiency")) << "weak above strong";
}

TEST_F(BenchProgram, ALawIsFittedToAllPointsOrRefusedInWords) {
  const auto context = [&](const std::string& arguments) {
    EXPECT_EQ(start(arguments + " --machine dgx-a100-hdr --phantom --json " + file("law.json"), "scaling"), 0) << err_;
    return Json::parse(read(file("law.json")));
  };
  const Json fits = context("--ranks 2,4,8 --model gpt2-124m --batch 64");
  const Json& fit = fits.at("context");
  double above = 0, below = 0;  // through the origin: s = Σ (p − 1)(p − S) / Σ (p − 1)²
  for (const Json& row : fits.at("rows"))
    if (row.at("scaling") == "weak") {
      const double p = row.at("ranks"), scaled = row.at("speedup");
      above += (p - 1) * (p - scaled);
      below += (p - 1) * (p - 1);
    }
  EXPECT_NEAR(fit.at("gustafson_serial_fraction").get<double>(), above / below, 1e-9);
  EXPECT_LT(fit.at("gustafson_serial_fraction_low"), fit.at("gustafson_serial_fraction_high"));
  EXPECT_LE(fit.at("amdahl_serial_fraction"), 1);
  EXPECT_EQ(fit.at("command_line"),
            "./lab bench scaling --ranks 2,4,8 --model gpt2-124m --batch 64 --machine dgx-a100-hdr --phantom");
  const Json refused = context("--ranks 4,8,16 --model tiny --batch 16").at("context");
  EXPECT_FALSE(refused.contains("amdahl_serial_fraction"));
  EXPECT_NE(refused.at("amdahl_note").get<std::string>().find("more ranks take longer"), std::string::npos);
}

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
  // docs/claims.md: 5–15 % slower on PCIe with some thousand tokens, a third on 10 GbE, faster over NVLink.
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
  for (const auto& [arguments, says] : {std::pair{"--stages 4", "stages 0"},
                                        {"--params 5", "1e4"},
                                        {"--wrap blocks", "--wrap"},
                                        {"--params 1e12 --ranks 2", "--phantom"},
                                        {"--dtype int8", "dtype"}}) {
    EXPECT_EQ(start(arguments, "zero"), 2);
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

}  // namespace
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
  EXPECT_NE(out_.find("16 bytes a parameter"), std::string::npos) << out_;
  EXPECT_EQ(start("--params 1e9 --ranks 1", "memory"), 0);
  EXPECT_EQ(out_.find("V100"), std::string::npos) << "a V100 has no units for bf16:\n" << out_;
  EXPECT_EQ(start("--params 1e9 --ranks 1 --dtype fp16", "memory"), 0);
  EXPECT_NE(out_.find("V100"), std::string::npos) << out_;
  EXPECT_EQ(start("--params 7e9 --no-master", "memory"), 0);
  EXPECT_NE(out_.find("12 bytes a parameter"), std::string::npos) << out_;
  for (const auto& [arguments, says] : {std::pair{"--params 7e9 --zero 4", "--zero"},
                                        {"", "--params"},
                                        {"--params seven", "--params"},
                                        {"--params 7e9 --ranks 0", "--ranks"},
                                        {"--params 7e9 --batch 2", "--model"},
                                        {"--params 7e9 --model gpt3-175b", "--params does nothing beside --model"},
                                        {"--params 7e9 --zero 1.5", "--zero counts: not '1.5'"},
                                        {"--params 7e9 --ranks 2.5", "--ranks counts: not '2.5'"},
                                        {"--model tiny --sequence 9", "give --batch too"},
                                        {"--params 7e9 --plot x.bmp", "ends in .svg, .pdf or .png"},
                                        {"--model gpt4", "gpt4"}}) {
    EXPECT_EQ(start(arguments, "memory"), 2) << arguments;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

/// The name of a file in the test's folder that holds `text`.
std::string written(const std::string& path, const char* text) {
  std::ofstream(path) << text;
  return path;
}

TEST_F(BenchProgram, PipelinesAreDrawnAndCounted) {
  // arXiv 2401.10241, table 5: p = 8, m = 24.
  const std::string times = " --forward-ms 18.522 --backward-ms 18.086 --weight-ms 9.337 --comm-ms 0.601 --no-chart";
  const std::map<std::string, double> published = {{"1f1b", .2431}, {"zb-h1", .1585}, {"zb-h2", .1083}};
  std::size_t compared = 0;
  for (const Json& row : rows_of("--stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-h2" + times, "schedule")) {
    EXPECT_NEAR(row.at("bubble_of_span"), published.at(row.at("schedule")), 0.00005) << row;
    EXPECT_EQ(row.at("predicted_bubble_of_total").is_null(), row.at("schedule") != "1f1b") << row;
    ++compared;
  }
  EXPECT_EQ(compared, 3u);
  for (const Json& row : rows_of("--schedule naive,gpipe,interleaved --microbatches 4", "schedule")) {
    const std::string name = row.at("schedule");
    const double turns = name == "naive" ? 16 : name == "gpipe" ? 7 : 5.5;
    EXPECT_NEAR(row.at("makespan_seconds"), turns * 3e-3, 1e-9) << name;
    EXPECT_EQ(row.at("peak_in_flight"), name == "naive" ? 1 : name == "gpipe" ? 4 : 8) << name;
    EXPECT_EQ(row.at("chunks"), name == "interleaved" ? 2 : 1);
    if (name != "naive") {
      EXPECT_NEAR(row.at("predicted_bubble_of_total"), row.at("bubble_of_total"), 1e-9) << name;
      EXPECT_NEAR(row.at("predicted_bubble_of_ideal"), row.at("bubble_of_ideal"), 1e-9) << name;
    }
  }
}

TEST_F(BenchProgram, APipelinesChartTellsKindsOfWorkApart) {
  ASSERT_EQ(start("--json " + file("p.json") + " --no-chart --csv=" + file("p.csv"), "schedule"), 0) << err_;
  EXPECT_EQ(Json::parse(read(file("p.json"))).at("context").at("command_line"), "./lab pipeline --no-chart");
  ASSERT_EQ(start("--schedule 1f1b --stages 2 --microbatches 2 --comm-ms 0.5 --columns 67 --svg " + file("p.svg") +
                      " --trace " + file("p.json"),
                  "schedule"),
            0)
      << err_;
  // 10 ms in 49 columns: F0 F1 from 0 to 2, then waiting for B0, which stage 1 ends at 4.5 and which is here at 5.
  EXPECT_NE(out_.find("stage  0 |F0───F1───wwww"), std::string::npos) << out_;
  EXPECT_NE(out_.find("B0═══"), std::string::npos) << out_;
  EXPECT_NE(out_.find("vv"), std::string::npos) << "activations on their way\n" << out_;
  EXPECT_NE(out_.find("^^"), std::string::npos) << "gradients on their way\n" << out_;
  const std::string svg = read(file("p.svg"));
  for (const char* part :
       {"forward F (plain)", "backward B (level)", "-shade1)", "-wait)", "-transfer)", ">F0<", "<desc"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  std::size_t steps = 0;
  const Json document = Json::parse(read(file("p.json")));
  for (const Json& event : document.at("traceEvents")) steps += event.value("cat", "") == "compute";
  EXPECT_EQ(steps, 8u);
}

TEST_F(BenchProgram, AScheduleFileIsCheckedBeforeItRuns) {
  // Stages that swap the two backwards of GPipe: slower, and right.
  EXPECT_EQ(start("--schedule-file " + written(file("s.txt"), "# two stages\nF0 F1 B0 B1\nF0 F1 B0 B1\n"), "schedule"),
            0)
      << err_;
  for (const auto& [text, says] : {std::pair{"F0 F1 B0 B1\nF0 B0 F1 X1\n", "line 2: 'X1'"},
                                   {"F0 B0 F1 B1\nF0 F1 B1 B0\n", "B0"},
                                   {"B0 F0\nF0 B0\n", "stage 0 does B0 before F0"},
                                   {"F0 B0 F1 B1\nF1 F0 B1 B0\n", "a cycle"},
                                   {"F0 F999999 B0\n", "stage 0 has 3 steps"},
                                   {"F0 I0 F1 B1\n", "lacks W0 after I0"},
                                   {"F4294967296 B0\n", "line 1: 'F4294967296' is no step"},
                                   {"F2147483647 B0\n", "line 1: 'F2147483647' is no step"},
                                   {"F0.4294967296 B0\n", "'F0.4294967296' is no step"},
                                   {"F0. B0\n", "'F0.' is no step"},
                                   {"F+0 B0\n", "'F+0' is no step"},
                                   {"", "no stage's line"}}) {
    EXPECT_EQ(start("--schedule-file " + written(file("s.txt"), text), "schedule"), 2) << text;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(out_, "") << text;
  }
  for (const auto& [arguments, says] :
       {std::pair{"--schedule 1f2b", "1f1b"},
        {"--stages -1", "--stages"},
        {"--stages 0", "--stages wants numbers from 1"},
        {"--stages two", "--stages"},
        {"--microbatches 0", "--microbatches"},
        {"--schedule interleaved --microbatches 6", "6 microbatches"},
        {"--chunks 2", "interleaved"},
        {"--stages 1 --schedule interleaved --chunks 2", "--chunks"},
        {"--forward-ms -1", "--forward-ms"},
        {"--forward-ms 0 --backward-ms 0 --weight-ms 0", "no time"},
        {"--schedule-file /nowhere", "/nowhere"},
        {"--schedule-file pipe.txt --chunks 3", "--chunks does nothing beside --schedule-file"},
        {"--columns 2147483647", "from 0 to 10000"},
        {"--microbatches 99999999999", "cannot be as large as"},
        {"--schedule gpipe,1f1b --svg /tmp/x.svg", "--svg"},
        {"--svg /nowhere/x.svg", "/nowhere/x.svg"}}) {
    EXPECT_EQ(start(arguments, "schedule"), 2) << arguments;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
}

TEST_F(BenchProgram, EveryBubbleIsThatOfItsFormula) {
  std::size_t whole = 0, zero = 0, account = 0, memory = 0;
  for (const Json& row : rows_of("--stages 2,4,8 --comm-ms 0", "pipeline")) {
    for (const char* bubble : {"bubble_of_ideal", "bubble_of_total", "bubble_of_span"})
      if (const Json& predicted = row.at(std::string("predicted_") + bubble); !predicted.is_null()) {
        ASSERT_NEAR(row.at(bubble), predicted, 1e-9) << bubble << " of " << row;
        (row.at("schedule").get<std::string>().starts_with("zb") ? zero : whole)++;
      }
    const double parts = row.at("busy_seconds").get<double>() + row.at("idle_seconds").get<double>() +
                         row.at("waiting_seconds").get<double>();
    ASSERT_NEAR(parts, row.at("makespan_seconds"), 1e-9) << row;
    account += row.at("waiting_seconds") > 0;
    for (const char* mean : {"busy_seconds", "idle_seconds", "waiting_seconds", "wire_seconds"}) {
      const auto stages = row.at(std::string("stage_") + mean).get<std::vector<double>>();
      ASSERT_EQ(stages.size(), row.at("stages"));
      ASSERT_NEAR(std::accumulate(stages.begin(), stages.end(), 0.0) / stages.size(), row.at(mean), 1e-9) << row;
    }
    // Boundaries on their way, of one element, come on top of what microbatches leave.
    ASSERT_NEAR(row.at("activation_bytes_peak"), row.at("predicted_activation_bytes"), 64) << row;
    const int p = row.at("stages"), m = row.at("microbatches");
    if (row.at("schedule") == "gpipe" || row.at("schedule") == "1f1b") {
      ASSERT_EQ(row.at("peak_in_flight"), row.at("schedule") == "gpipe" ? m : std::min(p, m)) << row;
      for (int s = 0; s < p; ++s)
        ASSERT_EQ(row.at("stage_peak_in_flight")[s], row.at("schedule") == "gpipe" ? m : std::min(p - s, m)) << row;
      ++memory;
    }
  }
  EXPECT_EQ(memory, 36u);
  EXPECT_GT(whole, 150u);
  EXPECT_GT(zero, 10u);
  EXPECT_GT(account, 50u);
}

TEST_F(BenchProgram, UnequalStagesWaitForTheSlowest) {
  std::map<double, double> makespan;
  for (const Json& row :
       rows_of("--stages 4 --microbatches 8 --comm-ms 0 --schedule gpipe,1f1b --last-stage 1,2", "pipeline")) {
    const double factor = row.at("last_stage"), seconds = row.at("makespan_seconds"), used = row.at("utilisation");
    // One turn of 3 ms · 4/(3 + f) for each stage but the last, f of them there; then one of f each.
    EXPECT_NEAR(seconds, 12e-3 + 7 * factor * 12e-3 / (3 + factor), 1e-9) << row;
    EXPECT_NEAR(row.at("bubble_of_ideal"), row.at("predicted_bubble_of_ideal"), 1e-9) << row;
    EXPECT_NEAR(used, 24e-3 / seconds, 1e-9) << "the work is the same";
    makespan[factor] = seconds;
  }
  EXPECT_GT(makespan.at(2), 1.3 * makespan.at(1));
}

TEST_F(BenchProgram, PublishedBubbleRates) {
  const Json rows = rows_of("--published", "pipeline");
  ASSERT_EQ(rows.size(), 24u);
  expect_documented(rows);
  for (const Json& row : rows) {
    const double rate = row.at("published_bubble_of_span");
    EXPECT_NEAR(row.at("bubble_of_span"), rate, row.at("schedule") == "interleaved" ? 0.05 * rate : 0.00005) << row;
  }
}

TEST_F(BenchProgram, HopsPartGPipeAnd1F1B) {
  std::map<std::string, double> seconds;
  for (const Json& row : rows_of("--stages 4 --microbatches 32 --comm-ms 0.1 --schedule gpipe,1f1b", "pipeline")) {
    seconds[row.at("schedule")] = row.at("makespan_seconds");
    EXPECT_NEAR(row.at("wire_seconds"), 32 * 6 * 0.1e-3 / 4, 1e-9) << "each of 4 stages' messages, 6 hops a microbatch";
  }
  EXPECT_NEAR(seconds.at("gpipe"), 105e-3 + 6 * 0.1e-3, 1e-9);
  EXPECT_GT(seconds.at("1f1b"), seconds.at("gpipe") + 4e-3);
  for (const auto& [arguments, says] : {std::pair{"--schedule gpip", "gpipe"},
                                        {"--stages 0", "--stages"},
                                        {"--microbatches 1.5", "--microbatches"},
                                        {"--comm-ms -1", "--comm-ms"},
                                        {"--forward-ms 0", "--forward-ms"},
                                        {"--last-stage 0", "--last-stage"},
                                        {"--chunks 1", "--chunks"}}) {
    EXPECT_EQ(start(arguments, "pipeline"), 2) << arguments;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
  }
}

}  // namespace lockstep::bench
