// A benchmark program: options that all of them share, Google Benchmark with manual time as the runner, one row and one
// line of the table for each contender. The judge (rank 0) alone prints and writes.
//
//   int main(int argc, char** argv) {
//     return bench_main("all_reduce", "what it measures", argc, argv, declare, [&](Bench& bench) {
//       for (int p : bench.ranks()) bench.add("64KiB", bench.run_options(p), contenders, finish);
//       bench.run();
//     });
//   }
#pragma once

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
  std::string machine;  // name or file; "": uniform in the simulator, elsewhere what ./lab calibrate wrote, or none
  std::string emulate;  // MPI: the machine whose times are slept through
  double scale = 1;     // modelled seconds × scale are slept; the runtime reports modelled seconds
  std::vector<std::string> ranks;  // one or several numbers; none: all processes, or 4 where ranks share one
  int samples = 31;
  bool phantom = false;
  bool tf32 = false;
  std::string json;
  std::string csv;
  std::string timeline;  // prefix of files
};

class Bench {
 public:
  /// Checks what the options say: ranks, machine, files that can be written. Throws Error(usage).
  Bench(std::string name, Options options, int available_ranks);

  /// How many ranks, each number in turn.
  const std::vector<int>& ranks() const { return ranks_; }
  /// For what is measured on one rank alone: Error(usage) with `instead` where another number was asked for.
  void want_one_rank(const std::string& instead) const;
  /// For `run`: ranks, machine, phantom, emulate; race checks off.
  RunOptions run_options(int ranks) const;
  /// In the simulator, without --machine and --ranks: `ranks` of them on each machine file that is not a cluster of
  /// another's nodes. Empty where something was asked for.
  std::vector<RunOptions> every_machine(int ranks) const;
  /// Whether there is a machine to predict with.
  bool has_machine() const { return has_machine_; }
  /// α, β, γ and launch to predict with: the machine's between `ranks` neighbours; without a machine, measured once
  /// on this computer by ping-pong, copy and addition, never by what they predict.
  LinkPrices prices(int ranks) { return prices(run_options(ranks)); }
  /// The same of options whose machine is another.
  LinkPrices prices(const RunOptions& options);

  /// Adds to the row of contender `index` what the program knows; all contenders of its group are measured by then.
  using Finish = std::function<void(const std::vector<Measurement>& group, std::size_t index, Row& row)>;
  /// Contenders to be measured against each other; `label` names the group ("64KiB").
  void add(const std::string& label, RunOptions options, std::vector<Contender> contenders, Finish finish);

  /// "" or where a run that can be played is to be written: PREFIX_NAME.trace. Who asks writes it; else run() does, of
  /// the first group's contenders.
  const std::string& timeline() {
    draws_itself_ = true;
    return options_.timeline;
  }

  /// A row that is no contender's, before all others in the results: what a ledger says, say.
  void report(Row row) { reported_.push_back(std::move(row)); }

  /// Where results come from: this program, its backend's libraries, here and now.
  static Context context();
  /// For the context of the results: options, fits.
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
  std::optional<LinkStates> links_;  // where the machine has tables of this computer's
  Row about_;
  bool has_machine_ = false, machine_named_ = false;
  bool draws_itself_ = false;
  std::vector<std::shared_ptr<Group>> groups_;
  std::size_t longest_name_ = 0;  // of their contenders, as the table says it
  std::vector<Row> rows_;
  std::vector<Row> reported_;
};

/// Starts the session, reads the command line, calls `body`, and turns errors into one sentence and an exit code: 0
/// fine, 1 a run failed, 2 bad input, 77 no GPU. `declare` adds the program's own options.
int bench_main(const std::string& name, const std::string& description, int argc, char** argv,
               const std::function<void(CommandLine&)>& declare, const std::function<void(Bench&)>& body);

}  // namespace lockstep::bench
