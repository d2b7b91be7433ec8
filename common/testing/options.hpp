// A lab test's own command-line options. Set by common/testing/main.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::testing {

struct TestOptions {
  std::optional<int> ranks;              ///< --ranks P: only this number of ranks
  std::optional<std::size_t> size;       ///< --size N: only this number of elements
  std::optional<std::uint64_t> perturb;  ///< --perturb SEED: run queued work early or late, by this seed
  std::optional<std::uint64_t> seed;     ///< --seed SEED: draw inputs and sizes by it, instead of the usual ones
  bool trace = false;                    ///< --trace [FILE]: record the timeline of each case
  std::string trace_file;    ///< output file; empty, or a folder with a / at its end: the test chooses the name
  std::string verdict_file;  ///< --verdict FILE: file for the verdicts, as JSON
  std::string outcomes_to;   ///< --outcomes-to FILE: hand over the outcomes of all runs
  std::string outcomes_of;   ///< --outcomes-of FILE: judge those handed over, and run nothing in their place
  int available_ranks = 0;   ///< MPI: processes in the world; 0: any number
};

/// The options of this process. GoogleTest calls test bodies without arguments, so only these options are global; they
/// are set once, before the first test, and never changed.
const TestOptions& test_options();

}  // namespace lockstep::testing
