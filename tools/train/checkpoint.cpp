#include "tools/train/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/checkpoint/saver.hpp"
#include "common/gpt/data/model_file.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::train {

namespace {

using checkpoint::Run;

/// Tensors of the serial model, and once more for each replica if replicas step on their own.
std::vector<checkpoint::Tensor> tensors_of(const TrainPlan& plan) {
  GptConfig model = plan.step.model;
  model.tensor = {};
  std::vector<checkpoint::Tensor> tensors;
  for (int copy = 0; copy <= (plan.outer ? plan.step.replicas() : 0); ++copy)
    for (const Parameter& tensor : gpt_parameter_table(model))
      tensors.push_back(
          {copy == 0 ? tensor.name : fmt::format("replica.{}.{}", copy - 1, tensor.name), tensor.rows, tensor.columns});
  return tensors;
}

template <class F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool is_same_path(const std::string& one, const std::string& other) {
  const auto whole = [](const std::string& path) {
    std::error_code error;
    const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
    return canonical.has_filename() ? canonical : canonical.parent_path();  // without a slash at its end
  };
  return whole(one) == whole(other);
}

/// Everything that seed and order of the text depend on. With the number of steps it is the place in the data.
std::string describe_data(const TrainPlan& plan) {
  const week25::Options3d& o = plan.step;
  return fmt::format("seed {}, {} sequences of {} tokens a step, {} tokens of text", o.seed, o.batch, o.sequence,
                     plan.corpus ? plan.corpus->train().size() : 0);
}

/// For replicas that step on their own. The numbers at the front are what a resumed run needs.
std::string describe_outer(const TrainPlan& plan, int local_steps) {
  return fmt::format(
      "{} replicas, {} local steps since the last outer step, which follows {}, with rate {} and momentum {}",
      plan.step.replicas(), local_steps, plan.outer->every, plan.outer->learning_rate, plan.outer->momentum);
}
struct OuterFact {
  int replicas = 0, local_steps = 0;
};
OuterFact outer_in(const checkpoint::Manifest& manifest) {
  OuterFact fact;
  if (const auto found = manifest.facts.find("outer"); found != manifest.facts.end())
    std::sscanf(found->second.c_str(), "%d replicas, %d local steps", &fact.replicas, &fact.local_steps);
  return fact;
}

}  // namespace

std::string describe_model(const GptConfig& c) {
  return fmt::format("{} layers, {} heads, d_model {}, vocabulary {}, context {}, {} head{}", c.layers, c.heads,
                     c.d_model, c.vocabulary, c.context, c.tied_head ? "tied" : "untied", describe_architecture(c));
}

class Checkpoints::Impl {
 public:
  Impl(Rank me, const TrainPlan& plan, std::vector<Held> held, const OtherState& other, TrainLog& log,
       checkpoint::Files& files)
      : me_(me),
        plan_(plan),
        held_(std::move(held)),
        scaler_(other.scaler),
        outer_(other.outer),
        log_(log),
        files_(files),
        tensors_(tensors_of(plan)),
        saver_(files, plan.checkpoint, me.rank(), me.size()) {
    if (judge() && saves()) lock_ = files_.lock(plan.checkpoint);
  }

  bool resume() {
    auto phase = me_.region("checkpoint");
    const std::string& path = plan_.request.resume;
    const bool one = files_.exists(checkpoint::manifest_path(path));
    const std::vector<int> steps = one ? std::vector<int>{0} : checkpoint::steps_in(files_, path);
    for (std::size_t i = 0;; ++i) {
      const int step = from_judge(i < steps.size() ? steps[i] : steps.empty() && saves_to(path) ? kNothingYet : kNone);
      if (step == kNothingYet) return false;
      if (step == kNone)
        throw Error(Verdict::usage, steps.empty() ? fmt::format("{} holds no checkpoint", path)
                                                  : fmt::format("no checkpoint in {} can be used", path));
      if (resume_from(one ? path : checkpoint::step_path(path, step))) return true;
    }
  }

  void begin_with(const std::vector<float>& values) {
    std::vector<Run> runs = joined(held_);
    const std::size_t tensors = tensors_.size() / (outer_ ? static_cast<std::size_t>(plan_.step.replicas()) + 1 : 1);
    for (Run& run : runs) run.tensor %= tensors;  // each replica begins with them
    checkpoint::Share share{checkpoint::pieces_of(tensors_, runs), {}};
    for (auto& array : share.arrays) array.assign(elements(), 0);
    for (const checkpoint::RowCopy& row : checkpoint::common_rows(checkpoint::whole_pieces(tensors_), share.pieces))
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row.from), row.elements,
                  share.arrays[0].begin() + static_cast<std::ptrdiff_t>(row.to));
    put_back({}, share);
  }

  void save() {
    auto phase = me_.region("checkpoint");
    settle(saver_.wait_for_share());  // where that ends the run, nothing of this save is left
    const auto begun = std::chrono::steady_clock::now();
    std::string cannot_begin;
    const auto attempt = static_cast<unsigned>(from_judge(judge() ? begin(cannot_begin) : 0));
    step_ = steps();
    if (!cannot_begin.empty()) failed(cannot_begin);
    failed_ = attempt == 0;
    if (attempt == 0) return;
    saver_.start(checkpoint::attempt_path(plan_.checkpoint, step_, attempt), take(), head());
    stopped_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }

  void check() const {
    const std::string failure = saver_.failure();
    if (!failure.empty() && stops(failure)) failed(failure);
  }

  void finish() {
    auto phase = me_.region("checkpoint");
    settle(saver_.wait_for_share());
    if (!judge() || step_ == 0) return;
    if (failed_)
      log_.last_save_failed();
    else
      log_.note(fmt::format("saved     {}", checkpoint::step_path(plan_.checkpoint, step_)));
  }

  std::string last() const {
    const std::vector<int> steps = checkpoint::steps_in(files_, plan_.checkpoint);
    return steps.empty() ? "none" : checkpoint::step_path(plan_.checkpoint, steps.front());
  }

  // Messages between ranks -----------------------------------------------------------------------------------------

  bool anybody(bool mine) { return sum({mine ? 1.0f : 0.0f})[0] > 0; }
  /// A whole number from −2^31 on, in halves that fp32 holds exactly.
  int from_judge(int number) {
    const auto [high, low] = std::div(judge() ? number : 0, 1 << 16);
    const std::vector<float> both = sum({static_cast<float>(high), static_cast<float>(low)});
    return static_cast<int>(both[0]) * (1 << 16) + static_cast<int>(both[1]);
  }

 private:
  static constexpr int kNone = -1, kNothingYet = -2;  // in place of a step

  bool judge() const { return me_.rank() == 0; }
  bool saves() const { return !plan_.checkpoint.empty(); }
  bool saves_to(const std::string& path) const { return saves() && is_same_path(path, plan_.checkpoint); }
  int steps() const { return held_.front().optimizer->steps(); }
  /// A run that has diverged has nothing to continue for.
  bool stops(const std::string& failure) const {
    return failure == checkpoint::kNotFinite || plan_.request.on_save_error == "stop";
  }

  /// Sums, element by element, over the ranks.
  std::vector<float> sum(const std::vector<float>& mine) {
    Slice values = me_.allocate(mine.size(), DType::f32, Category::buffer);
    upload(me_, values, mine);
    week21::ring_all_reduce(me_, values);
    return to_host(me_, values);
  }
  /// The first rank for which `failed` is true, or −1.
  int first_rank(bool failed) {
    std::vector<float> flags(static_cast<std::size_t>(me_.size()));
    flags[static_cast<std::size_t>(me_.rank())] = failed ? 1 : 0;
    flags = sum(flags);
    const auto first = std::find_if(flags.begin(), flags.end(), [](float flag) { return flag > 0; });
    return first == flags.end() ? -1 : static_cast<int>(first - flags.begin());
  }

  // Saving ---------------------------------------------------------------------------------------------------------

  /// Makes the directory of a save; 0 where that cannot be. The number is this attempt's own.
  int begin(std::string& failure) {
    const std::string& directory = plan_.checkpoint;
    const int attempt = 1 + static_cast<int>(std::random_device()() % 1'000'000'000u);
    failure = failure_of([&] {
      if (!lock_->held()) {  // with its directory, which somebody removed
        lock_.reset();
        lock_ = files_.lock(directory);
      }
      if (!std::exchange(began_, true)) {
        checkpoint::remove_leftovers(files_, directory);
        checkpoint::set_aside_after(files_, directory, resumed_);
      }
      checkpoint::begin(files_, directory, steps(), static_cast<unsigned>(attempt));
    });
    return failure.empty() ? attempt : 0;
  }

  /// Ends the save that is under way, of which this rank knows `failure`.
  void settle(const std::string& failure) {
    const int first = first_rank(!failure.empty());
    const std::string commit_failure = saver_.settle(first < 0);
    failed_ = failed_ || first >= 0 || !commit_failure.empty();
    const double stopped = std::exchange(stopped_, 0);
    if (judge() && stopped > 0 && saver_.seconds_to_complete() > 0)
      log_.save_took(stopped, stopped + saver_.seconds_to_complete());
    if (first == me_.rank()) failed(failure);
    if (!commit_failure.empty()) failed(commit_failure);
  }

  void failed(const std::string& why) const {
    const std::string text =
        fmt::format("{}the checkpoint of step {} was not written: rank {}: {}",
                    why == checkpoint::kNotFinite ? "the run diverged: " : "", step_, me_.rank(), why);
    if (stops(why)) throw Error(Verdict::fail, text);
    log_.complain(text + "; the run continues");
  }

  /// This rank's share, on the host.
  checkpoint::Share take() {
    checkpoint::Share share;
    std::vector<Run> written;
    for (const Held& held : held_) {
      if (held.written.empty()) continue;
      const std::size_t begin = held.written.front().at, end = held.written.back().at + held.written.back().count;
      const auto arrays = arrays_of(held);
      for (std::size_t k = 0; k < arrays.size(); ++k) {
        const std::vector<float> values =
            arrays[k].empty() ? std::vector<float>(end - begin) : to_host(me_, arrays[k].cut(begin, end - begin));
        for (const Run& run : held.written) {
          const auto from = values.begin() + static_cast<std::ptrdiff_t>(run.at - begin);
          share.arrays[k].insert(share.arrays[k].end(), from, from + static_cast<std::ptrdiff_t>(run.count));
        }
      }
      written.insert(written.end(), held.written.begin(), held.written.end());
    }
    share.pieces = checkpoint::pieces_of(tensors_, checkpoint::packed(std::move(written)));
    return share;
  }

  checkpoint::Manifest head() {
    checkpoint::Manifest manifest{step_, {}, tensors_, {}};
    manifest.facts["model"] = describe_model(plan_.step.model);
    manifest.facts["optimizer"] = plan_.request.optimizer;
    manifest.facts["data"] = describe_data(plan_);
    if (outer_) manifest.facts["outer"] = describe_outer(plan_, outer_->local_steps());
    if (!scaler_) return manifest;
    manifest.facts["loss_scale"] = fmt::format("{} {} {}", read(me_, scaler_->scale, 0),
                                               read(me_, scaler_->good_steps, 0), read(me_, scaler_->skipped, 0));
    return manifest;
  }

  // Resuming -------------------------------------------------------------------------------------------------------

  /// Elements of this rank's optimizers.
  std::size_t elements() const {
    std::size_t sum = 0;
    for (const Held& held : held_) sum += size_of(held);
    return sum;
  }

  /// False where any rank cannot use it.
  bool resume_from(const std::string& path) {
    checkpoint::Manifest manifest;
    checkpoint::Share share{checkpoint::pieces_of(tensors_, joined(held_)), {}};
    std::string refused = failure_of([&] { manifest = checkpoint::read_manifest(files_, path); });
    if (refused.empty()) {
      check_replicas(path, manifest);
      check_model(path, manifest);
      check_optimizer(path, manifest);
      refused = failure_of([&] { checkpoint::read_share(files_, path, manifest, elements(), share); });
    }
    const int first = first_rank(!refused.empty());
    if (first == me_.rank()) log_.complain(fmt::format("{}; trying the checkpoint before", refused));
    if (first >= 0) return false;
    put_back(manifest, share);
    resumed_ = manifest.step;
    if (judge()) log_.note(fmt::format("resumed   {}", path));
    if (judge() && outer_ && manifest.facts["outer"] != describe_outer(plan_, outer_->local_steps()))
      log_.complain(fmt::format("{} was made with {}; this run has {}", path, manifest.facts["outer"],
                                describe_outer(plan_, outer_->local_steps())));
    if (judge() && manifest.facts["data"] != describe_data(plan_))
      log_.complain(
          fmt::format("{} was made with {}; this run has {}", path, manifest.facts["data"], describe_data(plan_)));
    return true;
  }

  /// Another model ends the run: older checkpoints will not be better.
  void check_model(const std::string& path, const checkpoint::Manifest& manifest) const {
    const auto model = manifest.facts.find("model");
    const std::string theirs = model == manifest.facts.end() ? "something else" : model->second;
    if (theirs != describe_model(plan_.step.model) || manifest.tensors != tensors_)
      throw Error(Verdict::usage, fmt::format("checkpoint {} holds a model of {}, not of {}", path, theirs,
                                              describe_model(plan_.step.model)));
  }

  /// Replicas that step on their own have a state each, which serves neither another number of replicas nor their sum.
  void check_replicas(const std::string& path, const checkpoint::Manifest& manifest) const {
    const int theirs = outer_in(manifest).replicas, mine = outer_ ? plan_.step.replicas() : 0;
    if (theirs == mine) return;
    const auto words = [](int replicas) {
      return replicas == 0 ? "without --outer-steps" : fmt::format("with --outer-steps on {} replicas", replicas);
    };
    throw Error(Verdict::usage,
                fmt::format("checkpoint {} was made {}, and this run is {}: with --outer-steps a run resumes on as "
                            "many replicas as before. ./lab export and --init take over the model alone",
                            path, words(theirs), words(mine)));
  }

  /// Their moments mean something else.
  void check_optimizer(const std::string& path, const checkpoint::Manifest& manifest) const {
    const auto optimizer = manifest.facts.find("optimizer");
    if (optimizer == manifest.facts.end() || optimizer->second == plan_.request.optimizer) return;
    throw Error(Verdict::usage, fmt::format("checkpoint {} was made with --optimizer {}, not {}: its state would mean "
                                            "something else",
                                            path, optimizer->second, plan_.request.optimizer));
  }

  void put_back(const checkpoint::Manifest& manifest, const checkpoint::Share& share) {
    std::size_t at = 0;
    for (const Held& held : held_) {
      const auto arrays = arrays_of(held);
      const std::size_t count = arrays[0].size();
      for (std::size_t k = 0; k < arrays.size(); ++k)
        if (!arrays[k].empty()) upload(me_, arrays[k], std::span(share.arrays[k]).subspan(at, count));
      if (held.optimizer) held.optimizer->resume(me_, manifest.step);
      at += count;
    }
    if (outer_) outer_->resume(outer_in(manifest).local_steps);
    const auto scale = manifest.facts.find("loss_scale");
    if (!scaler_ || scale == manifest.facts.end()) return;
    float factor = 1, good_steps = 0, skipped = 0;
    std::istringstream(scale->second) >> factor >> good_steps >> skipped;
    fill(me_, scaler_->scale, factor);
    fill(me_, scaler_->inverse, 1 / factor);
    fill(me_, scaler_->good_steps, good_steps);
    fill(me_, scaler_->skipped, skipped);
  }

  Rank me_;
  const TrainPlan& plan_;
  std::vector<Held> held_;
  week22::LossScaler* scaler_;
  week21::LocalSgd* outer_;
  TrainLog& log_;
  checkpoint::Files& files_;
  std::vector<checkpoint::Tensor> tensors_;  // of the serial model
  std::unique_ptr<checkpoint::Lock> lock_;   // rank 0's, of the directory that is saved to
  checkpoint::Saver saver_;
  int resumed_ = 0;      // the step this run resumes from
  int step_ = 0;         // of the last save
  bool began_ = false;   // a save, in this run
  double stopped_ = 0;   // seconds that the save under way has held up training
  bool failed_ = false;  // the last save, as far as is known
};

Checkpoints::Checkpoints(Rank me, const TrainPlan& plan, std::vector<Held> held, const OtherState& other, TrainLog& log,
                         checkpoint::Files& files)
    : impl_(std::make_unique<Impl>(me, plan, std::move(held), other, log, files)) {}
Checkpoints::~Checkpoints() = default;
bool Checkpoints::resume() { return impl_->resume(); }
void Checkpoints::begin_with(const std::vector<float>& values) { impl_->begin_with(values); }
void Checkpoints::save() { impl_->save(); }
void Checkpoints::check() const { impl_->check(); }
void Checkpoints::finish() { impl_->finish(); }
bool Checkpoints::anybody(bool mine) { return impl_->anybody(mine); }
int Checkpoints::from_judge(int number) { return impl_->from_judge(number); }
std::string Checkpoints::last() const { return impl_->last(); }

}  // namespace lockstep::train
