#include "tools/train/program.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "common/chunk.hpp"
#include "common/model/reshard.hpp"
#include "common/model/serial.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "tools/train/engine.hpp"
#include "tools/train/sample.hpp"

namespace lockstep::train {

namespace {

constexpr std::uint64_t kValidationBatches = 2;
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();  // what a phantom run reads

class Trainer {
 public:
  Trainer(Rank me, const Plan& plan, TrainLog& log, checkpoint::Files& files)
      : me_(me),
        plan_(plan),
        log_(log),
        tp_(week23::make_tensor_parallel(plan.options.tp > 1 ? me.split(me.rank() / plan.options.tp, me.rank()) : me,
                                         plan.options.tp > 1 && !plan.options.no_overlap)),
        dp_(plan.options.tp > 1 ? me.split(me.rank() % plan.options.tp, me.rank()) : me),
        engine_(make_engine(dp_, engine_options(plan, me.rank()))),
        gpt_(shared_layers(engine_->gpt(), plan, tp_)),
        shard_(chunk_range(plan.options.batch, dp_.rank(), dp_.size())),
        saved_(
            week22::checkpointed_activations(me, gpt_, plan.largest_microbatch, plan.options.sequence, plan.recompute)),
        scalars_(allocate_step_scalars(me)) {
    if (plan.loss_scale) scaler_ = week22::make_loss_scaler(me, *plan.loss_scale, plan.options.loss_scale_interval);
    checkpoints_.emplace(me, plan, held(), scaler_ ? &*scaler_ : nullptr, log, files);
    if (!plan.options.resume.empty()) {
      checkpoints_->resume();
      if (plan.options.zero == 1 || plan.options.zero == 2) gather_values();
    }
    first_ = engine_->optimizers().front()->steps();
    if (first_ >= plan.options.steps)
      usage_error(fmt::format("checkpoint {} has {} steps already: ask for more --steps than {}", plan.options.resume,
                              first_, plan.options.steps));
    allocate_batch();
    losses_ = scalars_of(static_cast<std::size_t>(plan.options.steps));
    squares_ = scalars_of(losses_.size());
    scales_ = scalars_of(scaler_ ? losses_.size() : 0);
    validation_ = scalars_of(1);
    if (me.size() == 1) return;
    received_ = me.allocate(me.rank() == 0 ? static_cast<std::size_t>(plan.options.log_every) : 0, DType::f32,
                            Category::buffer);
  }

  Values train() {
    if (judge()) log_.begin(first_);
    began_ = seconds();
    logged_ = first_;
    for (int index = first_; index < plan_.options.steps; ++index) {
      step(index);
      const int done = index + 1;
      const bool last = done == plan_.options.steps;
      if (last || done == first_ + 1 || done % plan_.options.log_every == 0) report(done);
      if (last || done % plan_.options.validate_every == 0) validate(done);
      const int every = plan_.options.checkpoint_every;
      checkpoints_->check();
      if (saves() && (last || (every > 0 && done % every == 0))) checkpoints_->save();
    }
    if (plan_.sample()) sample();
    if (saves()) checkpoints_->finish();
    fill(me_, validation_, 0);
    if (tensor()) {
      add_model_squares(tp_.group, validation_, gpt_.parameters(), gpt_.parameters().values, week21::ring_all_reduce);
      return {read(me_, validation_, 0)};
    }
    for (const Slice& values : engine_->value_shares()) add_squares(me_, validation_, values);
    if (plan_.options.zero == 3) week21::ring_all_reduce(me_, validation_);
    return {read(me_, validation_, 0)};
  }

 private:
  bool judge() const { return me_.rank() == 0; }
  bool sharded() const { return plan_.options.zero > 0; }
  bool tensor() const { return plan_.options.tp > 1; }
  bool saves() const { return !plan_.options.checkpoint.empty(); }

  static Gpt& shared_layers(Gpt& gpt, const Plan& plan, const week23::TensorParallel& tp) {
    if (plan.options.tp > 1)
      gpt.use(plan.options.sequence_parallel ? week23::make_sequence_layers(tp, plan.model.vocabulary)
                                             : week23::make_tensor_layers(tp, plan.model.vocabulary));
    return gpt;
  }

  static EngineOptions engine_options(const Plan& plan, int rank) {
    return {.model = plan.own_model(rank),
            .stage = plan.options.zero,
            .seed = plan.options.seed,
            .adamw = {.weight_decay = static_cast<float>(plan.options.weight_decay)},
            .bucket_bytes = plan.bucket_bytes,
            .wrapping = plan.wrapping,
            .overlap = !plan.options.no_overlap,
            .prefetch = plan.options.prefetch,
            .reduce = plan.precision.reduce};
  }

  std::vector<Held> held() {
    HeldTensors tensors{.part = gpt_.config(), .table = gpt_.parameters().list, .in_model = {}, .units = {}};
    for (std::size_t i = 0; i < tensors.table.size(); ++i) tensors.in_model.push_back(i);
    if (sharded()) tensors.units = engine_->units();
    return held_by(engine_->optimizers(), tensors, dp_);
  }

  /// On the judge, the serial model's array of which each rank of its replica has a part; elsewhere nothing.
  std::vector<float> join(const Slice& own) {
    if (dp_.rank() != 0) return {};
    Rank group = tp_.group;
    if (group.rank() != 0) {
      group.exchange({send(0, own)});
      return {};
    }
    std::vector<float> whole(plan_.model.parameters());
    GptConfig part = gpt_.config();
    Slice theirs = me_.allocate(own.size(), own.dtype(), Category::buffer);
    for (int rank = 0; rank < group.size(); ++rank) {
      if (rank > 0) group.exchange({receive(rank, theirs)});
      part.tensor.rank = rank;
      join_values(part, to_host(me_, rank > 0 ? theirs : own), whole);
    }
    return whole;
  }

  /// After this rank's shares were read from files.
  void gather_values() {
    for (const Unit& unit : engine_->units())
      week21::ring_all_gather(me_, engine_->whole_values().cut(unit.offset, unit.size));
  }

  Slice scalars_of(std::size_t count) {
    Slice values = me_.allocate(count, DType::f32, Category::buffer);
    if (count > 0) fill(me_, values, 0);
    return values;
  }

  double seconds() const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
    return log_.virtual_time() ? me_.now() : wall.count();
  }

  void allocate_batch() {
    const std::size_t length = plan_.options.sequence;
    tokens_ = me_.allocate(shard_.size * length, DType::i32, Category::buffer);
    targets_ = me_.allocate(shard_.size * length, DType::i32, Category::buffer);
    const int count = static_cast<int>(plan_.options.accumulate);
    for (int i = 0; i < count; ++i) {
      const ChunkRange part = chunk_range(shard_.size, i, count);
      microbatches_.push_back({tokens_.cut(part.offset * length, part.size * length),
                               targets_.cut(part.offset * length, part.size * length), part.size, length});
    }
  }

  /// This rank's rows of a global batch.
  void upload_batch(const TextBatch& batch) {
    const TextBatch mine = batch.rows(shard_.offset, shard_.size);
    upload(me_, tokens_, mine.inputs);
    upload(me_, targets_, mine.targets);
  }
  void upload_nothing() {
    const std::vector<std::int32_t> zeros(tokens_.size());
    upload(me_, tokens_, zeros);
    upload(me_, targets_, zeros);
  }

  void step(int index) {
    auto phase = me_.region("step");
    if (plan_.corpus)
      upload_batch(plan_.corpus->batch(static_cast<std::uint64_t>(index), plan_.options.batch, plan_.options.sequence,
                                       plan_.options.seed));
    else
      upload_nothing();
    scalars_.loss = losses_.cut(static_cast<std::size_t>(index), 1);
    scalars_.squares = squares_.cut(static_cast<std::size_t>(index), 1);
    const StepOptions options{learning_rate(index, plan_.options), static_cast<float>(plan_.options.clip)};
    if (me_.size() == 1 && !sharded() && !scaler_)
      return serial_step(me_, gpt_, *engine_->optimizers().front(), microbatches_, saved_, scalars_, options);
    const Slice scale = scaler_ ? scaler_->scale : Slice{};
    if (scaler_) copy(me_, scales_.cut(static_cast<std::size_t>(index), 1), scale);
    engine_->window(static_cast<int>(microbatches_.size()), [&](int i, const Engine::Hooks& hooks) {
      run_pass(me_, gpt_, microbatches_[static_cast<std::size_t>(i)], saved_, scalars_.loss, token_factor(1), hooks,
               scale);
    });
    if (sharded())
      finish_sharded(options);
    else if (scaler_)
      week22::scaled_step(me_, gpt_, *engine_->optimizers().front(), *scaler_, scalars_, options, std::span(&me_, 1),
                          week21::ring_all_reduce);
    else if (tensor())
      finish_shared(options);
    else
      finish_step(me_, gpt_, *engine_->optimizers().front(), scalars_, options);
  }

  /// finish_step for a model that ranks share: the norm of its gradient counts every parameter once.
  void finish_shared(const StepOptions& options) {
    if (plan_.options.sequence_parallel) week23::sum_norm_gradients(tp_, gpt_);
    Slice factor;
    if (options.max_norm > 0) {
      fill(me_, scalars_.squares, 0);
      add_model_squares(tp_.group, scalars_.squares, gpt_.parameters(), gpt_.parameters().gradients,
                        week21::ring_all_reduce);
      clip_factor(me_, scalars_.factor, scalars_.squares, options.max_norm);
      factor = scalars_.factor;
    }
    engine_->step(options.learning_rate, factor);
  }

  /// From shares of averaged gradients to the next step: what finish_step, or scaled_step, is for whole ones.
  void finish_sharded(const StepOptions& options) {
    Slice factor, skip, skipped;
    if (scaler_)
      week22::find_overflow_everywhere(me_, *scaler_, engine_->gradient_shares(), std::span(&me_, 1),
                                       week21::ring_all_reduce);
    if (scaler_ || options.max_norm > 0) {
      engine_->clip(scalars_.factor, scalars_.squares, options.max_norm);
      factor = scalars_.factor;
    }
    if (scaler_) {
      week22::unscale(me_, *scaler_, scalars_.factor, scalars_.squares, options.max_norm);
      skip = scaler_->overflow;
      skipped = scaler_->skipped;
    }
    engine_->step(options.learning_rate, factor, skip, skipped);
    if (scaler_) week22::update_scale(me_, *scaler_);
  }

  /// What each token's loss counts, so that the average over ranks is the mean over `batches` global batches.
  float token_factor(std::uint64_t batches) const {
    return static_cast<float>(dp_.size()) / static_cast<float>(plan_.tokens_per_step() * batches);
  }

  /// On rank 0, values becomes its average over the ranks.
  void average_at_judge(const Slice& values) {
    auto phase = me_.region("log");
    if (!judge()) return me_.exchange({send(0, values)});
    for (int peer = 1; peer < me_.size(); ++peer) {
      const Slice theirs = received_.cut(0, values.size());
      me_.exchange({receive(peer, theirs)});
      add(me_, values, theirs);
    }
    scale(me_, values, 1.0f / static_cast<float>(me_.size()));
  }

  void report(int done) {
    const auto first = static_cast<std::size_t>(logged_), count = static_cast<std::size_t>(done - logged_);
    const RankLedger ledger = judge() ? ledger_of(me_) : RankLedger{};
    const double now = seconds();
    average_at_judge(losses_.cut(first, count));
    logged_ = done;
    if (!judge()) return;
    std::vector<StepRecord> records;
    for (std::size_t i = first; i < first + count; ++i) {
      StepRecord& record = records.emplace_back();
      record.step = static_cast<int>(i) + 1;
      record.learning_rate = learning_rate(static_cast<int>(i), plan_.options);
      record.loss = read(me_, losses_.cut(i, 1), kUnknown);
      record.gradient_norm = plan_.options.clip > 0 ? std::sqrt(read(me_, squares_.cut(i, 1), kUnknown)) : kUnknown;
      if (scaler_) record.loss_scale = read(me_, scales_.cut(i, 1), kUnknown);
    }
    log_.steps(std::move(records), ledger, now - began_ - elsewhere_);
    if (scaler_) log_.skipped(static_cast<int>(read(me_, scaler_->skipped, 0)));
  }

  void validate(int done) {
    if (!plan_.corpus) return;
    auto phase = me_.region("validation");
    const double begin = seconds();
    fill(me_, validation_, 0);
    for (std::uint64_t i = 0; i < kValidationBatches; ++i) {
      upload_batch(plan_.corpus->validation_batch(i, plan_.options.batch, plan_.options.sequence));
      for (const Batch& batch : microbatches_) add_validation_loss(batch);
    }
    average_at_judge(validation_);
    if (judge()) log_.validation(done, read(me_, validation_, kUnknown));
    elsewhere_ += seconds() - begin;
  }

  void add_validation_loss(const Batch& batch) {
    const Engine::Hooks hooks = engine_->forward_hooks();
    Activations part = gpt_.first_sequences(saved_, batch.sequences);
    gpt_.forward(me_, batch, part, hooks.before_forward);
    if (hooks.end_forward) hooks.end_forward();
    gpt_.layers().validation_loss(me_, validation_, part.logits, batch.targets, token_factor(kValidationBatches));
  }

  void sample() {
    if (!tensor()) {
      engine_->hold_whole_values();
      if (judge()) write_sample(gpt_);
      return;
    }
    const std::vector<float> values = join(engine_->optimizers().front()->master());
    if (!judge()) return;
    Gpt whole(me_, plan_.model, plan_.options.seed, Owns::values);
    upload(me_, whole.parameters().values, values);
    write_sample(whole);
  }

  void write_sample(const Gpt& gpt) {
    const std::string& prompt = plan_.options.prompt;
    const SampleOptions options{.tokens = plan_.options.sample,
                                .prompt = prompt.empty() ? std::string(1, '\n') : prompt,
                                .seed = plan_.options.seed};
    saved_ = {};  // its memory is enough for the sample's
    const std::string text = sample_text(me_, gpt, *plan_.corpus, plan_.options.sequence, options);
    log_.note(fmt::format("sample    of {} tokens:\n{}\n", options.tokens, text));
  }

  Rank me_;
  const Plan& plan_;
  TrainLog& log_;
  week23::TensorParallel tp_;  // the ranks of this replica
  Rank dp_;                    // the ranks that hold the same part
  std::unique_ptr<Engine> engine_;
  Gpt& gpt_;
  ChunkRange shard_;  // sequences of the global batch
  Activations saved_;
  StepScalars scalars_;
  std::optional<week22::LossScaler> scaler_;  // of fp16
  std::optional<Checkpoints> checkpoints_;
  Slice tokens_, targets_;           // of this rank's shard
  std::vector<Batch> microbatches_;  // cuts of them
  Slice losses_, squares_, scales_;  // one f32 a step: this rank's loss, the squared gradient norm, the loss scale
  Slice received_;                   // rank 0: losses of a peer
  Slice validation_;                 // one f32
  int first_ = 0;                    // steps done before this run
  int logged_ = 0;                   // steps reported
  double began_ = 0;
  double elsewhere_ = 0;  // seconds that were not training
};

}  // namespace

Values train_rank(Rank me, const Plan& plan, TrainLog& log, checkpoint::Files& files) {
  return Trainer(me, plan, log, files).train();
}

}  // namespace lockstep::train
