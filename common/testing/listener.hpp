// Listens to GoogleTest and turns what happens into judgements: one for each exercise and part, in words.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "common/testing/verdict.hpp"

namespace lockstep::testing {

class VerdictListener : public ::testing::EmptyTestEventListener {
 public:
  /// `file` (may be empty) is written anew when a test begins and when it ends, so that after a crash the parent finds
  /// what had passed, and the name of the test that ran. `print`: failures and verdicts to standard output.
  VerdictListener(std::filesystem::path file, bool print) : file_(std::move(file)), print_(print) {}

 private:
  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;
  void OnTestProgramEnd(const ::testing::UnitTest& program) override;
  Judgement& row(const std::string& id);
  void print_failure(const ::testing::TestInfo& test, const Judgement& failure) const;

  std::filesystem::path file_;
  bool print_;
  std::vector<Judgement> rows_;  // by suite, in the order in which the suites ran
};

}  // namespace lockstep::testing
