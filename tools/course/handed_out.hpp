// Tells which headers and tests are as they were handed out. A student's changes to them count in ./lab check but not
// in grading, which uses the originals and no other file from that folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// "HASH PATH" for every header and test below common/ and labs/ of a tree: a handout's prebuilt/handed_out.txt.
std::string list_handed_out(const std::filesystem::path& tree);

class HandedOut {
 public:
  /// Reads a handout's list, or asks git in a clone. Where neither is possible, nothing is known to differ.
  explicit HandedOut(const Paths& paths);

  /// Differences in what the exercise's answer includes and is tested with: "includes my_helpers.hpp, which is not
  /// handed in", "memory_calculator.hpp differs from the handout's; grading uses the original".
  std::vector<std::string> differences(const Exercise& exercise) const;

 private:
  enum class State { original, changed, own };
  State state_of(const std::string& path) const;

  const Paths& paths_;
  bool handout_ = false;
  std::map<std::string, std::string> hashes_;  // of a handout's files, by path
  std::map<std::string, State> states_;        // in a clone, of what git says is not committed
};

}  // namespace lockstep::tools
