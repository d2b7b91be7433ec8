// A benchmark program: shared options, Google Benchmark with manual time as the runner, and one row and one line of the
// table for each contender. Only the judge (rank 0) prints and writes.
//
//   int main(int argc, char** argv) {
//     return bench_main("all_reduce", "what it measures", argc, argv, declare, [&](Bench& bench) {
//       for (int p : bench.ranks()) bench.add("64KiB", bench.run_options(p), contenders, finish);
//       bench.run();
//     });
//   }
#pragma once

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/links.hpp"
#include "bench/support/measure.hpp"
#include "common/runtime/has_cores.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/command_line.hpp"

namespace lockstep::bench {

struct Options {
  std::string machine;  // name or file; "": uniform in the simulator; otherwise the file of ./lab calibrate, or none
  std::string emulate;  // MPI: the machine whose times are emulated by sleeping
  double scale = 1;     // sleeps for modelled seconds × scale; the runtime reports modelled seconds
  std::vector<std::string> ranks;  // one or several numbers; none: all processes, or 4 on a backend with one process
  int samples = 31;
  bool phantom = false;
  bool tf32 = false;
  std::string json;
  std::string csv;
  std::string timeline;  // prefix of the files
};

class Bench {
 public:
  /// Checks the options: ranks, machine, writable files. Throws Error(usage).
  Bench(std::string name, Options options, int available_ranks);

  /// Numbers of ranks to be measured.
  const std::vector<int>& ranks() const { return ranks_; }
  /// For measurements on one rank only: throws Error(usage) with `instead` if another number was requested.
  void want_one_rank(const std::string& instead) const;
  /// Options for `run`: ranks, machine, phantom, emulate; race checks off.
  RunOptions run_options(int ranks) const;
  /// In the simulator, without --machine and --ranks: `ranks` ranks on each machine file, except clusters of another
  /// file's nodes. Empty if a machine or ranks were requested.
  std::vector<RunOptions> every_machine(int ranks) const;
  /// True if there is a machine to predict with.
  bool has_machine() const { return has_machine_; }
  /// The machine whose levels and ports predict a run with these options; null if α and β are measured, or in tables.
  std::shared_ptr<const Machine> machine_of_links(const RunOptions& options) const;
  /// α, β, γ and launch to predict with: the machine's between `ranks` neighbours. Without a machine, measured once on
  /// this computer by ping-pong, copy and addition, never by the predicted operations.
  LinkPrices prices(int ranks) { return prices(run_options(ranks)); }
  /// The same for options with another machine.
  LinkPrices prices(const RunOptions& options);

  /// Adds values that only the program knows to the row of contender `index`, after its whole group has been measured.
  using Finish = std::function<void(const std::vector<Measurement>& group, std::size_t index, Row& row)>;
  /// Adds contenders to be measured against each other; `label` names the group ("64KiB").
  void add(const std::string& label, RunOptions options, std::vector<Contender> contenders, Finish finish);

  /// "", or the prefix of the files for a run that can be replayed: PREFIX_NAME.trace. The caller then writes them;
  /// otherwise run() does, for the first group's contenders.
  const std::string& timeline() {
    draws_itself_ = true;
    return options_.timeline;
  }

  /// Adds a row that belongs to no contender, such as numbers from a ledger. It precedes all others in the results.
  void report(Row row) { reported_.push_back(std::move(row)); }

  /// Origin of the results: this program, its backend's libraries, this computer, now.
  static Context context();
  /// Fields for the context of the results: options, fits.
  Row& about() { return about_; }

  /// Measures every group and prints the table; then calls `after`, which may print and add to `about`; then writes the
  /// files.
  void run(const std::function<void(const std::vector<Row>&)>& after = {});

 private:
  struct Group;
  class Table;
  void find_calibrated_machine(int available_ranks);
  void follow_links(RunOptions& options);
  void predict_and_measure(Group& group);
  void measure_one(Group& group, std::size_t contender);
  Row row_of(const RunOptions& options, const Measurement& measurement) const;
  void say_where() const;
  void draw_timelines() const;

  std::string name_;
  Options options_;
  std::vector<int> ranks_;
  RunOptions run_options_;
  std::optional<LinkPrices> measured_prices_;
  std::optional<LinkStates> links_;  // set if the machine has tables measured on this computer
  Row about_;
  bool has_machine_ = false, machine_named_ = false;
  bool draws_itself_ = false;
  std::vector<std::shared_ptr<Group>> groups_;
  std::size_t longest_name_ = 0;  // length of the longest contender's name
  std::vector<Row> rows_;
  std::vector<Row> reported_;
};

/// Prints on the judge alone.
template <class... Values>
void say(fmt::format_string<const Values&...> text, const Values&... values) {
  if (is_judge()) fmt::print(text, values...);
}

/// Starts the session, reads the command line, calls `body`, and turns errors into one sentence and an exit code: 0
/// success, 1 a run failed, 2 bad input, 77 no GPU. `declare` adds the program's own options.
int bench_main(const std::string& name, const std::string& description, int argc, char** argv,
               const std::function<void(CommandLine&)>& declare, const std::function<void(Bench&)>& body);

}  // namespace lockstep::bench
