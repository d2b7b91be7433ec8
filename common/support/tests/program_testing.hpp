// Runs a program as ./lab does, and checks its files, its output and its exit code.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "common/support/json/document.hpp"
#include "common/support/tests/folder_testing.hpp"

namespace lockstep {

/// Checks that every field is in docs/use/output.md.
inline void expect_documented(const Json& fields) {
  static const std::string documentation = TestFolder::read(LOCKSTEP_SOURCE_DIR "/docs/use/output.md");
  for (const auto& [name, value] : fields.items())
    EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/use/output.md";
}

class ProgramTest : public TestFolder {
 protected:
  /// Returns the exit code of a shell's command; its output is in out_ and err_.
  int execute(const std::string& command) {
    const int status = std::system((command + " >" + file("out") + " 2>" + file("err")).c_str());
    out_ = read(file("out"));
    err_ = read(file("err"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Checks the reaction to bad input: exit code 2, and one sentence that contains `says`, on standard error only.
  void expect_refused(int exit_code, const std::string& arguments, const std::string& says = "") const {
    EXPECT_EQ(exit_code, 2) << arguments;
    EXPECT_NE(err_.find(says), std::string::npos) << arguments << ": " << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << arguments << ": " << err_;
    EXPECT_EQ(out_, "") << arguments;
  }
  /// Returns the rows of a JSON file, and checks that each of their fields, and of the context's, is documented.
  Json documented_rows(const std::string& path) const {
    const Json document = Json::parse(read(path));
    expect_documented(document.at("context"));
    EXPECT_TRUE(document.at("context").contains("command_line")) << path << " does not say which command repeats it";
    for (const Json& row : document.at("rows")) expect_documented(row);
    return document.at("rows");
  }

  std::string out_, err_;
};

}  // namespace lockstep
