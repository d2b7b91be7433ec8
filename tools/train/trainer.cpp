#include "tools/train/trainer.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "common/runtime/dry_run/dry_run.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week24_pipeline/stages.hpp"
#include "labs/week25_3d/step_3d.hpp"
#include "tools/train/expert_layers.hpp"
#include "tools/train/loader.hpp"

namespace lockstep::train {

namespace {

/// One rank, by the oracle.
class Serial final : public Trainer {
 public:
  Serial(Rank me, const TrainPlan& plan)
      : me_(me),
        plan_(plan),
        gpt_(std::make_unique<Gpt>(me, plan.step.model, plan.step.seed)),
        optimizer_(me, gpt_->parameters(), plan.step.adamw),
        saved_(week22::checkpointed_activations(me, *gpt_, plan.step.largest_microbatch(), plan.step.sequence,
                                                plan.step.recompute)),
        scalars_(allocate_step_scalars(me)),
        batches_(week25::allocate_batches(me, plan.step, 0)) {
    if (plan.step.has_experts()) gpt_->use(plan.step.mixture.layers(me, plan.step.model));
    if (plan.step.dropout)
      gpt_->use(plan.step.dropout(plan.step, {}, [this] { return static_cast<std::uint64_t>(optimizer_.steps()); }));
  }

  ChunkRange shard() const override { return {0, plan_.step.batch}; }
  const std::vector<Batch>& batches() const override { return batches_; }
  void step(float learning_rate, float max_norm) override {
    serial_step(me_, *gpt_, optimizer_, batches_, saved_, scalars_, {learning_rate, max_norm});
  }
  const StepScalars& scalars() const override { return scalars_; }
  float loss_share() const override { return 1; }
  void add_validation_loss(Slice loss, std::size_t batches) override {
    for (const Batch& batch : batches_)
      lockstep::add_validation_loss(me_, *gpt_, batch, saved_, loss, week25::token_factor(plan_.step, batches));
  }
  void add_value_squares(Slice sum) override { add_squares(me_, sum, gpt_->parameters().values); }
  std::vector<Optimizer*> optimizers() override { return {&optimizer_}; }
  std::vector<Held> held() override {
    HeldTensors tensors{.part = plan_.step.model, .table = gpt_->parameters().list, .in_model = {}, .units = {}};
    for (std::size_t i = 0; i < tensors.table.size(); ++i) tensors.in_model.push_back(i);
    return held_by(optimizers(), tensors, me_);
  }
  std::uint64_t bytes_sent() override { return 0; }
  std::unique_ptr<Gpt> model() override {
    saved_ = {};  // its memory is enough for the sample's
    return std::move(gpt_);
  }

 private:
  Rank me_;
  const TrainPlan& plan_;
  std::unique_ptr<Gpt> gpt_;
  Optimizer optimizer_;
  Activations saved_;
  StepScalars scalars_;
  std::vector<Batch> batches_;
};

/// One rank of a mesh.
class Meshed final : public Trainer {
 public:
  Meshed(const week25::Mesh& mesh, const TrainPlan& plan, const week25::DpGroups& groups)
      : me_(mesh.world), plan_(plan), alone_(groups.alone), worker_(make_worker(mesh, o(), groups)) {
    if (plan.run.trace && o().mesh.pp > 1) name_steps();
    if (plan.outer)
      outer_.emplace(worker_.mesh.dp, worker_.engines.at(0)->whole_values(), *plan.outer, week21::ring_all_reduce);
  }

  ChunkRange shard() const override { return chunk_range(o().batch, worker_.mesh.here.dp / o().cp, o().replicas()); }
  week23::ContextShare context() const override { return {worker_.mesh.here.dp % o().cp, o().cp}; }
  const std::vector<Batch>& batches() const override { return worker_.batches; }
  void step(float learning_rate, float max_norm) override {
    week25::accumulate_gradients(worker_);
    if (o().overlap_gather) {
      finish();
      before_gathers_ = bytes_sent();
    }
    week25::update(worker_, learning_rate, max_norm);
    if (outer_) outer_->step_done();
  }
  void end_steps() override {
    if (outer_) outer_->finish();
  }
  const StepScalars& scalars() const override { return worker_.scalars; }
  /// An average over replicas; all ranks of tp have it, and of pp one, the others zero.
  float loss_share() const override { return 1 / static_cast<float>(o().data_ranks() * o().mesh.tp); }
  void add_validation_loss(Slice loss, std::size_t batches) override {
    worker_.stage->only_evaluate(std::move(loss), week25::token_factor(o(), batches));
    week24::run_schedule(worker_.pipeline, week25::forward_schedule(worker_.pipeline.shape), *worker_.stage);
    worker_.stage->only_evaluate({}, 0);
  }
  /// Every parameter once.
  void add_value_squares(Slice sum) override {
    const week25::Mesh& mesh = worker_.mesh;
    Slice own = me_.allocate(1, DType::f32, Category::buffer);
    fill(me_, own, 0);
    const bool experts = worker_.stage->config().expert_ranks > 1;  // which are cut along dp, not tp
    if (experts) {
      for (const week25::Piece& piece : worker_.engines.at(1)->value_pieces())
        if (piece.cut) add_squares(me_, own, piece.elements);
      week21::ring_all_reduce(mesh.dp, own);
    }
    for (std::size_t e = 0; e < worker_.engines.size(); ++e)
      for (const week25::Piece& piece : worker_.engines[e]->value_pieces())
        if ((piece.cut ? !experts : mesh.here.tp == 0) && (e == 0 || mesh.here.pp == 0))
          add_squares(me_, own, piece.elements);
    for (const Rank& axis : {mesh.tp, mesh.pp}) week21::ring_all_reduce(axis, own);
    if (worker_.values_sharded) week21::ring_all_reduce(mesh.dp, own);
    add(me_, sum, own);
  }
  std::vector<Optimizer*> optimizers() override { return worker_.optimizers(); }
  week22::LossScaler* scaler() override { return worker_.scaler ? &*worker_.scaler : nullptr; }
  week21::LocalSgd* outer() override { return outer_ ? &*outer_ : nullptr; }

  std::vector<Held> held() override {
    std::vector<Held> all;
    const std::vector<std::size_t>& own = worker_.stage->tensors();
    for (std::size_t e = 0; e < worker_.engines.size(); ++e) {
      week25::Engine& engine = *worker_.engines[e];
      HeldTensors tensors{.part = worker_.stage->config(), .table = engine.table(), .in_model = {}, .units = {}};
      const bool at_front = o().has_experts() ? e == 0 : e == 1;  // the shared embedding is tensor 0, experts the last
      const std::size_t first = at_front ? 0 : own.size() - tensors.table.size();
      tensors.alone = e == 1 && o().has_experts();
      for (std::size_t i = 0; i < tensors.table.size(); ++i) tensors.in_model.push_back(own[first + i]);
      if (o().zero > 0) tensors.units = engine.units();
      const bool first_copy = worker_.mesh.here.dp < o().state_ranks();
      tensors.writes = first_copy && (e == 0 || worker_.mesh.here.pp == 0);
      if (outer_) return held_by(*engine.optimizers().at(0), *outer_, tensors, worker_.mesh.dp);
      for (Held& held : held_by(engine.optimizers(), tensors, worker_.mesh.dp)) all.push_back(std::move(held));
    }
    return all;
  }

  void restored() override {
    if (o().zero == 0 || o().zero == 3) return;  // else every rank has all values, of which it has read a part
    for (const auto& engine : worker_.engines)
      for (const Unit& unit : engine->units())
        week21::ring_all_gather(worker_.mesh.dp, engine->whole_values().cut(unit.offset, unit.size));
  }

  void finish() override {
    week25::finish_gathers(worker_);
    before_gathers_.reset();
  }
  /// The ledger may not be read while a gather runs.
  std::uint64_t bytes_sent() override { return before_gathers_ ? *before_gathers_ : ledger_of(me_).traffic.bytes_sent; }

  std::unique_ptr<Gpt> model() override {
    std::vector<Slice> own;
    for (const auto& engine : worker_.engines) {
      engine->hold_whole_values();
      own.push_back(engine->whole_values());
    }
    const std::vector<float> values = join(own);
    own.clear();
    outer_.reset();
    worker_ = {};  // its memory is enough for the sample's
    if (me_.rank() != 0) return nullptr;
    auto gpt = std::make_unique<Gpt>(me_, plan_.step.model, plan_.step.seed, Owns::values);
    upload(me_, gpt->parameters().values, values);
    if (o().has_experts()) gpt->use(o().mixture.layers(*alone_, plan_.step.model));
    return gpt;
  }

 private:
  const week25::Options3d& o() const { return plan_.step; }

  /// On rank 0, the serial model's array of which each rank of the first replica has a part, one slice an engine; with
  /// experts, each rank. Elsewhere nothing.
  std::vector<float> join(const std::vector<Slice>& own) {
    if (worker_.mesh.here.dp != 0 && !o().has_experts()) return {};
    if (me_.rank() != 0) {
      for (const Slice& slice : own) me_.exchange({send(0, slice)});
      return {};
    }
    std::vector<float> whole(plan_.step.model.parameters());
    for (int rank = 0; rank < me_.size(); ++rank) {
      const week25::Coordinate at = week25::coordinate_of(o().mesh, o().order, rank);
      if (at.dp == 0 || o().has_experts()) put(rank == 0 ? own : received(rank, at, own.front().dtype()), at, whole);
    }
    return whole;
  }

  std::vector<Slice> received(int rank, const week25::Coordinate& at, DType type) {
    std::vector<Slice> theirs;
    for (const std::size_t size : week25::engine_elements(o(), at.pp)) {
      theirs.push_back(me_.allocate(size, type, Category::buffer));
      me_.exchange({receive(rank, theirs.back())});
    }
    return theirs;
  }

  void put(const std::vector<Slice>& parts, const week25::Coordinate& at, std::vector<float>& whole) {
    std::vector<float> flat;
    for (const Slice& part : parts) {
      const std::vector<float> values = to_host(me_, part);
      flat.insert(flat.end(), values.begin(), values.end());
    }
    const std::vector<Parameter> table = gpt_parameter_table(plan_.step.model);
    for (const checkpoint::Run& run : week25::whole_runs(o(), at))
      std::copy_n(flat.begin() + static_cast<std::ptrdiff_t>(run.at), run.count,
                  whole.begin() + static_cast<std::ptrdiff_t>(table[run.tensor].offset + run.first));
  }

  /// Steps of the schedule become regions of the trace: "F3".
  void name_steps() {
    StageHooks hooks = worker_.stage->hooks();
    hooks.step = [this](const Step& step, bool begins) {
      named_.reset();
      if (!begins) return;
      const auto name = step_names_.try_emplace(step, to_string(step, o().chunks)).first;
      named_.emplace(me_.region(name->second.c_str()));
    };
    worker_.stage->use(std::move(hooks));
  }

  Rank me_;
  const TrainPlan& plan_;
  std::map<Step, std::string> step_names_;  // outlive the recorded events
  std::optional<Scope> named_;              // the step that runs
  std::optional<Rank> alone_;               // with experts: a group of this rank
  week25::Worker worker_;
  std::optional<week21::LocalSgd> outer_;
  std::optional<std::uint64_t> before_gathers_;  // bytes sent, while gathers may run
};

std::unique_ptr<Trainer> make_trainer(const week25::Mesh& mesh, const TrainPlan& plan, const week25::DpGroups& groups) {
  if (plan.serial()) return std::make_unique<Serial>(mesh.world, plan);
  return std::make_unique<Meshed>(mesh, plan, groups);
}

}  // namespace

std::unique_ptr<Trainer> make_trainer(Rank me, const TrainPlan& plan) {
  if (plan.serial()) return std::make_unique<Serial>(me, plan);
  const week25::Mesh mesh = week25::make_mesh(me, plan.step.mesh, plan.step.order);
  return std::make_unique<Meshed>(mesh, plan, dp_groups(mesh, plan.step));
}

Memory dry_run_memory(const TrainPlan& given, int stage) {
  TrainPlan plan = given;
  if (plan.step.has_experts()) plan.step.mixture = even_mixture_code();
  const week25::MeshShape& shape = plan.step.mesh;
  const week25::Coordinate here{.dp = 0, .tp = 0, .pp = stage};
  const int rank = week25::rank_of(shape, plan.step.order, here);
  DryRun dry_run(plan.run.machine, {.ranks = shape.ranks(), .rank = rank});
  Rank me = dry_run.rank();
  const DryRunGroup first_and_last{.ranks = 2, .rank = stage == 0 ? 0 : 1};  // who share a tied embedding
  week25::DpGroups groups;
  if (plan.step.cp > 1) groups.sharers = dry_run.rank({.ranks = plan.step.cp});
  if (plan.step.has_experts()) groups.alone = dry_run.rank({.ranks = 1});
  if (const int g = plan.step.state_ranks(); plan.step.is_hybrid())
    groups.sharding = {dry_run.rank({.ranks = g}), dry_run.rank({.ranks = shape.dp / g})};
  const week25::Mesh mesh{.shape = shape,
                          .order = plan.step.order,
                          .here = here,
                          .world = me,
                          .dp = dry_run.rank({.ranks = shape.dp}),
                          .tp = dry_run.rank({.ranks = shape.tp}),
                          .pp = dry_run.rank({.ranks = shape.pp, .rank = stage}, first_and_last)};
  const std::unique_ptr<Trainer> trainer = make_trainer(mesh, plan, groups);
  std::vector<std::vector<Batch>> loaded;
  for (int i = 0; i < plan.request.load_ahead; ++i) loaded.push_back(allocate_waiting(me, trainer->batches()));
  for (int step = 0; step < std::min(plan.request.steps, 2); ++step)
    trainer->step(0, static_cast<float>(plan.request.clip));
  if (plan.corpus) trainer->add_validation_loss(me.allocate(1, DType::f32, Category::buffer), 1);
  trainer->finish();
  return ledger_of(me).memory;
}

}  // namespace lockstep::train
