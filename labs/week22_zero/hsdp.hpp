// Exercise 22.8: hybrid sharding (HSDP). FSDP inside a node, plain data parallelism across nodes: each node holds the
// whole state once, sharded over its own ranks. Parameters are gathered over the fast links only; over the slow ones
// each rank sends only its share of the gradients.
//
// Follows Zhao et al., "PyTorch FSDP" (arXiv 2304.11277), section 3.2.2, "hybrid sharding"; the same idea is MiCS
// (Zhang et al., arXiv 2205.00119). It combines 21.4's groups with 22.4's units.
//
//   auto hsdp = make_hsdp(split_by_node(dp, 8), model, options, bind);
//   for (each window) {
//     for (each microbatch i) {
//       hsdp->reduce_across(i + 1 == microbatches);
//       forward and backward, as of 22.4
//     }
//     hsdp->step(learning_rate);
//   }
//
// Symbols: k nodes of g ranks, p = k·g; n bytes of all parameters; m microbatches of a window.
#pragma once

#include <utility>

#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {

// Part a: the wrapper -------------------------------------------------------------------------------------------------

/// Given: 22.4's bookkeeping on the ranks of one node (dp_ is groups.node), so shares are chunks of 1/g, and ranks with
/// the same place in their nodes have the same ones. Everything is as fsdp.hpp says, except that averages are over all
/// p ranks, and that their last bits may differ: sums are added in another order than plain DDP's. What it does as 22.4
/// and 22.9 is in solutions/given; a handout has it compiled.
class Hsdp : public FsdpUnits {
 public:
  Hsdp(const week21::Hierarchy& groups, ShardedModel model, FsdpOptions options, BindTensor bind)
      : FsdpUnits(groups.node, std::move(model), options, std::move(bind)),
        rail_(options.prefetch > 0 ? groups.rail.stream("comm") : groups.rail) {}

  /// Sets whether the next backward passes sum across nodes. If not, shares of gradients hold averages over the node
  /// only, to which a later pass adds; the first pass with `yes` makes them averages over all ranks, of every pass of
  /// the window. So a window may cross the network once. All ranks pass the same; true at first. FSDP2:
  /// set_requires_all_reduce.
  void reduce_across(bool yes) { across_ = yes; }

  void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) override;

 protected:
  void gather(std::size_t u) override;  // over the node's ranks
  void release(std::size_t u) override;
  void prefetch(const std::vector<std::size_t>& order) override;

  /// `values` if they have this type; else new memory that holds them in it.
  static Slice in_type(Rank queue, const Slice& values, DType type, Location where = Location::current());

  Rank rail_;  // the ranks with this rank's place in their nodes; on the queue on which units are gathered and reduced
  bool across_ = true;
};

/// Collective over both groups, at set-up. Values are gathered in regions "all_gather" and gradients reduced in regions
/// "reduce_scatter", both over groups.node, as in 22.4; a share is summed over groups.rail in a region "all_reduce"
/// inside that, in the type of the shares (options.precision.keep). With options.prefetch > 0 all of it runs on the
/// queue "comm", unit by unit, while main continues with the backward pass. No memory beyond 22.4's on a node.
std::unique_ptr<Hsdp> make_hsdp(const week21::Hierarchy& groups, ShardedModel model, FsdpOptions options,
                                BindTensor bind);

// Parts b and c: costs ------------------------------------------------------------------------------------------------

/// A model's sharding, and how often it is used between two steps.
struct Hybrid {
  int nodes = 1;           ///< k
  int ranks_per_node = 1;  ///< g
  int microbatches = 1;    ///< m; only the last one crosses nodes

  int ranks() const { return nodes * ranks_per_node; }
};

/// Bytes that all ranks of one node send in a window together, where chunks are equally long.
struct LevelBytes {
  double inside = 0;  ///< to ranks of the same node
  double across = 0;  ///< to other nodes
};

/// Given: of full sharding (22.4 on all p ranks): two gathers and a reduction per microbatch, each a ring over all
/// ranks, in which one rank of each node has its next neighbour in another node (k ≥ 2).
LevelBytes full_sharding_bytes(const Hybrid& shape, double bytes);
/// Part b. The same for hybrid sharding.
LevelBytes hybrid_bytes(const Hybrid& shape, double bytes);

/// Given: seconds that a window communicates under full sharding, if nothing else is done meanwhile: rings at the cost
/// of the slowest link.
double full_sharding_seconds(const Hybrid& shape, const week21::CostModel& across, double bytes);
/// Part c. The same for hybrid sharding: `inside` is the cost of messages between ranks of a node, `across` of those on
/// a rail while all rails send (21.4). Reductions inside take as long as 21.2's first half.
double hybrid_seconds(const Hybrid& shape, const week21::CostModel& inside, const week21::CostModel& across,
                      double bytes);

/// Given: seconds of the halves of 21.2's ring: p − 1 messages of a chunk; and the same with additions.
inline double gather_seconds(const week21::CostModel& cost, int ranks, double bytes) {
  return (ranks - 1) * (cost.alpha + cost.beta * bytes / ranks);
}
inline double reduce_scatter_seconds(const week21::CostModel& cost, int ranks, double bytes) {
  return week21::ring_all_reduce_seconds(cost, ranks, bytes) - gather_seconds(cost, ranks, bytes);
}

}  // namespace lockstep::week22
