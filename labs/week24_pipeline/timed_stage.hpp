// A stage without a model, which only takes time: for ./lab pipeline, and for tests.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "labs/week24_pipeline/bubble.hpp"
#include "labs/week24_pipeline/stages.hpp"

namespace lockstep::week24 {

/// The speed at which timed_machine fills memory: an element per picosecond if memory is phantom, else one per
/// microsecond, so that there is little to fill (--emulate sleeps for the rest).
inline double timed_elements_per_second(bool phantom) { return phantom ? 1e12 : 1e6; }

/// Takes the time of a step on timed_machine, and computes nothing. Keeps when each step began and ended.
class TimedStage final : public StageModel {
 public:
  /// `kept`: elements of activations that a microbatch leaves in a chunk until its backward is over.
  TimedStage(Rank me, const StepTimes& times, std::size_t elements = 1, bool phantom = true, std::size_t kept = 0)
      : me_(me), times_(times), elements_(elements), rate_(timed_elements_per_second(phantom)), kept_(kept) {
    const double longest = std::max({times.forward, times.input_gradient + times.weight_gradient});
    work_ = me.allocate(elements_for(longest), DType::f32, Category::buffer);
  }
  std::size_t boundary_elements(int) const override { return elements_; }
  DType boundary_dtype() const override { return DType::f32; }

  void forward(int microbatch, int chunk, Slice, Slice) override {
    if (kept_ > 0) held_[{microbatch, chunk}] = me_.allocate(kept_, DType::f32, Category::activation);
    take(times_.forward, "forward");
  }
  void backward(Work work, int microbatch, int chunk, Slice, Slice) override {
    if (work == Work::backward) take(times_.input_gradient + times_.weight_gradient, "backward");
    if (work == Work::input_gradient) take(times_.input_gradient, "input gradient");
    if (work == Work::weight_gradient) take(times_.weight_gradient, "weight gradient");
    if (work != Work::input_gradient) held_.erase({microbatch, chunk});
  }
  /// Begin and end of each step in turn, in seconds of this stage's clock.
  const Values& when() const { return when_; }

 private:
  std::size_t elements_for(double seconds) const { return static_cast<std::size_t>(seconds * rate_ + 0.5); }
  void take(double seconds, const char* name) {
    when_.push_back(me_.now());
    {
      Scope scope = me_.region(name);
      fill(me_, work_.cut(0, elements_for(seconds)), 0);
    }
    when_.push_back(me_.now());
  }

  Rank me_;
  StepTimes times_;
  std::size_t elements_;
  double rate_;
  std::size_t kept_;
  Slice work_;
  std::map<std::pair<int, int>, Slice> held_;
  Values when_;
};

/// One element a picosecond (or, not phantom, a microsecond); messages take `transfer` seconds, however many go at
/// once.
inline Machine timed_machine(double transfer, bool phantom = true) {
  Machine machine = Machine::uniform(transfer, 1e-18, 1e-18);
  machine.memory_bytes_per_second = 4 * timed_elements_per_second(phantom);
  machine.launch = 0;
  return machine;
}

/// Runs a schedule of TimedStages: in the simulator in virtual time, phantom; on MPI by wall clock, emulated.
struct TimedOptions {
  bool trace = false;
  std::size_t kept = 0;             ///< of TimedStage
  double last_stage = 1;            ///< its steps take that many times as long as the others'
  std::vector<StepTimes> by_stage;  ///< where it is not empty, of each stage; the hop is that of `times`
  bool buffered = true;  ///< short sends are over at once; else when their receive has begun and all has arrived
};
struct TimedRun {
  Outcome outcome;
  std::vector<StageUse> stages;
  std::vector<std::vector<TimedStep>> steps;  ///< of each stage, as they were run
};
inline TimedRun run_timed(const Schedule& schedule, const PipelineShape& shape, const StepTimes& times,
                          const TimedOptions& how = {}) {
  const bool phantom = std::string_view(backend_name()) == "sim";
  RunOptions options{.ranks = shape.stages,
                     .machine = timed_machine(times.transfer, phantom),
                     .phantom = phantom,
                     .check_races = false,
                     .trace = how.trace,
                     .emulate = !phantom};
  if (!how.buffered) options.machine.eager_bytes = 0;
  const auto times_of = [&](int stage) {
    if (!how.by_stage.empty()) return how.by_stage[static_cast<std::size_t>(stage)];
    const double part = (stage + 1 == shape.stages ? how.last_stage : 1) / shape.chunks;
    return StepTimes{times.forward * part, times.input_gradient * part, times.weight_gradient * part, times.transfer};
  };
  TimedRun timed;
  timed.outcome = run(options, Program([&](Rank me) {
                        const Pipeline pipeline = make_pipeline(me, shape);
                        TimedStage stage(me, times_of(me.rank()), 1, phantom, how.kept);
                        run_schedule(pipeline, schedule[static_cast<std::size_t>(me.rank())], stage);
                        return stage.when();
                      }));
  timed.outcome.check();
  for (std::size_t s = 0; s < schedule.size(); ++s)
    if (const std::size_t run = timed.outcome.values[s].size() / 2; run != schedule[s].size() || run == 0)
      throw Error(Verdict::fail, fmt::format("of its {} steps stage {} has run {}", schedule[s].size(), s, run));
  double first = timed.outcome.values[0][0];  // wall-clock: what set-up took
  for (const Values& when : timed.outcome.values) first = std::min(first, when[0]);
  if (phantom) first = 0;
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    const QueueTime& main = timed.outcome.ledgers[s].queues[0];
    const Values& when = timed.outcome.values[s];
    StageUse use{.begin = when.front() - first, .end = when.back() - first, .busy = main.busy};
    std::vector<TimedStep>& steps = timed.steps.emplace_back();
    for (std::size_t i = 0; i < schedule[s].size(); ++i) {
      steps.push_back({schedule[s][i], when[2 * i] - first, when[2 * i + 1] - first});
      if (i > 0) use.waiting += when[2 * i] - when[2 * i - 1];
    }
    timed.stages.push_back(use);
  }
  return timed;
}

}  // namespace lockstep::week24
