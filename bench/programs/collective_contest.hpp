// Measures algorithms of a collective against each other: for ./lab bench all_reduce and ./lab bench collectives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/programs/collective_kinds.hpp"
#include "bench/support/bench.hpp"
#include "bench/support/nccl_columns.hpp"

namespace lockstep::bench {

/// Adds the algorithms at one size, `elements` in the whole array, and then a plain copy as the baseline: on MPI each
/// rank copies, within its own memory, as many bytes as any algorithm must bring to it; ranks that share a GPU's memory
/// copy the array of an all-reduce. On MPI each row also has its speed relative to the baseline and the libraries.
void add_contest(Bench& bench, Collective collective, const std::vector<CollectiveAlgorithm>& algorithms, int ranks,
                 std::size_t elements, const Bench::Finish& finish);

/// The largest size up to the requested one in elements, of which p divides those of every collective but all-reduce,
/// like nccl-tests. Throws Error(usage) if there is not one for each rank.
std::size_t elements_of(Collective collective, std::uint64_t bytes, int ranks);

/// The times to expect of NCCL; for an all-to-all, which it leaves to sends and receives, the floor.
NcclTable nccl_table(const Bench& bench, Collective collective, int ranks, const std::vector<std::uint64_t>& sizes);

}  // namespace lockstep::bench
