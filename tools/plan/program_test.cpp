// ./lab plan from the command line: its output is documented, bad input is answered in one sentence, strategies are
// scored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/support/text/columns.hpp"
#include "tools/plan/plan_testing.hpp"

namespace lockstep::plan {
namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

struct Header {
  std::string undocumented;  ///< names that docs/use/output.md does not have
  std::size_t fields = 0;
};
/// The header in a CSV file's first line.
Header header_of(const std::string& path) {
  std::ifstream csv(path), page(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/use/output.md");
  const std::string documentation{std::istreambuf_iterator<char>(page), {}};
  std::string header;
  std::getline(csv, header);
  Header found;
  for (std::size_t at = 0; at < header.size(); ++found.fields) {
    const std::size_t end = std::min(header.find(',', at), header.size());
    const std::string name = header.substr(at, end - at);
    if (!says(documentation, "`" + name + "`")) found.undocumented += name + " ";
    at = end + 1;
  }
  return found;
}

TEST(Program, EveryFieldItWritesIsDocumented) {
  const std::string path = ::testing::TempDir() + "/plans.csv";
  const struct {
    std::string arguments;
    std::size_t least;  // fields
  } cases[] = {{"--model gpt3-13b --cluster dgx-a100x2 --global-batch 64 --top 3 --simulate 1", 32}, {"--validate", 9}};
  for (const auto& one : cases) {
    const std::string text = said(one.arguments + " --csv " + path);
    EXPECT_TRUE(says(text, "exit 0")) << text;
    const Header header = header_of(path);
    EXPECT_EQ(header.undocumented, "") << "not in docs/use/output.md";
    EXPECT_GT(header.fields, one.least);
  }
  std::remove(path.c_str());
}

/// The table, the best and the explained strategy have one kind of seconds: the simulator's, or the formulas'.
TEST(Program, WhatIsExplainedIsComparedWithTheFirstOfTheTable) {
  const std::string task = "--model gpt2-124m --cluster dgx-a100x1 --global-batch 64 --prices library --top 4";
  const std::string best = said(task + " --explain dp=8,tp=1,pp=1");
  EXPECT_TRUE(says(best, "compared with the best plan, +0.0%; by formula, +0.0%:")) << best;
  EXPECT_FALSE(says(best, "without a memory limit")) << "80 GB are enough";
  const std::size_t step = best.find("step ", best.find("the best:")) + 5;
  const std::string seconds = best.substr(step, best.find(" simulated", step) - step);
  EXPECT_TRUE(says(best.substr(0, best.find("largest overhead")), seconds)) << seconds << " should be in\n" << best;
  EXPECT_TRUE(says(said(task + " --explain dp=4,tp=1,pp=2"), "compared with the best plan, +"));
  const std::string fast = said(task + " --fast --explain dp=4,tp=1,pp=2");
  EXPECT_TRUE(says(fast, "compared with the best plan, by formula, +")) << fast;
  EXPECT_FALSE(says(fast, "simulated")) << fast;
  EXPECT_TRUE(says(said("--model gpt3-13b --cluster dgx-a100 --global-batch 64 --memory 40GB --top 1 --fast"),
                   "without a memory limit"));
}

TEST(Program, ColumnsStandBelowTheirNamesWithin80WhereStepsTakeYears) {
  for (const char* more : {" --fast", " --cp 1,2"}) {
    std::istringstream text(
        said("--model gpt3-175b --cluster dgx-a100x16 --global-batch 1536 --top 5" + std::string(more)));
    std::string header;
    int plans = 0;
    for (std::string line; std::getline(text, line);) {
      EXPECT_LE(columns_of(line), 80u) << line;
      if (says(line, "     dp")) header = line;
      if (header.empty() || line.size() < 3 || line[0] != ' ' || !std::isdigit(line[1]) || line[2] != ' ') continue;
      ++plans;
      EXPECT_EQ(columns_of(line), header.size()) << line;
      std::erase_if(line, [](char c) { return (c & 0xC0) == 0x80; });  // a column a letter
      const std::size_t days = header.find("days") + 4;
      EXPECT_TRUE(line.at(days - 1) != ' ' && line.at(days) == ' ') << line;
      EXPECT_FALSE(says(line, "e+")) << "a power of ten for days: " << line;
    }
    EXPECT_EQ(plans, 5);
  }
}

TEST(Program, BadInputIsOneSentenceThatSaysWhatWouldBeNeeded) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"--model gpt3-175 --global-batch 8", "did you mean 'gpt3-175b'?"},
      {"--cluster dgx-a10x4 --global-batch 8", "did you mean 'dgx-a100'?"},
      {"--global-batch 0", "sequences per step"},
      {"--global-batch 1536 --memory 2GB", "nothing fits in 2 GB per GPU: the least of"},
      {"--model tiny --global-batch 3", "try a global batch of 128"},
      {"--global-batch 1536 --explain dp=9", "dp × tp × pp must be 1024 GPUs"},
      {"--global-batch 1536 --score no_such_file.json", "cannot read no_such_file.json"},
      {"--global-batch 8 --prices nccl", "--prices nccl: must be lab"},
      {"--cluster pcie-boxx4 --model gpt2-355m --global-batch 8 --prices library", "has no library cost model"},
      {"--validate --top 3", "--top has no effect together with --validate"},
      {"--card 1 --offload optimizer", "--offload has no effect together with --card"},
      {"--global-batch 8 --modle tiny", "did you mean '--model'?"}};
  for (const auto& [arguments, words] : wrong) {
    const std::string text = said(arguments);
    EXPECT_TRUE(says(text, words) && says(text, "exit 2")) << arguments << " says: " << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << arguments << " says: " << text;
  }
}

TEST(Program, ScoresAWrittenStrategy) {
  const std::string path = ::testing::TempDir() + "/mine.json";
  const auto score = [&](const std::string& strategy) {
    std::ofstream(path) << strategy;
    return said("--global-batch 1536 --top 1 --fast --score " + path);
  };
  EXPECT_TRUE(says(score(R"({"dp": 8, "tp": 8, "pp": 16, "zero": 1, "recompute": "full"})"), "score 65 of 100"));
  EXPECT_TRUE(says(score(R"({"dp": 8, "tp": 8, "pp": 16, "schedule": "gpipe"})"),
                   "score 0 of 100: it does not fit the memory"));
  EXPECT_TRUE(says(score(R"({"dp": 8, "tp": 8, "dp": 4})"), "column 23: \"dp\" occurs twice"));
  EXPECT_TRUE(
      says(score(R"({"dp": 4294967304, "tp": 8, "pp": 16})"), "dp is 4294967304; it must be a whole number from 1"));
  EXPECT_TRUE(says(score(R"({"dp": 8, "tp": 8, "pp": 8})"), "score 0 of 100: dp 8 × tp 8 × pp 8 is 512 GPUs"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace lockstep::plan
