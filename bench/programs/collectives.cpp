// Reduce-scatter, all-gather, broadcast and all-to-all, each with several algorithms and the library's own (MPI's or
// NCCL's). Reports the bandwidths that nccl-tests defines:
//
//   ./lab bench collectives --machine dgx-a100 --ranks 8 --bytes 1KiB:64MiB
//   ./lab bench collectives --backend mpi --ranks 2 --bytes 64KiB,1MiB --json out.json
//   ./lab bench collectives --collective broadcast --algorithm tree,chain --ranks 16 --machine dgx-a100-hdr --phantom
//
// Every result is compared with its definition before it is timed. On MPI the baseline is memory_copy: each rank
// copies, within its own memory, as many bytes as any algorithm must bring to it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/programs/beside_library.hpp"
#include "bench/programs/collective_algorithms.hpp"
#include "bench/programs/collective_kinds.hpp"
#include "bench/programs/collective_prices.hpp"
#include "bench/programs/library_collectives.hpp"
#include "bench/support/bench.hpp"
#include "bench/support/nccl_columns.hpp"
#include "common/runtime/machine/library.hpp"
#include "common/support/stats/bus_factor.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/first_messages.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

/// An algorithm and its price; `segments` is that of a chain, otherwise 0.
struct Priced {
  CollectiveAlgorithm algorithm;
  std::function<double(const CollectivePrices&, int ranks, double bytes)> seconds;  // empty: no formula
  int segments = 0;
};

Priced chain(int segments) {
  return {{"chain", [=](Rank me, const Arrays& arrays) { chain_broadcast(me, arrays.to, segments); }},
          [=](const CollectivePrices& prices, int ranks, double bytes) {
            return chain_seconds(prices, ranks, bytes, segments);
          },
          segments};
}

std::vector<Priced> algorithms_of(Collective collective, int segments) {
  switch (collective) {
    case Collective::reduce_scatter:
      return {{{"ring", [](Rank me, const Arrays& arrays) { week21::ring_reduce_scatter(me, arrays.from); }},
               ring_reduce_scatter_seconds}};
    case Collective::all_gather:
      return {{{"ring", [](Rank me, const Arrays& arrays) { week21::ring_all_gather(me, arrays.to); }},
               ring_all_gather_seconds}};
    case Collective::broadcast:
      return {{{"star", [](Rank me, const Arrays& arrays) { week21::broadcast(me, arrays.to, 0); }}, star_seconds},
              {{"tree", [](Rank me, const Arrays& arrays) { tree_broadcast(me, arrays.to); }}, tree_seconds},
              chain(segments)};
    case Collective::all_to_all:
      return {
          {{"direct", [](Rank me, const Arrays& arrays) { direct_all_to_all(me, arrays.to, arrays.from); }, false},
           direct_seconds},
          {{"pairwise", [](Rank me, const Arrays& arrays) { pairwise_all_to_all(me, arrays.to, arrays.from); }, false},
           pairwise_seconds}};
  }
  return {};
}

struct CollectiveOptions {
  std::string bytes = "1KiB:16MiB", columns;
  std::vector<std::string> collectives, algorithms;
  int segments = 0;
};

bool wanted(const std::string& name, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(const CollectiveOptions& o) {
  std::vector<std::string> collectives, algorithms{"library"};
  for (const Collective collective : all_collectives()) {
    collectives.emplace_back(name_of(collective));
    for (const Priced& priced : algorithms_of(collective, 1)) algorithms.push_back(priced.algorithm.name);
  }
  for (const std::string& name : o.collectives)
    if (!wanted(name, collectives)) throw Error(Verdict::usage, unknown_name("collective", name, collectives));
  for (const std::string& name : o.algorithms)
    if (!wanted(name, algorithms)) throw Error(Verdict::usage, unknown_name("algorithm", name, algorithms));
  if (o.segments < 0)
    throw Error(Verdict::usage, "--segments must be a count; 0 uses the number predicted to be fastest");
}

/// Returns, like nccl-tests, the largest size up to the requested one whose elements p divides.
std::size_t divisible_elements(std::uint64_t bytes, int ranks) {
  const std::size_t elements = f32_elements(bytes), p = static_cast<std::size_t>(ranks);
  if (elements < p)
    throw Error(Verdict::usage, fmt::format("--bytes {}: {} ranks need an element of 4 bytes each", bytes, ranks));
  return elements / p * p;
}

/// The collectives for one number of ranks.
class Collectives {
 public:
  Collectives(Bench& bench, CollectiveOptions options, int ranks) : o_(std::move(options)), ranks_(ranks) {
    if (ranks == 1) throw Error(Verdict::usage, "--ranks 1: at least 2 ranks are needed to send anything");
    const RunOptions run = bench.run_options(ranks);
    machine_ = bench.machine_of_links(run);
    measured_processes_ = on_own_cores(run);
    if (!shares_memory()) prices_ = {bench.prices(ranks), machine_};
  }

  /// Returns true if there was something to measure: not every algorithm applies to every collective.
  bool add(Bench& bench, Collective collective, std::uint64_t size) const {
    const std::size_t elements = divisible_elements(size, ranks_);
    const double bytes = 4.0 * static_cast<double>(elements);
    const int most = static_cast<int>(std::min<std::size_t>(elements, 1U << 20U));
    const int segments = o_.segments > 0   ? std::min(o_.segments, most)
                         : shares_memory() ? 1
                                           : best_segments(prices_, ranks_, bytes);
    std::vector<Priced> chosen;
    for (const Priced& priced : algorithms_of(collective, segments))
      if (wanted(priced.algorithm.name, o_.algorithms)) chosen.push_back(priced);
    if (const auto library = library_collective(collective); library && wanted("library", o_.algorithms))
      chosen.push_back({*library, {}});
    if (chosen.empty()) return false;
    std::vector<Contender> contenders;
    for (const Priced& priced : chosen) contenders.push_back(contender(collective, priced, elements));
    if (measured_processes_) {
      const double copied = static_cast<double>(elements) * bus_factor(name_of(collective), ranks_);
      contenders.push_back(copying("memory_copy", static_cast<std::size_t>(copied)));
    }
    const bool has_floor = machine_ && collective == Collective::all_to_all;
    const double floor = has_floor ? all_to_all_floor_seconds(*machine_, ranks_, bytes) : 0;
    bench.add(fmt::format("{}/{} ranks/{}", name_of(collective), ranks_, format_bytes(bytes)),
              bench.run_options(ranks_), contenders,
              [=, this](const std::vector<Measurement>& group, std::size_t i, Row& row) {
                finish(collective, chosen, bytes, floor, group, i, row);
              });
    return true;
  }

 private:
  Contender contender(Collective collective, const Priced& priced, std::size_t elements) const {
    const CollectiveAlgorithm algorithm = priced.algorithm;
    Contender contender{
        .name = algorithm.name,
        .prepare = [=](Rank me,
                       Purpose purpose) { return prepare_collective(me, purpose, collective, algorithm, elements); },
        .counted = algorithm.counted};
    if (priced.seconds && !shares_memory())
      contender.predict = [=, seconds = priced.seconds, machine = machine_, ranks = ranks_](const LinkPrices& links) {
        return seconds({links, machine}, ranks, 4.0 * static_cast<double>(elements));
      };
    return contender;
  }

  void finish(Collective collective, const std::vector<Priced>& chosen, double bytes, double floor,
              const std::vector<Measurement>& group, std::size_t i, Row& row) const {
    row.set("collective", name_of(collective)).set("bytes", static_cast<std::uint64_t>(bytes));
    const double bandwidth = bytes / group[i].seconds.value;
    row.set("algbw_gb_per_s", bandwidth / 1e9);
    row.set("busbw_gb_per_s", bandwidth * bus_factor(name_of(collective), ranks_) / 1e9);
    if (floor > 0 && i < chosen.size()) row.set("floor_seconds", floor);
    if (measured_processes_) set_comparisons(row, group, i);
    if (i < chosen.size() && chosen[i].segments > 0) row.set("segments", chosen[i].segments);
  }

  CollectiveOptions o_;
  int ranks_;
  std::shared_ptr<const Machine> machine_;  // for prices per link; null if tables or a ping-pong give the prices
  bool measured_processes_ = false;         // wall-clock time of processes that share memory
  CollectivePrices prices_;
};

/// The times to expect of NCCL; for an all-to-all, which it leaves to sends and receives, the floor.
std::vector<NcclTable> nccl_tables(const Bench& bench, const CollectiveOptions& o) {
  std::vector<NcclTable> all;
  for (const int ranks : bench.ranks())
    for (const Collective collective : all_collectives()) {
      if (!wanted(name_of(collective), o.collectives) || collective == Collective::broadcast) continue;
      const bool floor = collective == Collective::all_to_all;
      NcclTable table{name_of(collective), ranks, bench.run_options(ranks).machine, floor};
      for (const std::uint64_t size : parse_byte_sizes(o.bytes)) {
        const std::uint64_t bytes = 4 * divisible_elements(size, ranks);
        const auto size_of_all = static_cast<double>(bytes);
        table.lines.push_back({bytes, floor ? all_to_all_floor_seconds(table.machine, ranks, size_of_all)
                                            : library_gather_seconds(table.machine, ranks, size_of_all)});
      }
      all.push_back(std::move(table));
    }
  if (all.empty()) throw Error(Verdict::usage, "--columns nccl: there is no prediction of NCCL's broadcast");
  return all;
}

void add_all(Bench& bench, const CollectiveOptions& o, std::vector<std::unique_ptr<Collectives>>& all) {
  bool any = false;
  for (const int ranks : bench.ranks()) {
    all.push_back(std::make_unique<Collectives>(bench, o, ranks));
    for (const Collective collective : all_collectives())
      if (wanted(name_of(collective), o.collectives))
        for (const std::uint64_t size : parse_byte_sizes(o.bytes)) any |= all.back()->add(bench, collective, size);
  }
  if (!any)
    throw Error(Verdict::usage,
                "nothing to measure: none of the given algorithms implements these collectives on this backend");
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::CollectiveOptions o;
  const auto declare = [&](CommandLine& line) {
    line.add("--bytes", o.bytes, "size of the whole array: one, several separated by commas, or FIRST:LAST doubling");
    line.add("--collective", o.collectives,
             "reduce_scatter, all_gather, broadcast, all_to_all; separate several with commas; default all");
    line.add("--algorithm", o.algorithms,
             "ring (reduce_scatter and all_gather), star, tree, chain (broadcast), direct, pairwise ("
             "all_to_all), library (MPI's or NCCL's own); separate several with commas; default all");
    line.add("--segments", o.segments, "segments of the chain; default 0: the number predicted to be fastest");
    line.add("--columns", o.columns, bench::kColumnsHelp);
    line.exclude("--columns", {"--algorithm", "--segments"});
  };
  const auto body = [&](bench::Bench& bench) {
    std::vector<std::unique_ptr<bench::Collectives>> all;
    std::vector<bench::NcclTable> tables;
    bench::check_names(o);
    if (bench::wants_nccl_columns(bench, o.columns)) {
      tables = bench::nccl_tables(bench, o);
      o.algorithms = {"library"};
    }
    if (tables.empty() || bench::has_nccl()) bench::add_all(bench, o, all);
    bench::run_and_print(bench, tables);
  };
  return bench::bench_main("collectives", "Collectives other than all-reduce: time, bandwidth and prediction.", argc,
                           argv, declare, body);
}
