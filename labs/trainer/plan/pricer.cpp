#include <algorithm>

#include "common/gpt/model/stage.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/trainer/plan/pieces.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "labs/week24_pipeline/stages.hpp"
#include "labs/week25_3d/step_time.hpp"

namespace lockstep::plan {

using week25::StageWork;
using week25::Strategy;

double shared_beta(const Machine& machine, int level, int apart, int world) {
  double beta = 0;
  for (int l = 0; l <= level; ++l) {
    const LinkLevel& link = machine.levels[static_cast<std::size_t>(l)];
    const int inside = l > 0 ? machine.levels[static_cast<std::size_t>(l - 1)].ranks : world;
    beta = std::max(beta, (link.shared ? std::min(apart, inside) : 1) / link.bytes_per_second);
  }
  return beta;
}

double all_to_all_seconds(const Machine& machine, int ranks, double bytes) {
  if (ranks == 1) return 0;
  const int outer = machine.level_between(0, ranks - 1);
  double slowest = 0;
  for (int level = 0; level <= outer; ++level) {
    const auto l = static_cast<std::size_t>(level);
    const int inside = level > 0 ? machine.levels[l - 1].ranks : 1, port = machine.ranks_per_port(level);
    const double beyond = bytes * (ranks - inside) / ranks * (port == 0 ? ranks : port);
    slowest = std::max(slowest, beyond / machine.levels[l].bytes_per_second);
  }
  return machine.alpha(outer) + slowest;
}

week21::CostModel ring_prices(const Machine& machine, const week25::MeshShape& shape, week25::Axis axis) {
  week21::CostModel cost{0, 0, machine.gamma(), machine.launch};
  const int level = week25::slowest_level(machine, shape, week25::kMegatronOrder, axis);
  if (level < 0) return cost;  // a group of one
  const int apart = axis == week25::Axis::tp ? 1 : axis == week25::Axis::dp ? shape.tp : shape.tp * shape.dp;
  cost.alpha = machine.alpha(level);
  cost.beta = shared_beta(machine, level, apart, shape.ranks());
  return cost;
}

std::vector<int> hop_levels(const Machine& machine, const week25::MeshShape& shape) {
  std::vector<int> levels(static_cast<std::size_t>(shape.pp), 0);
  for (int rank = 0; shape.pp > 1 && rank < shape.ranks(); ++rank) {
    week25::Coordinate at = week25::coordinate_of(shape, week25::kMegatronOrder, rank);
    int& level = levels[static_cast<std::size_t>(at.pp)];
    at.pp = (at.pp + 1) % shape.pp;
    level = std::max(level, machine.level_between(rank, week25::rank_of(shape, week25::kMegatronOrder, at)));
  }
  return levels;
}

const Pieces& Pricer::pieces(const Strategy& strategy) {
  const auto key = std::tuple(strategy.cp, strategy.tp, strategy.microbatch, strategy.sequence_parallel, strategy.ep);
  if (const auto known = pieces_.find(key); known != pieces_.end()) return known->second;
  return pieces_[key] = price_pieces(model_, machine_, length_, strategy, ring(strategy, week25::Axis::tp),
                                     ring_of_neighbours(strategy, strategy.cp), options_);
}

/// The ranks are placed like the replicas of a mesh with no other axis.
week21::CostModel Pricer::ring_of_neighbours(const Strategy& strategy, int ranks) const {
  const int others = strategy.dp / ranks * strategy.pp;
  return ring_prices(machine_, {.dp = ranks, .tp = strategy.tp, .pp = others}, week25::Axis::dp);
}

const std::vector<std::size_t>& Pricer::parts(const Strategy& strategy) {
  const int count = strategy.pp * strategy.chunks;
  std::vector<std::size_t>& first = parts_[{count, strategy.recompute}];
  if (first.empty()) first = week24::partition(gpt_piece_costs(model_, length_, strategy.recompute), count);
  return first;
}

namespace {

/// Seconds of recomputation in a block's backward.
double again_seconds(const Strategy& strategy, const Pieces& pieces) {
  return strategy.recompute ? pieces.rebuilt : strategy.selective ? pieces.probabilities : 0;
}
/// Bytes that a block keeps from a microbatch's forward to its backward.
double kept_bytes(const Strategy& strategy, const Pieces& pieces) {
  if (strategy.recompute) return pieces.boundary_bytes + pieces.kept_bytes;
  return pieces.block_bytes - (strategy.selective ? pieces.probabilities_bytes : 0);
}

/// The stage with the model's last part.
std::size_t head_stage(const Strategy& strategy) {
  return week24::in_a_vee(strategy.schedule) ? 0 : static_cast<std::size_t>(strategy.pp) - 1;
}

/// Adds pieces [begin, end) of the model, one part, to a stage.
ChunkShare add_part(StageWork& stage, const Pieces& pieces, std::size_t begin, std::size_t end, std::size_t layers,
                    const Strategy& strategy) {
  const bool halves = week24::splits_backwards(strategy.schedule);
  const double embeds = begin == 0 ? 1 : 0, has_head = end == layers + 2 ? 1 : 0;
  const double blocks = static_cast<double>(end - begin) - embeds - has_head;
  const auto add = [&](const Cost& cost, double times, double& seconds) {
    seconds += times * cost.seconds;
    stage.tensor += times * cost.waiting;
  };
  add(pieces.embed, embeds, stage.forward);
  add(pieces.block, blocks, stage.forward);
  add(pieces.head, has_head, stage.forward);
  add(pieces.embed_back, embeds, stage.backward);
  stage.backward += has_head > 0 ? 0 : pieces.copy;
  if (halves) {
    stage.weights += blocks * pieces.block_weights + has_head * pieces.head_weights;
    stage.backward += blocks * (pieces.block_inputs + pieces.block_weights);
    stage.backward += has_head * (pieces.head_inputs + pieces.head_weights);
  } else {
    add(pieces.block_back, blocks, stage.backward);
    add(pieces.head_back, has_head, stage.backward);
  }
  stage.recomputed += blocks * again_seconds(strategy, pieces);
  stage.parameters += blocks * pieces.block_parameters + embeds * pieces.embed_parameters;
  stage.parameters += has_head * (pieces.head_parameters - embeds * pieces.tied_parameters);
  stage.late += embeds * pieces.embed_parameters;
  stage.kept_bytes += blocks * kept_bytes(strategy, pieces);
  stage.kept_bytes += has_head * pieces.head_bytes;
  stage.window += std::max(0.0, blocks - 0.5) * (pieces.block_back.seconds + again_seconds(strategy, pieces));
  return {blocks, stage.kept_bytes};
}

/// Adds a part of the model to a stage as its next chunk.
void add_chunk(StageWork& stage, const StageWork& part) {
  stage.chunks.push_back({part.forward, part.backward + part.recomputed, part.weights});
  stage.forward += part.forward, stage.backward += part.backward, stage.weights += part.weights;
  stage.recomputed += part.recomputed, stage.tensor += part.tensor, stage.window += part.window;
  stage.parameters += part.parameters, stage.late += part.late, stage.kept_bytes += part.kept_bytes;
}

/// Bytes of the units that ZeRO-2 and 3 hold whole temporarily: the embedding, and two blocks or their largest layers.
/// Gradients, in fp32 too if that is how they are reduced; with ZeRO-3 also values.
double unit_bytes(const Strategy& strategy, const Pieces& pieces, bool by_layer) {
  if (strategy.zero < 2) return 0;
  const double unit = by_layer ? pieces.largest_parameters : pieces.block_parameters + pieces.expert_parameters;
  return ((strategy.zero - 1) * 2 + (strategy.fp32_gradients ? 4 : 0)) * (pieces.embed_parameters + 2 * unit);
}

}  // namespace

const Pricer::Stages& Pricer::stages(const Strategy& strategy, const Pieces& pieces) {
  const auto key = std::tuple(strategy.cp, strategy.tp, strategy.microbatch, strategy.sequence_parallel, strategy.pp,
                              strategy.chunks,
                              strategy.recompute   ? 2
                              : strategy.selective ? 1
                                                   : 0,
                              week24::splits_backwards(strategy.schedule), strategy.ep);
  if (const auto known = stages_.find(key); known != stages_.end()) return known->second;
  const std::vector<std::size_t>& first = parts(strategy);
  const auto count = static_cast<std::size_t>(strategy.pp);
  const PipelineShape shape = week24::shape_of(strategy.schedule, strategy.pp, 1, strategy.chunks);
  Stages stages{std::vector<StageWork>(count), std::vector<std::vector<ChunkShare>>(count)};
  for (std::size_t k = 0; k + 1 < first.size(); ++k) {
    StageWork part;
    const auto s = static_cast<std::size_t>(chunk_of_part(shape, static_cast<int>(k)).stage);
    stages.chunks[s].push_back(add_part(part, pieces, first[k], first[k + 1], model_.layers, strategy));
    add_chunk(stages.work[s], part);
  }
  for (std::size_t s = 0; s < count; ++s) {
    StageWork& stage = stages.work[s];
    stage.backward += stage.recomputed;
    stage.working_bytes += pieces.scratch_bytes;
    if (s == 0 && count > 1 && head_stage(strategy) == 0)
      stage.parameters -= pieces.tied_parameters;  // one copy serves both uses of a tied embedding
    if (std::any_of(stages.chunks[s].begin(), stages.chunks[s].end(),
                    [](const auto& chunk) { return chunk.blocks > 0; }))
      stage.working_bytes += pieces.block_bytes - kept_bytes(strategy, pieces);  // shared by all blocks
  }
  return stages_[key] = std::move(stages);
}

const week21::CostModel& Pricer::ring(const Strategy& strategy, week25::Axis axis) {
  const auto key = std::tuple(strategy.dp, strategy.tp, strategy.pp, axis);
  const auto known = rings_.find(key);
  if (known != rings_.end()) return known->second;
  return rings_[key] = ring_prices(machine_, {.dp = strategy.dp, .tp = strategy.tp, .pp = strategy.pp}, axis);
}

namespace {

/// Price of a library's gathers and scatters of one block, whole or layer by layer (qkv, projection, up, down, and two
/// norms), additions included, expressed as β alone.
week21::CostModel library_links(const Machine& machine, int ranks, int tp, const Pieces& pieces, bool by_layer) {
  const double bytes = 2 * pieces.block_parameters, p = ranks;
  if (ranks == 1) return {};
  const auto gather = [&](double part) { return library_gather_seconds(machine, ranks, part, tp); };
  double seconds = gather(bytes);
  if (by_layer) {
    seconds = 2 * gather(1);
    for (const double share : pieces.layer_shares) seconds += gather(share * bytes);
  }
  return {.alpha = 0, .beta = seconds / ((p - 1) * bytes / p), .gamma = 0, .launch = 0};
}

/// Seconds of a stage's gather of new values that the next forward hides, as the backward hides sums in 25.6a: not the
/// embedding's.
double hidden_gather(const Strategy& strategy, const week25::Workload& work, const StageWork& stage) {
  const double v = strategy.chunks, forward = stage.backward > 0 ? stage.window * stage.forward / stage.backward : 0;
  return std::min(week25::gather_seconds(strategy, work, stage.parameters - stage.late),
                  forward * (1 + (v - 1) * strategy.pp) / v);
}

}  // namespace

double data_share(const Machine& machine, const Strategy& strategy) {
  if (strategy.dp == 1) return 0;
  return library_share(machine, machine.level_between(0, (strategy.dp - 1) * strategy.tp));
}

week25::Workload Pricer::work(const Strategy& strategy, int microbatches, int holders) {
  using week25::Axis;
  const Pieces& pieces = this->pieces(strategy);
  const Stages& stages = this->stages(strategy, pieces);
  week25::Workload work{.stages = stages.work, .microbatches = microbatches};
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    double& bytes = work.stages[s].working_bytes;
    bytes += unit_bytes(strategy, pieces, options_.by_layer);
    const bool embeds = s == 0 || (s == head_stage(strategy) && pieces.tied_parameters > 0);
    if (strategy.dp > 1)  // a ring's scratch: a chunk of the largest tensor
      bytes += week25::bytes_of_gradient(strategy) * (embeds ? pieces.embed_parameters : pieces.largest_parameters) /
               holders;
    // Boundaries in flight: those sent last, and those received ahead.
    if (strategy.pp > 1) bytes += std::min(3 * microbatches, 6) * pieces.boundary_bytes;
  }
  work.data = machine_.by_library     ? library_links(machine_, holders, strategy.tp, pieces, options_.by_layer)
              : holders < strategy.dp ? ring_of_neighbours(strategy, holders)
                                      : ring(strategy, Axis::dp);
  work.memory_bytes_per_second = machine_.memory_bytes_per_second;
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp})
    if (axis != Axis::dp || strategy.zero >= 1) {
      const int ranks = axis == Axis::dp ? holders : axis == Axis::tp ? strategy.tp : strategy.pp;
      const bool group = axis == Axis::dp && holders < strategy.dp;
      work.norm += week21::ring_all_reduce_seconds(group ? ring_of_neighbours(strategy, holders) : ring(strategy, axis),
                                                   ranks, 4);
    }
  if (strategy.pp > 1) add_hops(strategy, pieces, work);
  if (options_.overlap_gather && strategy.dp > 1 && (strategy.zero == 1 || strategy.zero == 2))
    for (StageWork& stage : work.stages)
      stage.after -= (1 - data_share(machine_, strategy)) * hidden_gather(strategy, work, stage);
  if (week24::splits_backwards(strategy.schedule)) add_halves(strategy, stages.chunks, pieces.later_bytes, work);
  return work;
}

week25::Workload Pricer::experts(const Strategy& strategy, const Strategy& own, const week25::Workload& work) {
  Pieces pieces = this->pieces(strategy);
  const Stages& stages = this->stages(strategy, pieces);
  pieces.block_parameters = pieces.expert_parameters;
  week25::Workload experts = work;
  experts.norm = 0;
  experts.data =
      machine_.by_library ? library_links(machine_, own.dp, own.tp, pieces, false) : ring(own, week25::Axis::dp);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    StageWork& stage = experts.stages[s];
    const double others = stage.parameters - stage.late, v = own.chunks;
    double hidden = week25::scatter_seconds(strategy, work, others);
    if (own.zero == 0 || own.zero == 3) hidden += week25::gather_seconds(strategy, work, others);
    stage.window = std::max(0.0, stage.window - hidden * v / (1 + (v - 1) * own.pp));  // of the last backward
    stage.parameters = stage.late = stage.kept_bytes = stage.working_bytes = stage.after = 0;
    for (const ChunkShare& chunk : stages.chunks[s]) stage.parameters += chunk.blocks * pieces.expert_parameters;
    if (options_.overlap_gather && own.dp > 1 && (own.zero == 1 || own.zero == 2))
      stage.after = -(1 - data_share(machine_, own)) * hidden_gather(own, experts, stage);
  }
  return experts;
}

void Pricer::add_hops(const Strategy& strategy, const Pieces& pieces, week25::Workload& work) {
  const week25::MeshShape shape{.dp = strategy.dp, .tp = strategy.tp, .pp = strategy.pp};
  std::vector<int>& levels = hops_[{shape.dp, shape.tp, shape.pp}];
  if (levels.empty()) levels = hop_levels(machine_, shape);
  const auto beta = [&](int level) { return shared_beta(machine_, level, shape.dp * shape.tp, shape.ranks()); };
  for (std::size_t s = 0; s < levels.size(); ++s) {
    work.stages[s].hop_occupied = pieces.boundary_bytes * beta(levels[s]);
    work.stages[s].hop = machine_.alpha(levels[s]) + work.stages[s].hop_occupied;
  }
  const double tied =
      week25::bytes_of_gradient(strategy) * pieces.tied_parameters / (strategy.zero >= 1 ? strategy.dp : 1);
  if (tied == 0 || head_stage(strategy) == 0) return;
  for (StageWork* stage : {&work.stages.front(), &work.stages.back()}) {  // both exchange its gradient, and add
    stage->working_bytes += tied;
    stage->after = machine_.alpha(levels.back()) + tied * (beta(levels.back()) + machine_.gamma()) + machine_.launch;
  }
}

}  // namespace lockstep::plan
