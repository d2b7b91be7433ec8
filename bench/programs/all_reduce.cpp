// Compares all-reduce algorithms, and on MPI also the library's own and Gloo's:
//
//   ./lab bench all_reduce --backend sim --machine dgx-a100 --ranks 8 --bytes 1KiB:64MiB
//   ./lab bench all_reduce --backend mpi --ranks 4 --bytes 64KiB --algorithm ring,library --json out.json
//   ./lab bench all_reduce --backend cuda --ranks 2,4,8 --bytes 1MiB,256MiB
//   ./lab bench all_reduce --backend sim --machine dgx-a100-hdr --ranks 16 --algorithm all,auto --phantom
//
// `auto` uses for each size the algorithm that is predicted to be fastest with the prices of the machine file, or with
// measured ones, and prints its thresholds. The sizes at which the fastest algorithm changes, predicted and measured,
// are printed below the table.
//
// On one GPU (cuda) ranks share one memory, whose bandwidth is the limit. A message is a copy, which reads and writes
// each byte (2 accesses); an addition reads two and writes one (3). An algorithm's traffic bound is the total of these
// accesses over the rate of a copy measured in the same run. The fused bound assumes that receive-and-add is one pass
// (read both, write one: 3 instead of 2 + 3).
//
// On MPI the baseline is memory_copy: each rank copies, within its own memory, as many bytes as any all-reduce must
// bring to it. Between processes that share memory no message is cheaper. `pipelined` is also measured there.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/programs/all_reduce_choice.hpp"
#include "bench/programs/all_reduce_prices.hpp"
#include "bench/programs/collective_contest.hpp"
#include "bench/programs/library_collectives.hpp"
#include "bench/programs/pipelined_all_reduce.hpp"
#include "bench/support/bench.hpp"
#include "common/runtime/machine/library.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week21_data_parallel/naive_all_reduce.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

/// Set if prices are per link; null if α, β and γ are measured.
using MachineOrNone = std::shared_ptr<const Machine>;

Act sum_by(std::function<void(Rank, Slice)> all_reduce) {
  return [=](Rank me, const Arrays& arrays) { all_reduce(me, arrays.to); };
}

/// A formula that does not depend on levels of links.
auto by_links(double (*formula)(const LinkPrices&, int, double)) {
  return [=](const CollectivePrices& prices, int ranks, double bytes) { return formula(prices.links, ranks, bytes); };
}

/// A formula of 21.3, and one that takes the links of each step's distance.
using Formula = double (*)(week21::CostModel, int, double);
using FormulaOfMachine = double (*)(const Machine&, int, double);
CollectiveAlgorithm butterfly(const char* name, const Act& act, Formula flat, FormulaOfMachine by_step,
                              double (*by_tables)(const LinkPrices&, int, double)) {
  return {.name = name,
          .act = act,
          .seconds =
              [=](const CollectivePrices& prices, int ranks, double bytes) {
                if (prices.machine) return by_step(*prices.machine, ranks, bytes);
                const bool lines = prices.links.tables.exchanges.empty();
                return lines ? flat(cost_of(prices.links), ranks, bytes) : by_tables(prices.links, ranks, bytes);
              },
          .choosable = true};
}

/// 21.4 with g ranks per node.
CollectiveAlgorithm hierarchical(int g) {
  return {.name = "hierarchical",
          .seconds =
              [=](const CollectivePrices& prices, int ranks, double bytes) {
                const MachineOrNone& machine = prices.machine;
                const auto inside = machine ? week21::cost_model(*machine, g) : cost_of(prices.links.at(bytes / g));
                const auto across =
                    machine ? week21::cost_of_all_at_once(*machine, ranks) : cost_of(prices.links.at(bytes / ranks));
                return week21::hierarchical_seconds(inside, across, ranks / g, g, bytes);
              },
          .choosable = true,
          .set_up = [=](Rank me) -> Act {
            const week21::Hierarchy groups = week21::split_by_node(me, g);
            return sum_by([groups](Rank, const Slice& data) { week21::hierarchical_all_reduce(groups, data); });
          }};
}

std::vector<CollectiveAlgorithm> algorithms(int g) {
  std::vector<CollectiveAlgorithm> all{
      {.name = "naive", .act = sum_by(week21::naive_all_reduce), .seconds = by_links(naive_seconds)},
      butterfly("recursive_doubling", sum_by(week21::recursive_doubling_all_reduce), week21::recursive_doubling_seconds,
                week21::recursive_doubling_seconds, doubling_by_tables),
      butterfly("rabenseifner", sum_by(week21::rabenseifner_all_reduce), week21::rabenseifner_seconds,
                week21::rabenseifner_seconds, halving_by_tables),
      {.name = "ring", .act = sum_by(week21::ring_all_reduce), .seconds = by_links(ring_seconds), .choosable = true},
      {.name = "pipelined",
       .act = sum_by([](Rank me, const Slice& data) { pipelined_all_reduce(me, data); }),
       .seconds = by_links(pipelined_seconds)},
      hierarchical(g)};
  if (const auto library = library_collective(Collective::all_reduce)) all.push_back(*library);
  for (const OtherLibrary& other : other_libraries())
    all.push_back({.name = other.name, .counted = false, .apart = other.measure});
  return all;
}

/// Memory accesses of an algorithm's steps on one GPU, in bytes, all ranks together.
struct MemoryTraffic {
  double as_written = 0;  // a copy for each message, and a separate pass for each addition
  double fused = 0;       // receive-and-add in one pass
};
/// A sum of p arrays takes p − 1 additions of the whole array in any algorithm. In recursive doubling, however, all
/// ranks compute the same sums, and only the results that spare ranks receive are not added.
MemoryTraffic memory_traffic(const Measurement& measurement, const std::string& algorithm, int ranks, double bytes) {
  const auto sent = static_cast<double>(measurement.bytes_sent);
  const double added =
      algorithm == "recursive_doubling" ? sent - (ranks - week21::butterfly_ranks(ranks)) * bytes : (ranks - 1) * bytes;
  return {.as_written = 2 * sent + 3 * added, .fused = 2 * (sent - added) + 3 * added};
}

/// Adds the bounds to a row of one GPU. The baseline is the last of the group.
void set_bounds(Row& row, const std::vector<Measurement>& group, std::size_t i, const std::string& algorithm, int ranks,
                double bytes) {
  const double rate = 2 * ranks * bytes / group.back().seconds.value;
  row.set("copy_bytes_per_second", rate);
  if (i + 1 == group.size() || !group[i].counted) return;
  const MemoryTraffic traffic = memory_traffic(group[i], algorithm, ranks, bytes);
  const double bound = traffic.as_written / rate, seconds = group[i].seconds.value;
  row.set("traffic_bytes", traffic.as_written).set("predicted_seconds", bound);
  row.set("fraction_of_traffic_bound", bound / seconds);
  row.set("fraction_of_fused_bound", traffic.fused / rate / seconds);
}

/// The algorithms for one number of ranks.
class Contest {
 public:
  /// `per_node` 0: the machine's.
  Contest(Bench& bench, int ranks, int per_node, const std::vector<std::string>& names);
  void add_size(Bench& bench, std::uint64_t bytes);
  /// The thresholds of `auto`; empty if it was not requested.
  const std::string& thresholds() const { return thresholds_; }
  /// Prints the sizes at which the fastest algorithm changes, predicted and measured.
  void print_crossovers() const;

 private:
  bool asked(const std::string& name, const std::vector<std::string>& names) const;
  /// Returns the algorithm that runs at this size: for `auto`, the one that it chooses.
  const CollectiveAlgorithm& at_size(const CollectiveAlgorithm& algorithm, double bytes) const;
  void finish(const std::vector<Measurement>& group, std::size_t i, std::uint64_t bytes, Row& row);

  int ranks_, per_node_ = 0;
  MachineOrNone machine_;
  std::vector<std::pair<double, double>> by_library_;  // bytes, and seconds with NCCL on this machine
  std::string where_;                                  // "16 ranks of dgx-a100-hdr"
  std::string thresholds_;
  std::vector<CollectiveAlgorithm> all_, contenders_;  // `auto` among the latter has no `act`
  std::vector<Stretch> fastest_;                       // among the candidates for `auto`
  std::vector<Timed> timed_;                           // our own algorithms
};

bool Contest::asked(const std::string& name, const std::vector<std::string>& names) const {
  const auto has = [&](const std::string& wanted) {
    return std::find(names.begin(), names.end(), wanted) != names.end();
  };
  if (has(name)) return true;
  if (name == "auto" || !(names.empty() || has("all"))) return false;
  if (name == "pipelined") return on_mpi();
  return name != "hierarchical" || (per_node_ > 1 && per_node_ < ranks_);  // otherwise it is the ring
}

Contest::Contest(Bench& bench, int ranks, int per_node, const std::vector<std::string>& names) : ranks_(ranks) {
  const RunOptions options = bench.run_options(ranks);
  const auto machine = bench.has_machine() ? std::make_shared<const Machine>(options.machine) : MachineOrNone{};
  machine_ = machine;
  if (per_node > 0 && ranks % per_node != 0)
    throw Error(Verdict::usage,
                fmt::format("--ranks-per-node {}: {} ranks are not a whole number of such nodes", per_node, ranks));
  per_node_ = per_node > 0 ? per_node : machine ? ranks_per_node(*machine, ranks) : ranks;
  where_ = fmt::format("{}{}", counted(ranks, "rank"), machine ? " of " + machine->name : "");
  all_ = algorithms(per_node_);
  all_.push_back({"auto"});
  std::vector<std::string> known = {"all"};
  for (const CollectiveAlgorithm& algorithm : all_) {
    known.push_back(algorithm.name);
    if (asked(algorithm.name, names)) contenders_.push_back(algorithm);
  }
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(Verdict::usage, unknown_name("algorithm", name, known));
  for (const OtherLibrary& other : other_libraries())
    if (asked(other.name, names)) {
      bench.about().set(other.name, other.about);
      if (is_judge() && ranks == bench.ranks().front()) fmt::print("{} {}\n", other.name, other.about);
    }
  const bool chooses = asked("auto", names);
  if (shares_memory() && !chooses) return;                  // nothing is predicted from α and β
  CollectivePrices straight{bench.prices(ranks), machine};  // thresholds are intersections of straight lines
  straight.links.tables = {};
  std::vector<Priced> priced;
  for (const CollectiveAlgorithm& a : chooses ? all_ : contenders_)
    if (a.choosable) priced.push_back({a.name, [=](double bytes) { return a.seconds(straight, ranks, bytes); }});
  fastest_ = fastest_by_size(priced);
  if (!chooses) return;
  thresholds_ = fmt::format("{}: {}", where_, words_of(fastest_));
  say("auto, the fastest of ours as predicted and not NCCL's choice, {}\n", thresholds_);
}

const CollectiveAlgorithm& Contest::at_size(const CollectiveAlgorithm& algorithm, double bytes) const {
  if (algorithm.name != "auto") return algorithm;
  const std::string& taken = stretch_of(fastest_, bytes).name;
  return *std::find_if(all_.begin(), all_.end(), [&](const CollectiveAlgorithm& a) { return a.name == taken; });
}

void Contest::finish(const std::vector<Measurement>& group, std::size_t i, std::uint64_t size, Row& row) {
  const auto bytes = static_cast<double>(size);
  row.set("bytes", size);
  if (machine_ && machine_->library) row.set("library_seconds", library_all_reduce_seconds(*machine_, ranks_, bytes));
  const bool baseline = i == contenders_.size();
  const std::string taken = baseline ? group[i].contender : at_size(contenders_[i], bytes).name;
  if (shares_memory()) set_bounds(row, group, i, taken, ranks_, bytes);
  if (baseline && shares_memory()) return;
  const double seconds = group[i].seconds.value;
  if (taken != group[i].contender)
    row.set("chosen", taken);
  else if (group[i].counted)
    timed_.push_back({taken, bytes, seconds});
  const auto bandwidth = week21::bandwidth(ranks_, bytes, seconds);
  row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
  if (group[i].wall_seconds > 0)
    row.set("messages_per_wall_second", static_cast<double>(group[i].messages) / group[i].wall_seconds);
}

void Contest::add_size(Bench& bench, std::uint64_t bytes) {
  const std::size_t elements = elements_of(Collective::all_reduce, bytes, ranks_);
  const auto size = static_cast<double>(bytes);
  if (machine_ && machine_->library)
    by_library_.emplace_back(size, library_all_reduce_seconds(*machine_, ranks_, size));
  std::vector<CollectiveAlgorithm> taken;
  for (const CollectiveAlgorithm& algorithm : contenders_) {
    taken.push_back(at_size(algorithm, size));
    taken.back().name = algorithm.name;
  }
  add_contest(
      bench, Collective::all_reduce, taken, ranks_, elements,
      [=, this](const std::vector<Measurement>& group, std::size_t i, Row& row) { finish(group, i, bytes, row); });
}

void Contest::print_crossovers() const {
  std::string library;
  for (const auto& [bytes, seconds] : by_library_)
    library += fmt::format("{}{} {}", library.empty() ? "" : ", ", format_bytes(bytes), format_seconds(seconds));
  if (!library.empty())
    fmt::print("NCCL, {}, {}: {}\n", where_, machine_->library->all_reduce.empty() ? "by these links" : "as published",
               library);
  const std::string measured = words_of_measured(timed_);
  if (measured.empty()) return;
  fmt::print("fastest, {}\n", where_);
  if (!fastest_.empty()) fmt::print("  predicted: {} (of those that auto may take)\n", words_of(fastest_));
  fmt::print("  {}: {}\n", time_is_virtual() ? "simulated" : "measured", measured);
}

/// --columns nccl.
void beside_nccl_tests(Bench& bench, const std::vector<std::uint64_t>& sizes) {
  std::vector<NcclTable> tables;
  std::vector<std::unique_ptr<Contest>> contests;
  for (const int ranks : bench.ranks()) {
    tables.push_back(nccl_table(bench, Collective::all_reduce, ranks, sizes));
    if (!has_nccl()) continue;
    contests.push_back(std::make_unique<Contest>(bench, ranks, 0, std::vector<std::string>{"library"}));
    for (const std::uint64_t bytes : sizes) contests.back()->add_size(bench, bytes);
  }
  run_and_print(bench, tables);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  std::string bytes = "1KiB:16MiB", columns;
  std::vector<std::string> names;
  int per_node = 0;
  auto declare = [&](CommandLine& line) {
    line.add("--bytes", bytes, "size of the array: one, several separated by commas, or FIRST:LAST doubling");
    line.add(
        "--algorithm", names,
        "naive, recursive_doubling, rabenseifner, ring, pipelined (segments of a ring), hierarchical, library (MPI's "
        "or NCCL's own), gloo (on MPI, where it is installed), auto (the fastest of ours by the machine file, not "
        "NCCL's choice), all (except auto, and pipelined without MPI); separate several with commas; default all");
    line.add("--ranks-per-node", per_node, "for hierarchical; default: as in the machine file; without --machine all",
             Whole{});
    line.add("--columns", columns, bench::kColumnsHelp);
    line.exclude("--columns", {"--algorithm", "--ranks-per-node"});
  };
  const auto body = [&](bench::Bench& bench) {
    if (bench::wants_nccl_columns(bench, columns)) return bench::beside_nccl_tests(bench, parse_byte_sizes(bytes));
    std::vector<std::unique_ptr<bench::Contest>> contests;
    std::string thresholds;
    for (int ranks : bench.ranks()) {
      contests.push_back(std::make_unique<bench::Contest>(bench, ranks, per_node, names));
      for (std::uint64_t size : parse_byte_sizes(bytes)) contests.back()->add_size(bench, size);
      thresholds += (thresholds.empty() ? "" : "; ") + contests.back()->thresholds();
    }
    if (!contests.front()->thresholds().empty()) bench.about().set("auto_thresholds", thresholds);
    bench.run([&](const std::vector<Row>&) {
      for (const auto& contest : contests) contest->print_crossovers();
    });
  };
  return bench::bench_main("all_reduce", "All-reduce algorithms: time, bandwidth and prediction.", argc, argv, declare,
                           body);
}
