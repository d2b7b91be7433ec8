// A GoogleTest listener that turns results into judgements, one for each exercise and part.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "common/runtime/errors.hpp"
#include "common/testing/verdict.hpp"

namespace lockstep::testing {

class VerdictListener : public ::testing::EmptyTestEventListener {
 public:
  /// Writes `file` (may be empty) again when a test begins and when it ends, so that after a crash the parent process
  /// finds the tests that had passed, and the name of the one that ran. `print`: write failures and verdicts to
  /// standard output.
  VerdictListener(std::filesystem::path file, bool print) : file_(std::move(file)), print_(print) {}

 private:
  void OnTestStart(const ::testing::TestInfo& test) override;
  /// GoogleTest reports an exception that has left a test while it handles it, and keeps no more of it than its text.
  void OnTestPartResult(const ::testing::TestPartResult& part) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;
  void OnTestProgramEnd(const ::testing::UnitTest& program) override;
  Judgement& row(const std::string& id);
  void print_failure(const ::testing::TestInfo& test, const Judgement& failure) const;

  std::filesystem::path file_;
  bool print_;
  std::optional<Caught> thrown_;  // by the running test
  std::vector<Judgement> rows_;   // by suite, in the order in which they ran
};

}  // namespace lockstep::testing
