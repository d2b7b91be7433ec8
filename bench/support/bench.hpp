// A benchmark program: options that all of them share, Google Benchmark with manual time as the runner, one row and one
// line of the table for each contender. The judge (rank 0) alone prints and writes.
//
//   int main(int argc, char** argv) {
//     return bench_main("all_reduce", "what it measures", argc, argv, declare, [&](Bench& bench) {
//       bench.add("64KiB", contenders, finish);
//       bench.run();
//     });
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/command_line.hpp"
#include "bench/support/measure.hpp"
#include "common/json/results.hpp"

namespace lockstep::bench {

struct Options {
  std::string machine;  // name or file; "": uniform in the simulator, none elsewhere (then nothing is predicted)
  std::string emulate;  // MPI: the machine whose times are slept through
  double scale = 1;     // modelled seconds × scale are slept; the runtime reports modelled seconds
  int ranks = 0;        // 0: 4 in the simulator, all processes elsewhere
  int samples = 31;
  bool phantom = false;
  std::string json;
  std::string csv;
};

class Bench {
 public:
  /// Checks what the options say: ranks, machine, files that can be written. Throws Error(usage).
  Bench(std::string name, Options options, int available_ranks);

  /// For `run`: ranks, machine, phantom, emulate; race checks off.
  const RunOptions& run_options() const { return run_options_; }
  /// Whether there is a machine to predict with.
  bool has_machine() const { return has_machine_; }

  /// Contenders to be measured against each other; `label` names the group ("64KiB"). `finish` adds to each one's row
  /// what this program knows.
  void add(const std::string& label, std::vector<Contender> contenders,
           std::function<void(const Measurement&, Row&)> finish);

  /// Measures every group, prints the table, writes the files.
  void run();

 private:
  struct Group;
  class Table;
  void measure_one(Group& group, std::size_t contender);
  Row row_of(const Measurement& measurement) const;

  std::string name_;
  Options options_;
  RunOptions run_options_;
  bool has_machine_ = false;
  std::vector<std::shared_ptr<Group>> groups_;
  std::vector<Row> rows_;
};

/// Starts the session, reads the command line, calls `body`, and turns errors into one sentence and an exit code: 0
/// fine, 1 a run failed, 2 bad input. `declare` adds the program's own options.
int bench_main(const std::string& name, const std::string& description, int argc, char** argv,
               const std::function<void(CommandLine&)>& declare, const std::function<void(Bench&)>& body);

}  // namespace lockstep::bench
