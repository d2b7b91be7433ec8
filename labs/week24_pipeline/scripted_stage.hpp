// Stages without a model, for tests and for ./lab pipeline: one whose numbers tell which parts a microbatch has gone
// through, and one that only takes time.
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

/// Part k adds k + 1 to what goes through it, in both directions, and gathers in its gradient what has come in: small
/// whole numbers, exact. Every second microbatch is one element longer. Slices that the contract of StageModel does not
/// give end the run with a sentence.
class CountingStage final : public StageModel {
 public:
  CountingStage(Rank me, const PipelineShape& shape, std::size_t elements)
      : me_(me), shape_(shape), elements_(elements), scratch_(me.allocate(elements + 1, DType::f32, Category::buffer)) {
    for (int c = 0; c < shape.chunks; ++c) {
      gradients_.push_back(me.allocate(elements, DType::f32, Category::gradient));
      fill(me, gradients_.back(), 0);
    }
  }
  std::size_t boundary_elements(int microbatch) const override {
    return elements_ + static_cast<std::size_t>(microbatch % 2);
  }
  DType boundary_dtype() const override { return DType::f32; }

  void forward(int microbatch, int chunk, Slice input, Slice output) override {
    const int part = part_of(shape_, me_.rank(), chunk);
    const Step step{Work::forward, microbatch, chunk};
    check_slice(step, "an input", input, comes(part));
    check_slice(step, "an output", output, comes(part + 1));
    if (part == 0)
      input = made(microbatch);
    else if (!comes(part))
      input = handed_.take(step);
    inputs_[{microbatch, chunk}] = input;
    if (part + 1 == parts())
      output = last_[microbatch] = boundary(microbatch);
    else if (!comes(part + 1))
      output = handed_.give({Work::forward, microbatch, chunk + 1}, boundary(microbatch));
    through(output, input, part);
  }
  void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) override {
    const int part = part_of(shape_, me_.rank(), chunk);
    const Step step{work, microbatch, chunk};
    const bool weights_alone = work == Work::weight_gradient;
    const std::pair key{microbatch, chunk};
    if (!inputs_.contains(key) || (weights_alone && !gradients_of_.contains(key)))
      throw Error(Verdict::fail,
                  to_string(step, shape_.chunks) + " runs before its inputs exist, or for the second time");
    check_slice(step, "a gradient of the output", output_gradient, comes(part + 1) && !weights_alone);
    check_slice(step, "a gradient of the input", input_gradient, comes(part) && !weights_alone);
    if (!weights_alone) {
      if (part + 1 == parts())
        output_gradient = last_.at(microbatch);
      else if (!comes(part + 1))
        output_gradient = handed_.take({Work::input_gradient, microbatch, chunk});
      if (part == 0)
        input_gradient = first_[microbatch] = boundary(microbatch);
      else if (!comes(part))
        input_gradient = handed_.give({Work::input_gradient, microbatch, chunk - 1}, boundary(microbatch));
      through(input_gradient, output_gradient, part);
      gradients_of_[key] = output_gradient;
    }
    if (work != Work::input_gradient) {
      Slice gradient = gradients_[static_cast<std::size_t>(chunk)];
      add(me_, gradient, inputs_.at(key).cut(0, elements_));
      add(me_, gradient, gradients_of_.at(key).cut(0, elements_));
      inputs_.erase(key);
      gradients_of_.erase(key);
    }
  }

  /// What came back to the first part for each microbatch (first stage; −1 where nothing did), then the gradients of
  /// all chunks: element 0 of each.
  Values seen() {
    Values values;
    for (int m = 0; me_.rank() == 0 && m < shape_.microbatches; ++m)
      values.push_back(first_.contains(m) ? to_host(me_, first_.at(m))[0] : -1);
    for (const Slice& gradient : gradients_) values.push_back(to_host(me_, gradient)[0]);
    return values;
  }
  static double input_of(int microbatch) { return 1000.0 * (microbatch + 1); }

 private:
  int parts() const { return shape_.stages * shape_.chunks; }
  /// Whether another stage gives what goes from part − 1 to part; at the bottom of a V the stage hands it to itself.
  bool comes(int part) const {
    return part > 0 && part < parts() && chunk_of_part(shape_, part - 1).stage != chunk_of_part(shape_, part).stage;
  }
  Slice boundary(int microbatch) {
    return me_.allocate(boundary_elements(microbatch), DType::f32, Category::activation);
  }
  Slice made(int microbatch) {
    Slice slice = boundary(microbatch);
    fill(me_, slice, static_cast<float>(input_of(microbatch)));
    return slice;
  }
  void through(Slice to, Slice from, int part) {
    fill(me_, scratch_, static_cast<float>(part + 1));
    add(me_, to, from, scratch_.cut(0, to.size()));
  }
  /// A neighbour's slice is there, and as long as the microbatch's boundary; at the ends of the model there is none.
  void check_slice(const Step& step, const char* what, const Slice& slice, bool wanted) const {
    const std::size_t expected = wanted ? boundary_elements(step.microbatch) : 0;
    if (slice.size() == expected) return;
    throw Error(
        Verdict::fail,
        fmt::format("stage {} gives {} {} of {} elements, expected {}{}", me_.rank(), to_string(step, shape_.chunks),
                    what, slice.size(), expected,
                    wanted ? "" : ": at the ends of the model, and for the weights alone, that slice is empty"));
  }

  Rank me_;
  PipelineShape shape_;
  std::size_t elements_;
  Slice scratch_;
  std::vector<Slice> gradients_;
  std::map<std::pair<int, int>, Slice> inputs_, gradients_of_;
  std::map<int, Slice> last_, first_;
  HandOver handed_;
};

/// What every rank of a CountingStage must have seen.
inline std::string wrong_counts(const PipelineShape& shape, const Outcome& outcome) {
  const int parts = shape.stages * shape.chunks;
  const double all = parts * (parts + 1) / 2.0;  // 1 + 2 + … + parts
  for (int stage = 0; stage < shape.stages; ++stage) {
    const Values& seen = outcome.values[static_cast<std::size_t>(stage)];
    std::size_t at = 0;
    for (int m = 0; stage == 0 && m < shape.microbatches; ++m, ++at) {
      const double back = CountingStage::input_of(m) + 2 * all;
      if (seen.at(at) < 0)
        return fmt::format("microbatch {} did not come back to the first stage: no backward was run", m);
      if (seen.at(at) != back)
        return fmt::format(
            "microbatch {} came back to the first stage as {}, expected {}: through every part once in "
            "each direction, {} + 2·{}",
            m, seen[at], back, CountingStage::input_of(m), all);
    }
    for (int c = 0; c < shape.chunks; ++c, ++at) {
      const int part = part_of(shape, stage, c);
      const double before = part * (part + 1) / 2.0, after = all - (part + 1) * (part + 2) / 2.0;
      double expected = 0;
      for (int m = 0; m < shape.microbatches; ++m)
        expected += (CountingStage::input_of(m) + before) + (CountingStage::input_of(m) + all + after);
      if (seen.at(at) != expected)
        return fmt::format(
            "stage {}, chunk {}: what came in, of all microbatches and both directions, adds up to {}, "
            "expected {}",
            stage, c, seen[at], expected);
    }
  }
  return "";
}

/// How fast timed_machine fills memory: an element a picosecond where memory is phantom, else one a microsecond, so
/// that there is little to fill (--emulate sleeps for the rest).
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
