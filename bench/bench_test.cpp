// Benchmark programs from outside, as ./lab bench calls them: output files, documentation, bad input.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class BenchProgram : public testing::Test {
 protected:
  BenchProgram() : folder_(fs::temp_directory_path() / ("lockstep_bench_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~BenchProgram() override { fs::remove_all(folder_); }

  /// The exit code; what it said is in out and err.
  int start(const std::string& arguments) {
    std::string command = LOCKSTEP_PROGRAMS "/bench_all_reduce_sim " + arguments + " >" + (folder_ / "out").string() +
                          " 2>" + (folder_ / "err").string();
    int status = std::system(command.c_str());
    out_ = read(folder_ / "out");
    err_ = read(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
  std::string out_, err_;
};

TEST_F(BenchProgram, RowsHoldWhatTheDocumentationSays) {
  ASSERT_EQ(
      start("--ranks 8 --machine dgx-a100 --bytes 4096,64KiB --json " + file("a.json") + " --csv " + file("a.csv")), 0)
      << err_;
  json document = json::parse(read(file("a.json")));
  ASSERT_EQ(document.at("rows").size(), 4u);
  std::string documentation = read(LOCKSTEP_SOURCE_DIR "/docs/output.md");
  for (const auto& [name, value] : document.at("rows")[0].items())
    EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/output.md";
  for (const json& row : document.at("rows")) {
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
    bool ring = row.at("algorithm") == "ring";
    EXPECT_EQ(row.at("messages"), ring ? 2 * 7 * 8 : 2 * 7);
    EXPECT_EQ(row.at("bytes_sent_per_rank_max"), ring ? bytes * 2 * 7 / 8 : bytes * 7);
  }
  EXPECT_EQ(document.at("context").at("command"), "all_reduce");
  EXPECT_TRUE(document.at("context").at("versions").contains("blas"));
  EXPECT_TRUE(read(file("a.csv")).starts_with("backend,machine,"));
}

TEST_F(BenchProgram, TwoRunsGiveTheSameVirtualTimes) {
  auto times = [&] {
    EXPECT_EQ(start("--ranks 7 --machine pcie-box-10gbe --bytes 1KiB:64KiB --json " + file("b.json")), 0) << err_;
    std::vector<double> seconds;
    json document = json::parse(read(file("b.json")));
    for (const json& row : document.at("rows")) seconds.push_back(row.at("seconds"));
    return seconds;
  };
  std::vector<double> first = times();
  EXPECT_EQ(first.size(), 14u);
  EXPECT_EQ(first, times());
}

TEST_F(BenchProgram, BadInputIsOneSentenceAndNothingIsWritten) {
  std::string json_file = " --json " + file("c.json");
  for (const char* arguments :
       {"--ranks -1", "--ranks two", "--machine dgx-h10", "--machine dgx-a100 --ranks 9", "--algorithm rnig",
        "--bytes 64k", "--bytes 6", "--samples 0", "--rank 3", "--emulate laptop", "surplus"}) {
    EXPECT_EQ(start(arguments + json_file), 2) << arguments;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << arguments << ": " << err_;
    EXPECT_EQ(out_, "") << arguments;
  }
  EXPECT_EQ(start("--json /nowhere/x.json"), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "only out and err";
}

}  // namespace
