// A benchmark program from outside, as ./lab bench calls it: its files, its words, its exit code.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/support/json/document.hpp"

namespace lockstep::bench {

namespace fs = std::filesystem;

inline std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class BenchProgram : public testing::Test {
 protected:
  explicit BenchProgram(const char* backend = "sim")
      : backend_(backend), folder_(fs::temp_directory_path() / ("lockstep_bench_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~BenchProgram() override { fs::remove_all(folder_); }

  /// The exit code; what it said is in out and err.
  int start(const std::string& arguments, const std::string& benchmark = "all_reduce") {
    std::string command = before_ + " " LOCKSTEP_PROGRAMS "/bench_" + benchmark + "_" + backend_ + " " + arguments +
                          " >" + (folder_ / "out").string() + " 2>" + (folder_ / "err").string();
    int status = std::system(command.c_str());
    out_ = read(folder_ / "out");
    err_ = read(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// The rows of a run that succeeds; every field of theirs, and of the context, is in docs/output.md.
  Json rows_of(const std::string& arguments, const std::string& benchmark) {
    EXPECT_EQ(start(arguments + " --json " + file("rows.json"), benchmark), 0) << err_;
    Json document = Json::parse(read(file("rows.json")));
    std::string documentation = read(LOCKSTEP_SOURCE_DIR "/docs/output.md");
    for (const auto& [name, value] : document.at("context").items())
      EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/output.md";
    for (const Json& row : document.at("rows"))
      for (const auto& [name, value] : row.items())
        EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/output.md";
    return document.at("rows");
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  std::string backend_, before_;  // what starts it
  fs::path folder_;
  std::string out_, err_;
};

}  // namespace lockstep::bench
