#include "labs/trainer/worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/chunk.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/trainer/refusals.hpp"
#include "labs/week23_tensor_parallel/context_layers.hpp"
#include "labs/week23_tensor_parallel/model_shards.hpp"
#include "labs/week23_tensor_parallel/sequence_layers.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::week25 {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

std::size_t up(std::size_t a, int b) { return (a + static_cast<std::size_t>(b) - 1) / static_cast<std::size_t>(b); }

/// The options as the planner's strategy.
Strategy strategy_of(const Options3d& o) {
  return {.dp = o.data_ranks(),
          .tp = o.mesh.tp,
          .pp = o.mesh.pp,
          .schedule = o.schedule,
          .chunks = o.chunks,
          .zero = o.zero,
          .recompute = o.recompute == week22::Recompute::full,
          .sequence_parallel = o.sequence_parallel,
          .selective = o.recompute == week22::Recompute::selective,
          .cp = o.cp};
}

void check_tensor(const Options3d& o) {
  if (o.overlap_scatter && !(o.sequence_parallel && o.overlap))
    refuse("overlap_scatter needs sequence parallelism and overlap: the scatter runs on a queue of its own");
  if (o.mesh.tp == 1) return;
  o.part(0).check();
  const auto shared = static_cast<std::size_t>(std::max(1, o.cp)) * static_cast<std::size_t>(o.mesh.tp);
  if (o.sequence_parallel && o.sequence % shared != 0)
    refuse(fmt::format("sequences of {} tokens do not divide over tp = {}{}, as sequence parallelism requires",
                       o.sequence, o.mesh.tp, o.cp > 1 ? fmt::format(" and cp = {}", o.cp) : ""));
}

void check_context(const Options3d& o) {
  if (o.cp < 1 || o.data_ranks() % o.cp != 0)
    refuse(fmt::format("{} ranks along dp do not divide into groups of {} that share their sequences", o.data_ranks(),
                       o.cp));
}

void check_zero(const Options3d& o) {
  if (o.zero < 0 || o.zero > 3)
    refuse(fmt::format("ZeRO has stages 0 (plain data parallelism), 1, 2 and 3; there is no stage {}", o.zero));
  if (o.overlap_gather && o.zero != 1 && o.zero != 2)
    refuse(
        fmt::format("overlap_gather with ZeRO-{}: only stages 1 and 2 gather new parameters after a step. Stage 0 "
                    "gathers none, and stage 3 gathers them in each pass, ahead of use (prefetch)",
                    o.zero));
  if (o.overlap_gather && !o.overlap) refuse("overlap_gather without overlap: the gather has no queue of its own");
  if (o.shard_group != 0 && o.zero != 3)
    refuse(fmt::format("groups of {} ranks that hold one copy of the state need ZeRO-3, not stage {}", o.shard_group,
                       o.zero));
  if ((o.zero == 1 || o.zero == 2) && o.reduce != o.model.gradients())
    refuse(
        fmt::format("ZeRO-{} sums gradients in the type they are held in, {}", o.zero, to_string(o.model.gradients())));
}

void rebuild_block(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {
  gpt.rebuild_block(me, layer, saved);
}

StageMemory memory_of(week22::Recompute recompute, bool stops_early) {
  using Keep = StageMemory::Keep;
  if (recompute == week22::Recompute::full) return {Keep::inputs, stops_early ? rebuild_block : week22::restore_block};
  if (recompute == week22::Recompute::selective) return {Keep::all_but_probabilities, week22::restore_probabilities};
  return {};
}

/// Returns tensors [first, first + count) of the stage's table as a table of their own.
EngineModel some_tensors(GptStage& stage, std::size_t first, std::size_t count) {
  const Parameters& all = stage.parameters();
  EngineModel model{.storage = stage.config().storage};
  const std::size_t offset = all.list[first].offset;
  for (std::size_t i = first; i < first + count; ++i) {
    model.parameters.list.push_back(all.list[i]);
    model.parameters.list.back().offset -= offset;
  }
  const Parameter& last = model.parameters.list.back();
  const std::size_t size = last.offset + last.size;
  if (!all.values.empty()) model.parameters.values = all.values.cut(offset, size);
  if (!all.gradients.empty()) model.parameters.gradients = all.gradients.cut(offset, size);
  model.usage_order = stage.usage_order();
  for (std::vector<std::size_t>& piece : model.usage_order) {
    std::erase_if(piece, [&](std::size_t i) { return i < first || i >= first + count; });
    for (std::size_t& i : piece) i -= first;
  }
  model.bind = [&stage, first](std::size_t i, Slice value, Slice gradient) {
    stage.bind(first + i, std::move(value), std::move(gradient));
  };
  model.begin = [&stage, first](Rank, std::size_t i, std::size_t element, Slice part) {
    stage.initialise(first + i, element, std::move(part));
  };
  return model;
}

/// Engines of a model with experts: DDP for what every replica has, but 23.7d averages routers and experts.
void make_mixture_engines(Worker& worker, const Options3d& o, Rank alone) {
  GptStage& stage = *worker.stage;
  const std::vector<Parameter>& table = stage.parameters().list;
  const auto first = std::find_if(table.begin(), table.end(),
                                  [](const Parameter& tensor) { return mixture_part(tensor) != MixturePart::none; });
  const auto dense = static_cast<std::size_t>(first - table.begin());
  EngineOptions options = o;
  options.some_alone = true;
  Rank dp = worker.mesh.dp;
  worker.engines.push_back(make_engine(dp, some_tensors(stage, 0, dense), options));
  options.average = [dp, alone, average = o.mixture.average](const Parameters& all) { average(dp, alone, all); };
  worker.engines.push_back(make_engine(dp, some_tensors(stage, dense, table.size() - dense), options));
  StageHooks hooks = worker.engines[0]->hooks();
  if (hooks.ready)
    hooks.ready = [dense, ready = hooks.ready](std::size_t i) {
      if (i < dense) ready(i);
    };
  stage.use(std::move(hooks));
}

void make_engines(Worker& worker, const Options3d& o, const std::optional<week21::Hierarchy>& sharding) {
  GptStage& stage = *worker.stage;
  const std::size_t tensors = stage.tensors().size(), shared = stage.shares_embedding() ? 1 : 0;
  Rank dp = worker.mesh.dp;
  const auto gathers = o.overlap_gather && dp.size() > 1 ? std::make_shared<ForwardGathers>(dp) : nullptr;
  worker.engines.push_back(make_engine(dp, some_tensors(stage, shared, tensors - shared), o, gathers, sharding));
  if (shared) worker.engines.push_back(make_engine(dp, some_tensors(stage, 0, 1), o, gathers));
  if (sharding) worker.mesh.dp = sharding->node;
  StageHooks hooks = worker.engines[0]->hooks();
  if (shared && hooks.ready)
    hooks.ready = [rest = hooks.ready, embedding = worker.engines[1]->hooks().ready](std::size_t i) {
      i == 0 ? embedding(0) : rest(i - 1);
    };
  stage.use(std::move(hooks));
}

}  // namespace

PipelineShape pipeline_shape(const Options3d& o) {
  return week24::shape_of(o.schedule, o.mesh.pp, o.microbatches, o.chunks);
}

std::size_t Options3d::largest_microbatch() const { return up(up(batch, replicas()), microbatches); }

void check(const Options3d& o) {
  o.model.check();
  if (o.data_ranks() < 1 || o.mesh.tp < 1 || o.mesh.pp < 1) refuse("a mesh has at least one rank on each axis");
  if (o.microbatches < 1 || o.sequence < 1 || o.sequence > o.model.context)
    refuse(fmt::format("{} microbatches of sequences of {} tokens, with a context of {}", o.microbatches, o.sequence,
                       o.model.context));
  check_context(o);
  if (o.batch / static_cast<std::size_t>(o.replicas()) < static_cast<std::size_t>(o.microbatches))
    refuse(
        fmt::format("a global batch of {} sequences cannot give each of {} replicas {} microbatches: raise the batch",
                    o.batch, o.replicas(), o.microbatches));
  check_tensor(o);
  check_zero(o);
  week24::schedule_named(o.schedule);
  if (o.chunks < 1) refuse("a stage has at least one chunk");
  const Strategy s = strategy_of(o);
  for (const auto& refusal : {wrong_schedule(s, o.microbatches), wrong_shape(o.model, o.sequence, s),
                              wrong_sharding(o.model, s, o.shard_group)})
    if (refusal) refuse(refusal->sentence + refusal->advice);
  if (o.chunks > 1 && o.mesh.pp == 1)
    refuse("interleaving needs at least two stages: with one stage all chunks are on the same rank");
}

std::vector<std::size_t> stage_pieces(const Options3d& o) {
  const bool recomputed = o.recompute == week22::Recompute::full;
  return week24::partition(gpt_piece_costs(o.model, o.sequence, recomputed), o.mesh.pp * o.chunks);
}

std::vector<Batch> allocate_batches(Rank me, const Options3d& o, int replica) {
  const std::size_t shard = chunk_range(o.batch, replica, o.replicas()).size;
  const std::size_t length = o.sequence / static_cast<std::size_t>(o.cp);
  const Slice tokens = me.allocate(shard * length, DType::i32, Category::buffer);
  const Slice targets = me.allocate(shard * length, DType::i32, Category::buffer);
  std::vector<Batch> batches;
  for (int i = 0; i < o.microbatches; ++i) {
    const ChunkRange part = chunk_range(shard, i, o.microbatches);
    const std::size_t first = part.offset * length, count = part.size * length;
    batches.push_back({tokens.cut(first, count), targets.cut(first, count), part.size, length});
  }
  return batches;
}

std::vector<std::size_t> stage_tensors(const Options3d& o, int stage) {
  return gpt_stage_tensors(o.model, pipeline_shape(o), stage_pieces(o), stage);
}

StageSchedule stage_schedule(const Options3d& o, int stage) {
  return week24::schedule_named(o.schedule).make(pipeline_shape(o), stage);
}

StageSchedule forward_schedule(const PipelineShape& shape) {
  StageSchedule forwards;
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    for (int i = 0; i < shape.microbatches; ++i) forwards.push_back({Work::forward, i, chunk});
  return forwards;
}

GptConfig Options3d::part(int tp, int dp) const {
  GptConfig own = model;
  if (has_experts()) own.expert_rank = dp, own.expert_ranks = mesh.dp;
  own.tensor = {tp, mesh.tp, sequence_parallel && mesh.tp > 1, week23::cut_tensor};
  return own;
}

std::size_t stage_parameters(const Options3d& o, int stage) {
  const std::vector<Parameter> table = gpt_parameter_table(o.part(0));
  std::size_t sum = 0;
  for (const std::size_t index : stage_tensors(o, stage)) sum += table[index].size;
  return sum;
}

/// True if the token embedding is on this stage and on another one: the stages of the model's first and last part.
static bool shares_embedding(const Options3d& o, int stage) {
  const int head = chunk_of_part(pipeline_shape(o), o.mesh.pp * o.chunks - 1).stage;
  return o.model.tied_head && head != 0 && (stage == 0 || stage == head);
}

std::vector<std::size_t> engine_elements(const Options3d& o, int stage) {
  const std::vector<Parameter> model = gpt_parameter_table(o.part(0));
  const std::size_t embeddings = shares_embedding(o, stage) ? 1 : 0;
  std::vector<std::size_t> elements(1 + embeddings + (o.has_experts() ? 1 : 0));
  for (const std::size_t index : stage_tensors(o, stage)) {
    const bool second = index < embeddings || mixture_part(model[index]) != MixturePart::none;
    elements[second ? 1 : 0] += model[index].size;
  }
  return elements;
}

std::vector<checkpoint::Run> whole_runs(const Options3d& o, const Coordinate& here) {
  const GptConfig part = o.part(here.tp, here.dp);
  const std::vector<Parameter> own = gpt_parameter_table(part);
  std::vector<std::size_t> tensors = stage_tensors(o, here.pp);
  if (shares_embedding(o, here.pp))  // its engine is the second
    std::rotate(tensors.begin(), tensors.begin() + 1, tensors.end());
  std::vector<checkpoint::Run> runs;
  std::size_t at = 0;
  for (const std::size_t index : tensors) {
    for (const TensorRun& run : tensor_runs(part, own[index]))
      if (run.serial != TensorRun::kPadding) runs.push_back({index, run.serial, at + run.own, run.size});
    at += own[index].size;
  }
  return runs;
}

std::shared_ptr<const Layers> make_layers(const week23::TensorParallel& tp, const GptConfig& config,
                                          bool overlap_scatter) {
  if (!config.tensor.sequence_parallel) return week23::make_tensor_layers(tp, config.vocabulary);
  if (!overlap_scatter || !tp.overlap) return week23::make_sequence_layers(tp, config.vocabulary);
  return std::make_shared<week23::SequenceLayers>(tp, config.vocabulary, week23::column_backward_behind);
}

DpGroups dp_groups(const Mesh& mesh, const Options3d& o) {
  DpGroups groups;
  if (o.cp > 1) groups.sharers = divide_axis(mesh.dp, o.cp).inside;
  if (o.is_hybrid()) groups.sharding = week21::split_by_node(mesh.dp, o.state_ranks());
  if (o.has_experts()) groups.alone = divide_axis(mesh.dp, mesh.dp.size()).across;
  return groups;
}

Worker make_worker(const Mesh& mesh, const Options3d& o, const DpGroups& groups) {
  Rank me = mesh.world;
  Worker worker{.mesh = mesh,
                .tp = week23::make_tensor_parallel(mesh.tp, mesh.tp.size() > 1 && o.overlap),
                .pipeline = week24::make_pipeline(mesh.pp, pipeline_shape(o)),
                .schedule = {},
                .batches = allocate_batches(me, o, mesh.here.dp / o.cp),
                .stage = nullptr,
                .engines = {},
                .scalars = allocate_step_scalars(me),
                .scaler = {},
                .norms_in_parts = o.sequence_parallel && o.mesh.tp > 1,
                .sharded = (o.zero > 0 || o.has_experts()) && mesh.dp.size() > 1,
                .values_sharded = o.zero == 3 && mesh.dp.size() > 1};
  worker.schedule = stage_schedule(o, mesh.here.pp);
  worker.stage = std::make_unique<GptStage>(mesh.pp, pipeline_shape(o), o.part(mesh.here.tp, mesh.here.dp),
                                            stage_pieces(o), worker.batches, token_factor(o), o.seed,
                                            owned_by_model(o.zero), memory_of(o.recompute, o.stops_early));
  std::shared_ptr<const Layers> layers;
  if (o.mesh.tp > 1) layers = make_layers(worker.tp, worker.stage->config(), o.overlap_scatter);
  if (o.has_experts()) layers = o.mixture.layers(mesh.dp, worker.stage->config());
  if (o.cp > 1) {
    if (!layers) layers = std::make_shared<Layers>();
    layers = std::make_shared<week23::ContextLayers>(groups.sharers.value(), worker.tp, layers);
  }
  if (layers) worker.stage->use(layers);
  worker.scalars.loss = worker.stage->loss();
  if (o.loss_scale) {
    worker.scaler = week22::make_loss_scaler(me, *o.loss_scale, o.loss_scale_interval);
    worker.stage->scale_gradients(worker.scaler->scale);
  }
  if (o.has_experts())
    make_mixture_engines(worker, o, groups.alone.value());
  else
    make_engines(worker, o, groups.sharding);
  if (o.dropout)
    worker.stage->use(o.dropout(
        o, mesh.here, [first = worker.optimizers().front()] { return static_cast<std::uint64_t>(first->steps()); }));
  return worker;
}

void finish_gathers(const Worker& worker) {
  for (const auto& engine : worker.engines) engine->whole_values();  // they are whole only when the gathers have ended
}

float token_factor(const Options3d& o, std::size_t batches) {
  return static_cast<float>(o.data_ranks()) / static_cast<float>(o.batch * o.sequence * batches);
}

}  // namespace lockstep::week25
