// Exercise 22.8: hybrid sharding. Read labs/week22_zero/hsdp.hpp first, and fsdp_units.hpp, whose members the class
// below uses.
#include "labs/week22_zero/hsdp.hpp"

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

class NodeFsdp final : public Hsdp {
 public:
  using Hsdp::Hsdp;

 private:
  /// Adds the average of `whole` to this rank's share of it: over the node, or with across_ over all ranks.
  Ticket reduce(Slice whole, Slice share) override {
    const DType type = options_.precision.reduce;
    const auto work = [whole, share, type, rail = rail_, across = across_](Rank node) {
      reduce_inside(node, in_type(node, whole, type), share);
      if (across && rail.size() > 1) average_across(rail, share);
    };
    return communicate("reduce_scatter", whole.size() * bytes_of(type), work);
  }

  /// Adds the node's average of `sums` to the share, as in 22.4b. `sums` are the unit's gradients, of any type.
  static void reduce_inside(Rank node, Slice sums, Slice share) {
    // lab 22.8a begin: the average over the node of the chunk of `sums` that this rank keeps comes to what `share` has
    // (add wants one type: in_type)
    const Slice mine = chunk(sums, node.rank(), node.size());
    week21::ring_reduce_scatter(node, sums);
    scale(node, mine, 1.0f / static_cast<float>(node.size()));
    add(node, share, in_type(node, mine, share.dtype()));
    // lab end
  }

  /// From what each node has in this share to the average over the nodes. Earlier passes may be in it already, averaged
  /// over their node or over all.
  static void average_across(Rank rail, Slice share) {
    Scope scope = rail.region("all_reduce", share.bytes());
    // lab 22.8a begin: the result is right for both kinds of earlier passes if the whole share is summed over the rail
    // and divided by its number of ranks
    week21::ring_all_reduce(rail, share);
    scale(rail, share, 1.0f / static_cast<float>(rail.size()));
    // lab end
  }
};

}  // namespace

std::unique_ptr<Hsdp> make_hsdp(const week21::Hierarchy& groups, ShardedModel model, FsdpOptions options,
                                BindTensor bind) {
  if (options.prefetch < 0) usage_error("a negative number of units to prefetch");
  return std::make_unique<NodeFsdp>(groups, std::move(model), options, std::move(bind));
}

LevelBytes full_sharding_bytes(const Hybrid& shape, double bytes) {
  const double p = shape.ranks(), sent = 3 * shape.microbatches * (p - 1) / p * bytes;
  const double across = shape.nodes > 1 ? 1 : 0;  // ranks of a node that send to another
  return {(shape.ranks_per_node - across) * sent, across * sent};
}

LevelBytes hybrid_bytes(const Hybrid& shape, double bytes) {
  const double k = shape.nodes, g = shape.ranks_per_node, m = shape.microbatches;
  // lab 22.8b begin: a ring over g ranks makes them send (g − 1)·bytes together. How many of these are there inside a
  // node? Across, each of g ranks all-reduces its share among k, once per window
  return {3 * m * (g - 1) * bytes, 2 * (k - 1) / k * bytes};
  // lab end
}

double full_sharding_seconds(const Hybrid& shape, const week21::CostModel& across, double bytes) {
  return shape.microbatches *
         (2 * gather_seconds(across, shape.ranks(), bytes) + reduce_scatter_seconds(across, shape.ranks(), bytes));
}

double hybrid_seconds(const Hybrid& shape, const week21::CostModel& inside, const week21::CostModel& across,
                      double bytes) {
  const int g = shape.ranks_per_node;
  // lab 22.8c begin: the same two gathers and a reduction per microbatch, inside the node; and once per window the
  // all-reduce of a share (21.5) on a rail
  const double microbatch = 2 * gather_seconds(inside, g, bytes) + reduce_scatter_seconds(inside, g, bytes);
  return shape.microbatches * microbatch + week21::ring_all_reduce_seconds(across, shape.nodes, bytes / g);
  // lab end
}

}  // namespace lockstep::week22
