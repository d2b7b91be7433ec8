// The collectives: their inputs and outputs, their algorithms, and checks of their results.
//
// p ranks, n bytes of the whole array: each rank's input (reduce-scatter, all-to-all), its output (all-gather), or both
// (all-reduce, broadcast). Chunks are n/p, so p divides the number of elements, except of an all-reduce.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/programs/collective_prices.hpp"
#include "bench/support/measure.hpp"
#include "common/rank.hpp"

namespace lockstep::bench {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all };

/// Returns the collectives except all-reduce, in the order in which they are reported.
const std::vector<Collective>& other_collectives();
const char* name_of(Collective collective);

/// A rank's input and output. In place they overlap: one is a chunk of the other or, for a broadcast, the same.
struct Arrays {
  Slice from;
  Slice to;
};

/// An algorithm, called on every rank of the group; the root is rank 0.
using Act = std::function<void(Rank, const Arrays&)>;

struct CollectiveAlgorithm {
  std::string name;
  Act act;
  bool in_place = true;  // an all-to-all cannot be
  bool counted = true;   // by the ledgers; false for a library's own
  std::function<double(const CollectivePrices&, int ranks, double bytes)> seconds = {};  // empty: no formula
  int segments = 0;                                                                      // of a chain
  bool choosable = false;                // candidate for `auto`: its formula is a straight line in the bytes
  std::function<Act(Rank)> set_up = {};  // for algorithms that need groups first: makes `act`, on every rank
  std::function<Apart(Rank, std::size_t elements, const Plan&)> apart = {};  // runs in its own processes
};

/// Allocates memory for a collective on this rank; `elements` is n / 4.
Arrays allocate_arrays(Rank me, Collective collective, bool in_place, std::size_t elements);

/// Fills the input with values that identify their rank and element, and the output with others.
void upload_inputs(Rank me, Collective collective, const Arrays& arrays);

/// True if `arrays.to` holds exactly the result that the collective's definition requires on this rank.
bool has_result(Rank me, Collective collective, const Arrays& arrays);

/// Prepares a collective for measurement: verified on these inputs, timed on zeros, whose sums stay finite.
Prepared prepare_collective(Rank me, Purpose purpose, Collective collective, const CollectiveAlgorithm& algorithm,
                            std::size_t elements);

}  // namespace lockstep::bench
