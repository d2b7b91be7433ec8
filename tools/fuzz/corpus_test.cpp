// Inputs that a fuzzer has found, or that it begins with: each is read, or refused in one sentence.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "common/support/text/files.hpp"
#include "tools/fuzz/targets.hpp"

namespace lockstep::fuzz {
namespace {

TEST(FuzzCorpus, EveryInputIsReadOrRefusedInOneSentence) {
  const std::filesystem::path corpus = LOCKSTEP_SOURCE_DIR "/tools/fuzz/corpus";
  std::map<std::string, std::filesystem::path> folders;
  for (const char* kind : {"files", "words"})
    for (const auto& folder : std::filesystem::directory_iterator(corpus / kind))
      folders[folder.path().filename()] = folder.path();
  for (const Target& target : targets()) {
    std::size_t inputs = 0;
    const std::string name(target.name);
    ASSERT_TRUE(folders.contains(name));
    for (const auto& entry : std::filesystem::directory_iterator(folders[name])) {
      EXPECT_EQ(fault(target, read_file(entry.path())), "") << entry.path();
      ++inputs;
    }
    EXPECT_GT(inputs, 0u) << target.name;
  }
  EXPECT_EQ(folders.size(), targets().size()) << "a folder is no target's";
}

}  // namespace
}  // namespace lockstep::fuzz
