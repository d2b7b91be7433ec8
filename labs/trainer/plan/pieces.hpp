// Costs of a GPT's pieces on one rank: the real layers, forward and backward, in a dry run on a machine. The stages of
// every strategy are composed of them.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/gpt/model/config.hpp"
#include "common/runtime/machine/machine.hpp"
#include "labs/trainer/plan/halves.hpp"
#include "labs/trainer/plan/unfused.hpp"
#include "labs/week25_3d/mesh.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// Seconds of a piece on main's clock. During `waiting` of them nothing is computed: tensor-parallel collectives, and
/// transfers of keys and values between ranks that share sequences, as far as arithmetic does not hide them.
struct Cost {
  double seconds = 0;
  double waiting = 0;
};

/// Costs of one microbatch on one of t ranks, and on one of the ranks that share its sequences.
struct Pieces {
  Cost embed, block, head;                 // forward; the head includes the loss
  Cost embed_back, block_back, head_back;  // backward, both halves
  // The backward's halves, on one rank: gradients of inputs, and gradients of weights, which may be delayed.
  double block_inputs = 0, block_weights = 0, head_inputs = 0, head_weights = 0;
  double copy = 0;           // seconds: copying a boundary's gradient into its place
  double probabilities = 0;  // seconds: recomputing those of materialised attention
  double rebuilt = 0;        // seconds: recomputing a block, or as much as its backward reads
  double embed_parameters = 0, block_parameters = 0, head_parameters = 0, tied_parameters = 0;
  double expert_parameters = 0;          // of a block's own experts, which are not in block_parameters
  double largest_parameters = 0;         // elements of a block's largest tensor
  std::array<double, 4> layer_shares{};  // fraction of a block's matrices: qkv, projection, up, down
  double boundary_bytes = 0;             // one message between stages, and one block's input
  double block_bytes = 0;                // activations that a block keeps for its backward
  double probabilities_bytes = 0;        // the part of them that is probabilities
  double kept_bytes = 0;                 // kept in addition to the input of a block that is recomputed
  double head_bytes = 0;                 // norm, logits and loss
  double scratch_bytes = 0;              // scratch of a backward, once per rank
  double later_bytes = 0;                // kept by a block between the halves of its backward
};

/// Options that affect the prices of pieces and stages in addition to the strategy.
struct PriceOptions {
  bool by_layer = false;         ///< units of ZeRO-2 and 3 are layers instead of blocks
  bool overlap = true;           ///< hide tensor-parallel collectives behind products, like 23.1d and 23.5
  bool overlap_scatter = false;  ///< with sequence parallelism, also hide the scatter of input gradients
  bool overlap_gather = false;   ///< ZeRO-1 and 2: gather new values behind the next forward
  bool stops_early = false;      ///< recomputing a block skips its last product, which its backward does not read
  Unfused unfused;               ///< passes that software makes in addition
  double imbalance = 1;          ///< of experts: the rows of the busiest rank / the average
  bool keeps_products = false;   ///< recomputing a block repeats neither attention nor q, v, gate and the last product
};

/// Bytes that a block's mixture keeps of `rows` tokens for its backward, on the busiest rank: its experts' inputs, up's
/// outputs and down's inputs, and what came back for the rank's own slots.
inline double mixture_bytes(const GptConfig& config, std::size_t rows, double imbalance) {
  const auto c = static_cast<double>(config.d_model), slots = static_cast<double>(config.architecture.top_k * rows);
  const double wide = c + static_cast<double>(config.up_width() + config.mlp_width());
  return slots * (imbalance * wide + c) * static_cast<double>(bytes_of(config.storage));
}
/// Seconds in which each of neighbouring `ranks` sends `bytes`, equally many to each of them, as all other ranks do.
double all_to_all_seconds(const Machine& machine, int ranks, double bytes);

/// Prices a strategy's microbatch of sequences of `tokens` on one rank. Its tensor-parallel group has these `links`,
/// and the ranks that share a sequence those of `round`.
Pieces price_pieces(const GptConfig& model, const Machine& machine, std::size_t tokens,
                    const week25::Strategy& strategy, const week21::CostModel& links, const week21::CostModel& round,
                    const PriceOptions& options);

/// α, β, γ and launch of a ring over each group of an axis, all groups at once, with Megatron's placement of ranks.
/// Takes the slowest link of any ring; ranks of a node that share a port get equal parts of it.
week21::CostModel ring_prices(const Machine& machine, const week25::MeshShape& shape, week25::Axis axis);

/// The outermost level crossed by messages from each stage to the next, and from the last to the first.
std::vector<int> hop_levels(const Machine& machine, const week25::MeshShape& shape);
/// 1 / the bandwidth of a rank through `level` when every rank of a node sends and ranks at distance `apart` send to
/// different nodes: a shared port is divided.
double shared_beta(const Machine& machine, int level, int apart, int world);

/// Fraction of a GPU that a library's collectives along the strategy's dp occupy (library_share).
double data_share(const Machine& machine, const week25::Strategy& strategy);

/// Prices pieces and composes stages; caches the prices.
class Pricer {
 public:
  /// `length`: tokens of a sequence.
  Pricer(const GptConfig& model, const Machine& machine, std::size_t length, const PriceOptions& options = {})
      : model_(model), machine_(machine), length_(length), options_(options) {}

  /// Returns the workload of a valid `strategy` (see why_not). `microbatches`: global batch / (dp × microbatch).
  /// `holders`: number of neighbours on dp that hold one copy of the state. A gather behind the next forward, which
  /// 25.6 does not model, reduces `after` by the time that it hides.
  week25::Workload work(const week25::Strategy& strategy, int microbatches, int holders);
  week25::Workload work(const week25::Strategy& strategy, int microbatches) {
    return work(strategy, microbatches, strategy.dp);
  }
  /// Workload of a mixture's experts alone, for the collectives of those who have the same: dp of `own`, tp apart. What
  /// the others' in `work` leave of the window hides them.
  week25::Workload experts(const week25::Strategy& strategy, const week25::Strategy& own, const week25::Workload& work);

 private:
  const Pieces& pieces(const week25::Strategy& strategy);
  void add_hops(const week25::Strategy& strategy, const Pieces& pieces, week25::Workload& work);
  const std::vector<std::size_t>& parts(const week25::Strategy& strategy);
  /// The parts of stages that do not depend on m and links.
  struct Stages {
    std::vector<week25::StageWork> work;
    std::vector<std::vector<ChunkShare>> chunks;  // by stage
  };
  const Stages& stages(const week25::Strategy& strategy, const Pieces& pieces);
  const week21::CostModel& ring(const week25::Strategy& strategy, week25::Axis axis);
  /// Prices of a ring of `ranks` neighbours on dp.
  week21::CostModel ring_of_neighbours(const week25::Strategy& strategy, int ranks) const;

  GptConfig model_;
  Machine machine_;
  std::size_t length_;
  PriceOptions options_;
  std::map<std::tuple<int, int, int, bool, int>, Pieces> pieces_;   // by cp, tp, microbatch, sequence parallel, ep
  std::map<std::pair<int, bool>, std::vector<std::size_t>> parts_;  // by number of parts and recomputation
  std::map<std::tuple<int, int, int, week25::Axis>, week21::CostModel> rings_;
  std::map<std::tuple<int, int, int>, std::vector<int>> hops_;  // levels, by mesh
  std::map<std::tuple<int, int, int, bool, int, int, int, bool, int>, Stages> stages_;
};

}  // namespace lockstep::plan
