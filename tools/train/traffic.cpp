#include "tools/train/traffic.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "common/support/text/units.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::train {

namespace {

/// Bytes that a ring's rank sends for each byte of the array in a reduce-scatter, or in an all-gather: the mean over
/// its p ranks.
double half(int ranks) { return (ranks - 1.0) / ranks; }

int forwards(const week25::Options3d& o) { return o.recompute == week22::Recompute::full ? 2 : 1; }

bool compresses(const TrainPlan& plan) { return plan.compression.method != week21::Method::ring; }

/// Over which gradients and values are divided, if they are.
int shards_of(const TrainPlan& plan) { return plan.step.zero > 0 ? plan.step.state_ranks() : 1; }

/// A stage's part of the model, and how often its ranks forward a boundary.
struct StageParts {
  double parameters = 0, norms = 0;  // elements
  double blocks = 0;
  bool embeds = false, has_head = false;
  int boundaries = 0;
};
StageParts stage_parts(const TrainPlan& plan, int stage) {
  const week25::Options3d& o = plan.step;
  const PipelineShape shape = week25::pipeline_shape(o);
  const std::vector<std::size_t> first = week25::stage_pieces(o);
  const int last = shape.stages * shape.chunks - 1;
  StageParts parts{.parameters = static_cast<double>(week25::stage_parameters(o, stage))};
  const std::vector<Parameter> table = gpt_parameter_table(o.part(0));
  for (const std::size_t tensor : week25::stage_tensors(o, stage)) {
    const auto size = static_cast<double>(table[tensor].size);
    if (table[tensor].name.find("norm") != std::string::npos) parts.norms += size;
    if (mixture_part(table[tensor]) == MixturePart::expert) parts.parameters -= size;  // no other rank has them
  }
  const auto crosses = [&](int part) {
    return chunk_of_part(shape, part).stage != chunk_of_part(shape, part + 1).stage;
  };
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const int part = part_of(shape, stage, chunk);
    const auto begin = static_cast<std::size_t>(part);
    parts.blocks += static_cast<double>(first[begin + 1] - first[begin]);
    parts.embeds |= part == 0;
    parts.has_head |= part == last;
    if (part < last) parts.boundaries += crosses(part);   // an activation
    if (part > 0) parts.boundaries += crosses(part - 1);  // a gradient
  }
  parts.blocks -= parts.embeds + parts.has_head;
  return parts;
}

/// Rows of tokens that a rank works on in a step.
double rows_of(const TrainPlan& plan) { return static_cast<double>(plan.tokens_per_step()) / plan.step.data_ranks(); }

double element_bytes(const TrainPlan& plan) { return static_cast<double>(bytes_of(plan.step.model.storage)); }
double gradient_bytes(const TrainPlan& plan) { return static_cast<double>(bytes_of(plan.step.model.gradients())); }

/// Bytes that tensor parallelism sends (week 23): N × C elements for each half of a sum. A block has two sums forward,
/// again where it is recomputed, and two backward. With sharded rows each begins with a gather, and backward rows are
/// gathered once more. The embedding and the head do the same. The loss takes two numbers per row and rank.
double tensor_bytes(const TrainPlan& plan, const StageParts& stage) {
  const week25::Options3d& o = plan.step;
  if (o.mesh.tp == 1) return 0;
  const double rows = rows_of(plan), wide = static_cast<double>(o.model.d_model);
  const double cut = o.sequence_parallel ? 1 : 0;
  const double halves = stage.blocks * tensor_halves(o) + (stage.embeds ? 2 : 0) + (stage.has_head ? 2 + cut : 0);
  const double norms = cut * 2 * stage.norms / shards_of(plan);  // both halves of the sum of their gradients
  const double loss = stage.has_head ? rows * 2 * o.mesh.tp * 4 : 0;
  return half(o.mesh.tp) * (halves * rows * wide * element_bytes(plan) + norms * gradient_bytes(plan) + loss);
}

/// Bytes that a stage sends to its neighbours. The first and the last stage also send each other the gradient of the
/// embedding that both have.
double pipeline_bytes(const TrainPlan& plan, const StageParts& stage) {
  const week25::Options3d& o = plan.step;
  const double wide = static_cast<double>(o.model.d_model), cut = o.sequence_parallel ? o.mesh.tp : 1;
  const double boundaries = stage.boundaries * rows_of(plan) * wide / cut;
  const bool shares = o.model.tied_head && stage.embeds != stage.has_head;
  const double embedding = static_cast<double>(o.part(0).own_vocabulary()) * wide;
  return boundaries * element_bytes(plan) + (shares ? embedding / shards_of(plan) : 0) * gradient_bytes(plan);
}

/// Bytes that context parallelism sends (23.6) for each of the stage's blocks and each row of keys and values: p − 1
/// hops forward, and again where blocks are recomputed, as many backward, and p with its gradient.
double context_bytes(const TrainPlan& plan, const StageParts& stage) {
  const week25::Options3d& o = plan.step;
  if (o.cp == 1) return 0;
  const double row = static_cast<double>(o.model.qkv_width() - o.model.d_model) / o.mesh.tp * element_bytes(plan);
  return context_messages(o) * stage.blocks * rows_of(plan) * row;
}

/// Bytes that the ranks of dp send for gradients and values (22.1).
double data_bytes(const TrainPlan& plan, const StageParts& stage) {
  const week25::Options3d& o = plan.step;
  if (compresses(plan)) return plan.compressed_bytes();
  week22::Recipe recipe = week22::recipe_of(o.model.storage);
  recipe.gradient = static_cast<double>(bytes_of(o.reduce));  // what gradients travel in
  const int holders = plan.step.state_ranks(), copies = plan.step.data_ranks() / holders;
  return week22::bytes_sent(stage.parameters, o.zero, holders, o.microbatches, recipe) +
         2 * half(copies) * stage.parameters / holders * element_bytes(plan);
}

/// Outer steps a step, where there are any: one ends the run.
double outer_steps(const TrainPlan& plan, int first_step) {
  const int every = plan.outer->every, steps = plan.request.steps;
  return static_cast<double>(steps / every - first_step / every + (steps % every > 0)) / (steps - first_step);
}

/// Adds numbers that all ranks must know: the norm of the gradients; with a loss scale, whether any has overflowed;
/// with outer steps, after each, whether the run has diverged.
void add_scalars(AxisBytes& bytes, const TrainPlan& plan, int first_step) {
  const week25::Options3d& o = plan.step;
  const auto sum_over = [](int ranks) { return 2 * half(ranks) * 4; };
  const double times = o.loss_scale ? 2 : 1;
  bytes.tensor += times * sum_over(o.mesh.tp);
  bytes.pipeline += times * sum_over(o.mesh.pp);
  bytes.data += ((o.zero > 0 || o.has_experts() ? 1 : 0) + (o.loss_scale ? 1 : 0)) * sum_over(o.state_ranks());
  if (plan.outer) bytes.data += outer_steps(plan, first_step) * sum_over(plan.run.ranks);
}

}  // namespace

/// Before each microbatch's rows their counts, E in each block; and with a balance loss, an all-reduce of as many.
static double count_bytes(const TrainPlan& plan) {
  const week25::Options3d& o = plan.step;
  return half(o.data_ranks()) * static_cast<double>(o.model.layers * o.model.architecture.experts) * 4 *
         o.microbatches * (plan.request.balance_loss > 0 ? 3 : 1);
}

double even_mixture_bytes(const TrainPlan& plan) {
  const GptConfig& model = plan.step.model;
  return half(plan.step.data_ranks()) * rows_of(plan) *
         static_cast<double>(model.layers * model.architecture.top_k * model.d_model) * 4;
}

int data_halves(const week25::Options3d& o) {
  return o.zero < 2 ? 2 : o.zero == 2 ? o.microbatches + 1 : 3 * o.microbatches;
}

int tensor_halves(const week25::Options3d& o) { return 4 * forwards(o) + 4 + (o.sequence_parallel ? 2 : 0); }

int context_messages(const week25::Options3d& o) { return (forwards(o) + 1) * (o.cp - 1) + o.cp; }

AxisBytes predicted_traffic(const TrainPlan& plan, int first_step) {
  AxisBytes bytes;
  if (plan.run.ranks == 1) return bytes;
  add_scalars(bytes, plan, first_step);
  bytes.data += count_bytes(plan);
  if (plan.outer) {  // a whole outer step, as often as there is one
    bytes.data +=
        outer_steps(plan, first_step) * plan.outer->every *
        week21::local_sgd_bytes(*plan.outer, plan.step.data_ranks(), static_cast<double>(plan.own_parameters()));
    return bytes;
  }
  const int stages = plan.step.mesh.pp;
  for (int s = 0; s < stages; ++s) {
    const StageParts stage = stage_parts(plan, s);
    bytes.data += data_bytes(plan, stage) / stages;
    bytes.context += context_bytes(plan, stage) / stages;
    bytes.tensor += tensor_bytes(plan, stage) / stages;
    bytes.pipeline += pipeline_bytes(plan, stage) / stages;
  }
  return bytes;
}

double predicted_bytes(const TrainPlan& plan, int first_step) { return predicted_traffic(plan, first_step).all(); }

std::string traffic_formula(const TrainPlan& plan) {
  if (compresses(plan))
    return fmt::format(
        "{}, where a ring sends {}", plan.request.compress,
        format_bytes(week21::bytes_sent({}, plan.step.data_ranks(), static_cast<double>(plan.own_parameters()))));
  if (plan.outer) return fmt::format("2 × Ψ(p−1)/p parameters, once in {} steps", plan.outer->every);
  std::vector<std::string> parts;
  if (plan.step.cp > 1) parts.emplace_back("keys and values round the ring");
  if (plan.step.mesh.tp > 1) parts.emplace_back("all-reduces of activations");
  if (plan.step.mesh.pp > 1) parts.emplace_back("boundaries of stages");
  const int times = data_halves(plan.step);
  if (const int holders = plan.step.state_ranks(); holders < plan.step.data_ranks()) {
    parts.push_back(fmt::format("{} × Ψ(g−1)/g elements in groups of g = {}, 2 × Ψ/g·(k−1)/k across k = {}", times,
                                holders, plan.step.data_ranks() / holders));
  } else if (plan.step.data_ranks() > 1)
    parts.push_back(parts.empty() ? fmt::format("{} × Ψ(p−1)/p elements", times)
                                  : fmt::format("{} × Ψ(d−1)/d elements of gradients and values", times));
  if (plan.step.has_experts()) parts.emplace_back("4 × the rows that routers sent to other ranks");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace lockstep::train
