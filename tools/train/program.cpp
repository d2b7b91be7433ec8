#include "tools/train/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "tools/train/choices.hpp"
#include "tools/train/loader.hpp"
#include "tools/train/sample.hpp"
#include "tools/train/trainer.hpp"

namespace lockstep::train {

namespace {

constexpr std::uint64_t kValidationBatches = 2;
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();  // what a phantom run reads

class TrainingLoop {
 public:
  TrainingLoop(Rank me, const TrainPlan& plan, TrainLog& log, checkpoint::Files& files, StopSignals& signals)
      : me_(me),
        plan_(plan),
        log_(log),
        signals_(signals),
        trainer_(make_trainer(me, plan)),
        checkpoints_(me, plan, trainer_->held(), {trainer_->scaler(), trainer_->outer()}, log, files) {
    const bool resumed = !plan.request.resume.empty() && resume();
    if (!resumed && !plan.initial.empty()) {
      checkpoints_.begin_with(plan.initial);
      if (judge()) log_.note(fmt::format("begins    with the weights of {}", plan.request.init));
    }
    if (resumed || !plan.initial.empty()) trainer_->restored();
    first_ = trainer_->optimizers().front()->steps();
    if (first_ > plan.request.steps)
      throw Error(Verdict::usage, fmt::format("checkpoint {} already has {} steps: use --steps with more than {}",
                                              plan.request.resume, first_, plan.request.steps));
    loader_.emplace(me, plan, *trainer_);
    losses_ = scalars_of(static_cast<std::size_t>(plan.request.steps));
    squares_ = scalars_of(losses_.size());
    scales_ = scalars_of(trainer_->scaler() ? losses_.size() : 0);
    validation_ = scalars_of(1);
    if (me.size() == 1) return;
    received_ =
        me.allocate(me.rank() == 0 ? static_cast<std::size_t>(plan.log_every) : 0, DType::f32, Category::buffer);
  }

  Values train() {
    if (first_ == plan_.request.steps) {
      if (judge()) log_.nothing_to_do();
      return {};
    }
    before_steps_ = sent_by_steps();  // set-up, and what a resumed run has read
    if (judge()) log_.begin(first_, before_steps_);
    began_ = seconds();
    logged_ = first_;
    for (int index = first_; index < plan_.request.steps; ++index) {
      step(index);
      const int done = index + 1;
      if (done == plan_.request.steps) trainer_->end_steps();
      if (has_diverged(index)) return end_diverged(done);
      const bool last = done == plan_.request.steps, stops = !last && is_stopped(done);
      if (last || stops || done == first_ + 1 || done % plan_.log_every == 0) report(done);
      if (last || done % plan_.validate_every == 0) validate(done);
      const int every = plan_.request.checkpoint_every;
      checkpoints_.check();
      if (saves() && (last || stops || (every > 0 && done % every == 0))) elsewhere([&] { checkpoints_.save(); });
      if (stops) return end_stopped(done);
    }
    if (saves()) checkpoints_.finish();
    signals_.leave();
    fill(me_, validation_, 0);
    trainer_->add_value_squares(validation_);
    const Values results{read(me_, validation_, 0), static_cast<double>(sent_in_steps_)};
    if (plan_.sample()) sample();
    return results;
  }

 private:
  /// False if there is no checkpoint to resume from yet.
  bool resume() {
    const bool resumed = checkpoints_.resume();
    if (judge() && !resumed)
      log_.note(fmt::format("begins    from step 0: {} holds no checkpoint yet", plan_.request.resume));
    if (resumed && judge() && keeps_errors(plan_.compression))
      log_.note("resumed   checkpoints do not keep what --compress had not sent: error feedback restarts from zero");
    return resumed;
  }

  bool judge() const { return me_.rank() == 0; }
  bool saves() const { return !plan_.checkpoint.empty(); }

  Slice scalars_of(std::size_t count) {
    Slice values = me_.allocate(count, DType::f32, Category::buffer);
    if (count > 0) fill(me_, values, 0);
    return values;
  }

  double seconds() const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
    return log_.virtual_time() ? me_.now() : wall.count();
  }

  void step(int index) {
    auto phase = me_.region("step");
    const auto at = static_cast<std::size_t>(index);
    const double begin = seconds();
    loader_->bring(at);
    loading_.push_back(seconds() - begin);
    if (trainer_->scaler()) copy(me_, scales_.cut(at, 1), trainer_->scaler()->scale);
    trainer_->step(optimizer_rate(index, plan_.request), static_cast<float>(plan_.request.clip));
    copy(me_, losses_.cut(at, 1), trainer_->scalars().loss);
    copy(me_, squares_.cut(at, 1), trainer_->scalars().squares);
  }

  /// The same on every rank, since the squared norm and the loss scale are; a single rank has the loss too. A step that
  /// a loss scale has skipped left no trace; a scale that went on falling means that all of them overflow.
  bool has_diverged(int index) {
    if (plan_.request.phantom) return false;
    const auto at = static_cast<std::size_t>(index);
    if (trainer_->scaler()) return read(me_, trainer_->scaler()->scale, 1) < kLeastLossScale;
    if (plan_.outer) {
      if (trainer_->outer()->local_steps() > 0) return false;
      return !std::isfinite(sum_of_all(squares_.cut(at, 1)));
    }
    const bool has_squares = !plan_.serial() || plan_.request.clip > 0;
    if (has_squares && !std::isfinite(read(me_, squares_.cut(at, 1), 0))) return true;
    return me_.size() == 1 && !std::isfinite(read(me_, losses_.cut(at, 1), 0));
  }

  /// Over the ranks, whose gradients are their own between two outer steps: they must end together.
  float sum_of_all(const Slice& value) {
    Slice sum = scalars_of(1);
    copy(me_, sum, value);
    week21::ring_all_reduce(me_, sum);
    return read(me_, sum, 0);
  }

  Values end_diverged(int done) {
    trainer_->finish();
    loader_->finish();
    report(done);
    if (saves()) checkpoints_.finish();
    if (judge()) log_.diverged(saves() ? checkpoints_.last() : "");
    return {};
  }

  /// True if a signal came to any rank, so that all end after this step. Ranks in processes of their own ask each other
  /// every tenth of a second.
  bool is_stopped(int done) {
    if (!saves()) return false;
    const std::string_view backend = backend_name();
    if (me_.size() == 1 || backend == "sim" || backend == "cuda") return signals_.end_after(done);
    auto phase = me_.region("checkpoint");
    if (ask_every_ == 0) {
      const double steps = 0.1 * (done - first_) / (seconds() - began_);
      elsewhere([&] { ask_every_ = checkpoints_.from_judge(static_cast<int>(std::clamp(steps, 1.0, 1000.0))); });
    }
    bool stopped = false;
    if ((done - first_) % ask_every_ == 0) elsewhere([&] { stopped = checkpoints_.anybody(signals_.received() != 0); });
    return stopped;
  }

  Values end_stopped(int done) {
    trainer_->finish();
    loader_->finish();
    checkpoints_.finish();
    if (judge()) log_.stopped(done, signals_.received());
    return {};
  }

  /// On rank 0, values becomes what the ranks' losses come to together.
  void join_losses_at_judge(const Slice& values) {
    auto phase = me_.region("log");
    if (!judge()) return me_.exchange({send(0, values)});
    for (int peer = 1; peer < me_.size(); ++peer) {
      const Slice theirs = received_.cut(0, values.size());
      me_.exchange({receive(peer, theirs)});
      add(me_, values, theirs);
    }
    scale(me_, values, trainer_->loss_share());
  }

  void report(int done) {
    const auto first = static_cast<std::size_t>(logged_), count = static_cast<std::size_t>(done - logged_);
    const double now = seconds();
    if (done == plan_.request.steps) {  // no forward follows that hides the last gather
      trainer_->finish();
      sent_in_steps_ = sent_by_steps() - before_steps_;
    }
    RankLedger ledger = judge() ? ledger_of(me_) : RankLedger{};
    ledger.traffic.bytes_sent = judge() ? sent_by_steps() : 0;
    join_losses_at_judge(losses_.cut(first, count));
    if (!judge()) sent_elsewhere_ += count * sizeof(float);
    logged_ = done;
    if (!judge()) return;
    std::vector<StepRecord> records;
    for (std::size_t i = first; i < first + count; ++i) {
      StepRecord& record = records.emplace_back();
      record.step = static_cast<int>(i) + 1;
      record.learning_rate = learning_rate(static_cast<int>(i), plan_.request);
      record.loading_seconds = loading_[i - static_cast<std::size_t>(first_)];
      record.loaded_bytes = static_cast<double>(loader_->bytes());
      record.loss = read(me_, losses_.cut(i, 1), kUnknown);
      record.gradient_norm = plan_.request.clip > 0 ? std::sqrt(read(me_, squares_.cut(i, 1), kUnknown)) : kUnknown;
      if (trainer_->scaler()) record.loss_scale = read(me_, scales_.cut(i, 1), kUnknown);
    }
    log_.steps(std::move(records), ledger, now - began_ - elsewhere_);
    if (trainer_->scaler()) log_.skipped(static_cast<int>(read(me_, trainer_->scaler()->skipped, 0)));
  }

  std::uint64_t sent_by_steps() { return trainer_->bytes_sent() - sent_elsewhere_; }

  /// Calls `f`, whose bytes sent do not count for steps.
  void elsewhere(const std::function<void()>& f) {
    trainer_->finish();
    const std::uint64_t before = trainer_->bytes_sent();
    f();
    sent_elsewhere_ += trainer_->bytes_sent() - before;
  }

  void validate(int done) {
    if (!plan_.corpus) return;
    const double begin = seconds();
    elsewhere([&] { add_validation(done); });
    elsewhere_ += seconds() - begin;
  }

  void add_validation(int done) {
    auto phase = me_.region("validation");
    fill(me_, validation_, 0);
    for (std::uint64_t i = 0; i < kValidationBatches; ++i) {
      const ChunkRange shard = trainer_->shard();
      const TextBatch text =
          plan_.corpus->validation_batch(i, plan_.step.batch, plan_.step.sequence).rows(shard.offset, shard.size);
      upload_text(me_, trainer_->batches(), trainer_->context(), &text);
      trainer_->add_validation_loss(validation_, kValidationBatches);
    }
    join_losses_at_judge(validation_);
    if (judge()) log_.validation(done, read(me_, validation_, kUnknown));
  }

  void sample() {
    auto phase = me_.region("sample");
    const std::unique_ptr<Gpt> gpt = trainer_->model();
    if (!judge()) return;
    const std::string& prompt = plan_.request.prompt;
    const SampleOptions options{.tokens = plan_.request.sample,
                                .prompt = prompt.empty() ? std::string(1, '\n') : prompt,
                                .seed = plan_.step.seed};
    const std::string text = sample_text(me_, *gpt, *plan_.corpus, plan_.step.sequence, options);
    log_.note(fmt::format("sample    of {} tokens:\n{}\n", options.tokens, printable(text)));
  }

  Rank me_;
  const TrainPlan& plan_;
  TrainLog& log_;
  StopSignals& signals_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<Loader> loader_;
  Checkpoints checkpoints_;
  Slice losses_, squares_, scales_;  // one f32 a step: this rank's loss, the squared gradient norm, the loss scale
  Slice received_;                   // rank 0: losses of a peer
  Slice validation_;                 // one f32
  int first_ = 0;                    // steps done before this run
  int logged_ = 0;                   // steps reported
  int ask_every_ = 0;                // steps between two questions whether to stop; 0: not known yet
  std::vector<double> loading_;      // seconds of each step of this run, on its clock
  double began_ = 0;
  double elsewhere_ = 0;                                                     // seconds that were not training
  std::uint64_t before_steps_ = 0, sent_in_steps_ = 0, sent_elsewhere_ = 0;  // bytes, by this rank
};

}  // namespace

Values train_rank(Rank me, const TrainPlan& plan, TrainLog& log, checkpoint::Files& files, StopSignals& signals) {
  return TrainingLoop(me, plan, log, files, signals).train();
}

}  // namespace lockstep::train
