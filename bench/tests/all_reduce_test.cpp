// ./lab bench all_reduce and compression, from outside: output files, documentation, bad input.
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/programs/bench_program.hpp"
#include "bench/programs/pipelined_all_reduce.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {
namespace {

TEST_F(BenchProgram, RowsHoldWhatTheDocumentationSays) {
  ASSERT_EQ(
      start("--ranks 8 --machine dgx-a100 --bytes 4096,64KiB --json " + file("a.json") + " --csv " + file("a.csv")), 0)
      << err_;
  Json document = Json::parse(read(file("a.json")));
  ASSERT_EQ(document.at("rows").size(), 8u) << "four algorithms; on one node, the hierarchical one is the ring";
  documented_rows(file("a.json"));
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
    EXPECT_NEAR(row.at("library_seconds").get<double>(), bytes < 32768 ? 43.8e-6 : 47.6e-6, 0.1e-6) << "NCCL's curve";
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

/// The last number of each line of a table, by the first.
std::map<std::uint64_t, double> busbw_by_size(const std::string& table) {
  std::map<std::uint64_t, double> found;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') found[std::stoull(line)] = std::stod(line.substr(line.rfind(' ')));
  return found;
}

TEST_F(BenchProgram, ColumnsOfNcclTestsAreNearWhatOthersPublished) {
  // The other sizes than those that the machine files' curves were taken from.
  for (const char* name : {"nccl-8xa100", "nccl-8xh200"}) {
    const Json published =
        Json::parse(read(LOCKSTEP_SOURCE_DIR "/bench/published/predict/" + std::string(name) + ".json"));
    std::string sizes;
    for (const Json& row : published.at("rows"))
      sizes += (sizes.empty() ? "" : ",") + std::to_string(row[0].get<std::uint64_t>());
    const std::string machine = published.at("machine");
    EXPECT_EQ(start("--machine " + machine + " --ranks 8 --columns nccl --bytes " + sizes), 0) << err_;
    const auto printed = busbw_by_size(out_);
    EXPECT_EQ(printed.size(), 10U) << out_;
    for (const Json& row : published.at("rows")) {
      const std::uint64_t bytes = row[0].get<std::uint64_t>();
      EXPECT_NEAR(printed.at(bytes) / row[1].get<double>(), 1, 0.21) << bytes << " bytes on " << machine;
    }
    const bool switch_adds = out_.find("the switch adds (NVLS)") != std::string::npos;
    EXPECT_EQ(switch_adds, machine == "dgx-h200") << out_;
  }
}

TEST_F(BenchProgram, ColumnsOfNcclTestsSayWhyBusbwExceedsTheLinks) {
  EXPECT_EQ(start("--machine dgx-a100-100gbe --ranks 16 --columns nccl --bytes 1GiB"), 0) << err_;
  for (const char* part :
       {"# all_reduce_perf on 16 ranks of dgx-a100-100gbe: rings and trees", "trees connect two nodes",
        "#       size         count      type   redop    root     time   algbw   busbw\n",
        "  1073741824     268435456     float     sum      -1    89"})
    EXPECT_NE(out_.find(part), std::string::npos) << part << " is not in\n" << out_;
  EXPECT_EQ(start("--machine dgx-h100 --ranks 8 --columns nccl --bytes 8,32KiB"), 0) << err_;
  EXPECT_NE(out_.find("smaller sizes than 32 KiB"), std::string::npos) << out_;
  EXPECT_EQ(start("--machine dgx-a100-100gbe --ranks 24 --columns nccl --bytes 1GiB"), 0) << err_;
  EXPECT_EQ(out_.find("trees connect"), std::string::npos) << "three nodes send it twice: " << out_;
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
        "surplus", "--columns nvcc", "--columns nccl --ranks 1", "--ranks 4 --ranks-per-node 3",
        "--ranks 4 --ranks-per-node -2"}) {
    expect_refused(start(arguments + json_file), arguments);
  }
  EXPECT_EQ(start("--json /nowhere/x.json"), 2);
  EXPECT_EQ(start("--bytes 0", "compression"), 2);
  EXPECT_EQ(err_, "--bytes 0: a sum is of fp32 elements, of 4 bytes each and at least one\n");
  EXPECT_EQ(start("--ranks 2,1", "compression"), 2);
  EXPECT_EQ(err_, "--ranks 1: a single rank sends nothing that could be compressed; use at least 2\n");
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
  ASSERT_EQ(rows.size(), 15u);
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

TEST_F(BenchProgram, TheLargestSentExactlyLeaveInt8AFinerScale) {
  std::map<std::string, Json> by_name;
  for (const Json& row : rows_of("--machine dgx-a100 --ranks 8 --bytes 256KiB --density 0.01,0.05", "compression"))
    by_name[row.at("algorithm")] = row;
  const auto of = [&](const char* name, const char* field) { return by_name.at(name).at(field).get<double>(); };
  EXPECT_LT(of("ring", "relative_error"), 1e-6);
  EXPECT_GT(of("topk:0.05", "relative_error"), 0.3) << "most elements wait for another step";
  EXPECT_GT(of("int8-two-step", "relative_error"), 0.02) << "few large elements set the scales";
  EXPECT_LT(2 * of("topk+int8:0.01", "relative_error"), of("int8-two-step", "relative_error"));
  EXPECT_LT(1.5 * of("topk+int8:0.05", "relative_error"), of("topk+int8:0.01", "relative_error"));
  EXPECT_NEAR(of("topk+int8:0.01", "bytes_sent_per_rank_max"),
              of("int8-two-step", "bytes_sent_per_rank_max") + of("topk:0.01", "bytes_sent_per_rank_max"), 1);
  EXPECT_NEAR(of("topk+int8:0.01", "ranks_to_break_even"), 74.6, 0.1);
  const Json phantom = rows_of("--ranks 2 --bytes 64KiB --phantom", "compression");
  EXPECT_TRUE(phantom[4].at("relative_error").is_null()) << "no values, no error";
}

TEST_F(BenchProgram, SumsInSixteenBitsLoseWhatIsPredicted) {
  std::map<std::string, std::map<int, Json>> by_name;
  const Json rows = rows_of("--machine dgx-a100 --ranks 2,8 --bytes 256KiB --bf16", "compression");
  ASSERT_EQ(rows.size(), 14u);
  for (const Json& row : rows) by_name[row.at("algorithm")][row.at("ranks")] = row;
  for (const char* name : {"bf16", "bf16-fp32-sums"})
    for (const auto& [ranks, row] : by_name.at(name)) {
      EXPECT_EQ(row.at("verified"), true) << row;
      EXPECT_EQ(row.at("bytes_sent_per_rank_max"), row.at("predicted_bytes_sent_per_rank")) << row;
      EXPECT_EQ(field(row, "relative_bytes"), 0.5) << row;
      EXPECT_NEAR(field(row, "predicted_seconds") / field(row, "seconds"), 1, 0.1) << row;
      EXPECT_NEAR(field(row, "predicted_sum_error") / field(row, "sum_error"), 1, 1e-9) << row;
    }
  const auto error = [&](const char* name, int ranks) { return field(by_name.at(name).at(ranks), "sum_error"); };
  EXPECT_NEAR(error("bf16", 2), error("bf16-fp32-sums", 2), 1e-12) << "one addition, and one rounding";
  EXPECT_GT(error("bf16", 8), 1.5 * error("bf16-fp32-sums", 8)) << "seven roundings, and one";
  EXPECT_LT(error("bf16-fp32-sums", 8), 1.0 / 256) << "half the distance of two bf16 numbers";
  const Json phantom = rows_of("--ranks 2 --bytes 64KiB --bf16 --phantom", "compression");
  EXPECT_TRUE(phantom[6].at("predicted_sum_error").is_null()) << "no values, no error";
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
  // A port for each GPU, another number of nodes, one port a node (rails in turn), a number with spare ranks, one
  // level.
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
    ASSERT_EQ(row.contains("waiting_cpu_share"), algorithm == "gloo");
    if (algorithm == "gloo") {
      EXPECT_LT(row.at("waiting_cpu_share"), 0.2) << "MPI's processes slept meanwhile";
    }
  }
  const Json context = Json::parse(read(file("rows.json"))).at("context");
  EXPECT_NE(context.at("gloo").get<std::string>().find("TCP"), std::string::npos);
  EXPECT_NE(out_.find("× Gloo's"), std::string::npos) << out_;
  rows_of("--bytes 4 --ranks 2 --samples 5 --algorithm ring", "all_reduce");
  EXPECT_FALSE(Json::parse(read(file("rows.json"))).at("context").contains("gloo")) << "it took no part";
}

}  // namespace
}  // namespace lockstep::bench
