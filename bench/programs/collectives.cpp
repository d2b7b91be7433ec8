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

#include "bench/programs/collective_algorithms.hpp"
#include "bench/programs/collective_contest.hpp"
#include "bench/programs/library_collectives.hpp"
#include "common/support/stats/bus_factor.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/first_messages.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

CollectiveAlgorithm chain(int segments) {
  return {.name = "chain",
          .act = [=](Rank me, const Arrays& arrays) { chain_broadcast(me, arrays.to, segments); },
          .seconds = [=](const CollectivePrices& prices, int ranks,
                         double bytes) { return chain_seconds(prices, ranks, bytes, segments); },
          .segments = segments};
}

/// Ours.
std::vector<CollectiveAlgorithm> algorithms_of(Collective collective, int segments) {
  switch (collective) {
    case Collective::all_reduce: return {};  // ./lab bench all_reduce
    case Collective::reduce_scatter:
      return {{.name = "ring",
               .act = [](Rank me, const Arrays& arrays) { week21::ring_reduce_scatter(me, arrays.from); },
               .seconds = ring_reduce_scatter_seconds}};
    case Collective::all_gather:
      return {{.name = "ring",
               .act = [](Rank me, const Arrays& arrays) { week21::ring_all_gather(me, arrays.to); },
               .seconds = ring_all_gather_seconds}};
    case Collective::broadcast:
      return {{.name = "star",
               .act = [](Rank me, const Arrays& arrays) { week21::broadcast(me, arrays.to, 0); },
               .seconds = star_seconds},
              {.name = "tree",
               .act = [](Rank me, const Arrays& arrays) { tree_broadcast(me, arrays.to); },
               .seconds = tree_seconds},
              chain(segments)};
    case Collective::all_to_all:
      return {{.name = "direct",
               .act = [](Rank me, const Arrays& arrays) { direct_all_to_all(me, arrays.to, arrays.from); },
               .in_place = false,
               .seconds = direct_seconds},
              {.name = "pairwise",
               .act = [](Rank me, const Arrays& arrays) { pairwise_all_to_all(me, arrays.to, arrays.from); },
               .in_place = false,
               .seconds = pairwise_seconds}};
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
  for (const Collective collective : other_collectives()) {
    collectives.emplace_back(name_of(collective));
    for (const CollectiveAlgorithm& algorithm : algorithms_of(collective, 1)) algorithms.push_back(algorithm.name);
  }
  for (const std::string& name : o.collectives)
    if (!wanted(name, collectives)) throw Error(Verdict::usage, unknown_name("collective", name, collectives));
  for (const std::string& name : o.algorithms)
    if (!wanted(name, algorithms)) throw Error(Verdict::usage, unknown_name("algorithm", name, algorithms));
}

/// Returns true if there was something to measure: not every algorithm applies to every collective.
bool add(Bench& bench, const CollectiveOptions& o, int ranks, Collective collective, std::uint64_t size) {
  const std::size_t elements = elements_of(collective, size, ranks);
  const double bytes = 4.0 * static_cast<double>(elements);
  const auto machine = bench.machine_of_links(bench.run_options(ranks));
  const int most = static_cast<int>(std::min<std::size_t>(elements, 1U << 20U));
  const int segments = o.segments > 0    ? std::min(o.segments, most)
                       : shares_memory() ? 1
                                         : best_segments({bench.prices(ranks), machine}, ranks, bytes);
  std::vector<CollectiveAlgorithm> chosen = algorithms_of(collective, segments);
  if (const auto library = library_collective(collective)) chosen.push_back(*library);
  std::erase_if(chosen, [&](const CollectiveAlgorithm& each) { return !wanted(each.name, o.algorithms); });
  if (chosen.empty()) return false;
  const bool has_floor = machine && collective == Collective::all_to_all;
  const double floor = has_floor ? all_to_all_floor_seconds(*machine, ranks, bytes) : 0;
  add_contest(bench, collective, chosen, ranks, elements,
              [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
                row.set("collective", name_of(collective)).set("bytes", static_cast<std::uint64_t>(bytes));
                const double bandwidth = bytes / group[i].seconds.value;
                row.set("algbw_gb_per_s", bandwidth / 1e9);
                row.set("busbw_gb_per_s", bandwidth * bus_factor(name_of(collective), ranks) / 1e9);
                if (i == chosen.size()) return;  // the copy
                if (floor > 0) row.set("floor_seconds", floor);
                if (chosen[i].segments > 0) row.set("segments", chosen[i].segments);
              });
  return true;
}

void add_all(Bench& bench, const CollectiveOptions& o) {
  bool any = false;
  for (const int ranks : bench.ranks()) {
    if (ranks == 1) throw Error(Verdict::usage, "--ranks 1: at least 2 ranks are needed to send anything");
    for (const Collective collective : other_collectives())
      if (wanted(name_of(collective), o.collectives))
        for (const std::uint64_t size : parse_byte_sizes(o.bytes)) any |= add(bench, o, ranks, collective, size);
  }
  if (!any)
    throw Error(Verdict::usage,
                "nothing to measure: none of the given algorithms implements these collectives on this backend");
}

std::vector<NcclTable> nccl_tables(const Bench& bench, const CollectiveOptions& o) {
  std::vector<NcclTable> all;
  for (const int ranks : bench.ranks())
    for (const Collective collective : other_collectives())
      if (wanted(name_of(collective), o.collectives) && collective != Collective::broadcast)
        all.push_back(nccl_table(bench, collective, ranks, parse_byte_sizes(o.bytes)));
  if (all.empty()) throw Error(Verdict::usage, "--columns nccl: there is no prediction of NCCL's broadcast");
  return all;
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
    line.add("--segments", o.segments, "segments of the chain; default 0: the number predicted to be fastest", Whole{});
    line.add("--columns", o.columns, bench::kColumnsHelp);
    line.exclude("--columns", {"--algorithm", "--segments"});
  };
  const auto body = [&](bench::Bench& bench) {
    std::vector<bench::NcclTable> tables;
    bench::check_names(o);
    if (bench::wants_nccl_columns(bench, o.columns)) {
      tables = bench::nccl_tables(bench, o);
      o.algorithms = {"library"};
    }
    if (tables.empty() || bench::has_nccl()) bench::add_all(bench, o);
    bench::run_and_print(bench, tables);
  };
  return bench::bench_main("collectives", "Collectives other than all-reduce: time, bandwidth and prediction.", argc,
                           argv, declare, body);
}
