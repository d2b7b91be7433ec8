// Inputs that a fuzzer has found, or that it begins with: each is read, or refused in one sentence.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "common/support/text/files.hpp"
#include "tools/fuzz/targets.hpp"

namespace lockstep::fuzz {
namespace {

TEST(FuzzCorpus, EveryInputIsReadOrRefusedInOneSentence) {
  const std::filesystem::path corpus = LOCKSTEP_SOURCE_DIR "/tools/fuzz/corpus";
  std::set<std::string> names;
  for (const Target& target : targets()) {
    names.insert(std::string(target.name));
    std::size_t inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / target.name)) {
      EXPECT_EQ(fault(target, read_file(entry.path())), "") << entry.path();
      ++inputs;
    }
    EXPECT_GT(inputs, 0u) << target.name;
  }
  for (const auto& folder : std::filesystem::directory_iterator(corpus))
    EXPECT_TRUE(names.contains(folder.path().filename())) << folder.path() << " is no target's";
}

}  // namespace
}  // namespace lockstep::fuzz
