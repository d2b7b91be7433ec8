// --columns nccl: the columns of nccl-tests (github.com/NVIDIA/nccl-tests) with the times that a machine file predicts
// for NCCL, for comparing with what all_reduce_perf printed on a cluster. The simulator has nothing to run then; with
// --backend nccl, NCCL's times on this machine are measured and printed next to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/bench.hpp"

namespace lockstep::bench {

/// One of nccl-tests' tables: a collective on one number of ranks.
struct NcclTable {
  std::string collective;  ///< as bus_factor() names it
  int ranks = 0;
  Machine machine;
  bool floor = false;  ///< the times are those of a perfect network, which nothing can beat, and not NCCL's
  struct Line {
    std::uint64_t bytes = 0;  ///< of the whole array, as nccl-tests counts them
    double seconds = 0;
  };
  std::vector<Line> lines = {};
};

/// True if `columns`, the value of --columns, asks for these tables. Throws Error(usage) for another value than "" and
/// nccl, on a backend without NCCL, and where there is no machine to predict with.
bool wants_nccl_columns(const Bench& bench, const std::string& columns);
/// True if NCCL itself can be measured.
bool has_nccl();

/// Runs the benchmark, then prints the tables, if any, with what it measured: its rows of the algorithm `library`. The
/// predictions are rows, too, without `seconds`.
void run_and_print(Bench& bench, const std::vector<NcclTable>& tables);

inline constexpr const char* kColumnsHelp =
    "nccl: the columns of nccl-tests, as predicted for NCCL on --machine; with --backend nccl beside what is measured";

}  // namespace lockstep::bench
