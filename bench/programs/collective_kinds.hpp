// The collectives beside all-reduce: who holds what before and after, which algorithms there are, and what is right.
//
// p ranks, n bytes of the whole array: of what each rank gives (reduce-scatter, all-to-all), gets (all-gather), or both
// (broadcast). Chunks are n/p, so p elements divide n.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/rank.hpp"

namespace lockstep::bench {

enum class Collective { reduce_scatter, all_gather, broadcast, all_to_all };

/// In the order in which they are reported.
const std::vector<Collective>& all_collectives();
const char* name_of(Collective collective);

/// busbw / algbw, as nccl-tests defines it (doc/PERFORMANCE.md): 1 for a broadcast, else (p − 1)/p.
double bus_factor(Collective collective, int ranks);

/// What a rank gives and what it gets; in place they overlap: a chunk of the other, or (broadcast) the same.
struct Arrays {
  Slice from;
  Slice to;
};

/// One way to do it, on every rank of the group; root is rank 0.
using Act = std::function<void(Rank, const Arrays&)>;

struct CollectiveAlgorithm {
  std::string name;
  Act act;
  bool in_place = true;  // an all-to-all never is
  bool counted = true;   // by the ledgers; false for a library's own
};

/// Memory for one on this rank; `elements` is n / 4, and p divides it.
Arrays allocate_arrays(Rank me, Collective collective, bool in_place, std::size_t elements);

/// Fills what this rank gives with values that say whose they are and where they were; what it gets with others.
void upload_inputs(Rank me, Collective collective, const Arrays& arrays);

/// Whether `arrays.to` holds exactly what the collective promises this rank, by definition.
bool has_result(Rank me, Collective collective, const Arrays& arrays);

/// To be measured: verified on these inputs, timed on zeros, of which sums stay finite.
Prepared prepare_collective(Rank me, Purpose purpose, Collective collective, const CollectiveAlgorithm& algorithm,
                            std::size_t elements);

}  // namespace lockstep::bench
