// Exercise 22.8 in another way: gradients are divided before they are summed, the average across nodes is taken between
// the halves of a ring, and costs are counted rank by rank and message by message.
#include "labs/week22_zero/hsdp.hpp"

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week22 {
namespace {

class NodeFsdp final : public Hsdp {
 public:
  using Hsdp::Hsdp;

 private:
  Ticket reduce(Slice whole, Slice share) override {
    const DType type = options_.precision.reduce;
    return communicate("reduce_scatter", whole.size() * bytes_of(type),
                       [whole, share, type, rail = rail_, across = across_](Rank node) {
                         reduce_inside(node, in_type(node, whole, type), share);
                         if (across && rail.size() > 1) average_across(rail, share);
                       });
  }

  /// Divides before it adds, so that no sum is larger than a gradient.
  static void reduce_inside(Rank node, Slice sums, Slice share) {
    scale(node, sums, 1.0f / static_cast<float>(node.size()));
    week21::ring_reduce_scatter(node, sums);
    add(node, share, in_type(node, chunk(sums, node.rank(), node.size()), share.dtype()));
  }

  /// Each rank of the rail completes a part of the share, and divides only that.
  static void average_across(Rank rail, Slice share) {
    Scope scope = rail.region("all_reduce", share.bytes());
    week21::ring_reduce_scatter(rail, share);
    scale(rail, chunk(share, rail.rank(), rail.size()), 1.0f / static_cast<float>(rail.size()));
    week21::ring_all_gather(rail, share);
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
  const double ring_of_a_rank = (g - 1) / g * bytes, share = bytes / g;
  LevelBytes node;
  for (int rank = 0; rank < shape.ranks_per_node; ++rank) {
    node.inside += m * (ring_of_a_rank + ring_of_a_rank + ring_of_a_rank);
    node.across += (k - 1) / k * share + (k - 1) / k * share;
  }
  return node;
}

double full_sharding_seconds(const Hybrid& shape, const week21::CostModel& across, double bytes) {
  return shape.microbatches *
         (2 * gather_seconds(across, shape.ranks(), bytes) + reduce_scatter_seconds(across, shape.ranks(), bytes));
}

double hybrid_seconds(const Hybrid& shape, const week21::CostModel& inside, const week21::CostModel& across,
                      double bytes) {
  const int g = shape.ranks_per_node;
  const double gather = (g - 1) * (inside.alpha + inside.beta * bytes / g);
  const double additions = (g - 1) * (inside.gamma * bytes / g + inside.launch);
  const double rail =
      gather_seconds(across, shape.nodes, bytes / g) + reduce_scatter_seconds(across, shape.nodes, bytes / g);
  return shape.microbatches * (3 * gather + additions) + rail;
}

}  // namespace lockstep::week22
