// What the pieces of a GPT cost on one rank: the real layers, forward and backward, run dry on a machine. Every
// strategy's stages are made of them.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "common/gpt/model/config.hpp"
#include "common/runtime/machine/machine.hpp"
#include "labs/trainer/plan/halves.hpp"
#include "labs/week25_3d/mesh.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// Seconds of a piece on main's clock; `waiting` of them nobody computes: tensor-parallel sums, and what arithmetic
/// does not hide of keys and values on their way round the ranks that share sequences.
struct Cost {
  double seconds = 0;
  double waiting = 0;
};

/// Of one microbatch on one of t ranks, and on one of those that share its sequences.
struct Pieces {
  Cost embed, block, head;                 // forward; the head with the loss
  Cost embed_back, block_back, head_back;  // backward, whole
  // The same in halves, of one rank alone: gradients of inputs, and those of weights that may come later.
  double block_inputs = 0, block_weights = 0, head_inputs = 0, head_weights = 0;
  double copy = 0;           // seconds: a boundary's gradient into its place
  double probabilities = 0;  // seconds: those of materialised attention once more
  double embed_parameters = 0, block_parameters = 0, head_parameters = 0, tied_parameters = 0;
  double largest_parameters = 0;         // of one tensor of a block
  std::array<double, 4> layer_shares{};  // of a block's matrices: qkv, projection, up, down
  double boundary_bytes = 0;             // one message between stages, and one block's input
  double block_bytes = 0;                // activations of a block for its backward
  double probabilities_bytes = 0;        // of that
  double head_bytes = 0;                 // of norm, logits and loss
  double scratch_bytes = 0;              // of a backward, once a rank
  double later_bytes = 0;                // of a block, from the first half of its backward to the second
};

/// α, β, γ and launch of a ring over each group of an axis, all groups at once, ranks placed as Megatron does: the
/// slowest link of any ring, and where a node's ranks share a port, their part of it.
week21::CostModel ring_prices(const Machine& machine, const week25::MeshShape& shape, week25::Axis axis);

/// From each stage to the next, and from the last one to the first: the outermost level that any of its ranks' messages
/// crosses.
std::vector<int> hop_levels(const Machine& machine, const week25::MeshShape& shape);
/// 1 / the bandwidth that a rank has on its way through `level`, when every rank of a node sends, those `apart` ranks
/// away from it to different nodes: a shared port is divided.
double shared_beta(const Machine& machine, int level, int apart, int world);

/// What the pieces' and stages' prices depend on beside a strategy.
struct PriceOptions {
  bool by_layer = false;         ///< units of ZeRO-2 and 3 are layers, not blocks
  bool overlap = true;           ///< tensor-parallel sums go on behind products, as 23.1d's and 23.5's do
  bool overlap_scatter = false;  ///< and with sequence parallelism the scatter of input gradients too
  bool overlap_gather = false;   ///< ZeRO-1 and 2: new values are gathered behind the next forward
};

/// Of a GPU, what a library's collectives along the strategy's dp hold (library_share).
double data_share(const Machine& machine, const week25::Strategy& strategy);

/// Prices pieces and composes stages, remembering what it has priced.
class Pricer {
 public:
  /// `length`: tokens of a sequence.
  Pricer(const GptConfig& model, const Machine& machine, std::size_t length, const PriceOptions& options = {})
      : model_(model), machine_(machine), length_(length), options_(options) {}

  /// `strategy` is one that can be (see why_not). m = global batch / (dp × microbatch). `holders` neighbours of dp hold
  /// the state once among them. Of a gather behind the next forward, which 25.3 does not know, `after` is less by what
  /// that hides.
  week25::Workload work(const week25::Strategy& strategy, int microbatches, int holders);
  week25::Workload work(const week25::Strategy& strategy, int microbatches) {
    return work(strategy, microbatches, strategy.dp);
  }

 private:
  const Pieces& pieces(const week25::Strategy& strategy);
  void add_hops(const week25::Strategy& strategy, const Pieces& pieces, week25::Workload& work);
  const std::vector<std::size_t>& parts(const week25::Strategy& strategy);
  /// Stages as far as they do not depend on m and links.
  struct Stages {
    std::vector<week25::StageWork> work;
    std::vector<std::vector<ChunkShare>> chunks;  // by stage
  };
  const Stages& stages(const week25::Strategy& strategy, const Pieces& pieces);
  const week21::CostModel& ring(const week25::Strategy& strategy, week25::Axis axis);
  /// Of `ranks` neighbours on dp.
  week21::CostModel ring_of_neighbours(const week25::Strategy& strategy, int ranks) const;

  GptConfig model_;
  Machine machine_;
  std::size_t length_;
  PriceOptions options_;
  std::map<std::tuple<int, int, int, bool>, Pieces> pieces_;        // cp, tp, microbatch, sequence parallel
  std::map<std::pair<int, bool>, std::vector<std::size_t>> parts_;  // by their number and recomputation
  std::map<std::tuple<int, int, int, week25::Axis>, week21::CostModel> rings_;
  std::map<std::tuple<int, int, int>, std::vector<int>> hops_;  // levels, by mesh
  std::map<std::tuple<int, int, int, bool, int, int, int, bool>, Stages> stages_;
};

}  // namespace lockstep::plan
