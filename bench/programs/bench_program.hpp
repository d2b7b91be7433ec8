// Runs a benchmark program as ./lab bench does.
#pragma once

#include "common/support/tests/program_testing.hpp"

namespace lockstep::bench {

inline double field(const Json& row, const char* name) { return row.at(name).get<double>(); }

class BenchProgram : public ProgramTest {
 protected:
  explicit BenchProgram(const char* backend = "sim") : backend_(backend) {}

  /// Returns the exit code; the output is in out and err.
  int start(const std::string& arguments, const std::string& benchmark = "all_reduce") {
    return execute(before_ + " " LOCKSTEP_PROGRAMS "/bench_" + benchmark + "_" + backend_ + " " + arguments);
  }
  /// Returns the rows of a successful run.
  Json rows_of(const std::string& arguments, const std::string& benchmark) {
    EXPECT_EQ(start(arguments + " --json " + file("rows.json"), benchmark), 0) << err_;
    return documented_rows(file("rows.json"));
  }

  std::string backend_, before_;  // the command that starts it
};

}  // namespace lockstep::bench
