// Given: the bookkeeping of 24.1's interpreter. Where a step's input comes from and its result goes, and receives that
// are posted ahead; stages.cpp adds what a step does, and how its result is sent.
#pragma once

#include <array>
#include <deque>
#include <map>

#include "labs/week24_pipeline/stages.hpp"

namespace lockstep::week24 {

/// A receive that is under way.
struct Arriving {
  Slice slice;
  Ticket ticket;
};

class StageRunner {
 public:
  StageRunner(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model)
      : main_(pipeline.group), model_(model), pipeline_(pipeline), steps_(steps) {}
  virtual ~StageRunner() = default;

  void run() {
    for (const Step& step : steps_) {
      post_receives();
      run_step(step);
    }
    for (auto& [queue, tickets] : sent_)
      for (const Ticket& ticket : tickets) main_.wait(ticket);
  }

 protected:
  virtual void run_step(const Step& step) = 0;  ///< part b; its receive has been posted

  /// Returns the neighbour that the step's input comes from: activations from before, or gradients from after.
  Neighbour source(const Step& step) const {
    if (step.work == Work::forward) return before(pipeline_, step.chunk);
    return step.work == Work::weight_gradient ? Neighbour{} : after(pipeline_, step.chunk);
  }
  /// Returns the neighbour that its result goes to.
  Neighbour target(const Step& step) const {
    if (step.work == Work::forward) return after(pipeline_, step.chunk);
    return step.work == Work::weight_gradient ? Neighbour{} : before(pipeline_, step.chunk);
  }
  /// The queue of that link for activations, or for gradients.
  const Rank& queue_of(const Neighbour& other, bool forward) const {
    return (forward ? pipeline_.down : pipeline_.up)[static_cast<std::size_t>(other.link)];
  }

  /// The receive of the step's input, which may still be under way; empty where the step has none.
  Arriving take(const Step& step) {
    if (source(step).stage < 0) return {};
    const auto here = arriving_.find(step);
    const Arriving received = here->second;
    arriving_.erase(here);
    --kinds_[step.work == Work::forward ? 0 : 1].under_way;
    return received;
  }

  /// Memory for the step's result, which is sent to `to`; empty where it is not sent.
  Slice result(const Neighbour& to, int microbatch) { return to.stage < 0 ? Slice() : boundary(microbatch); }

  Rank main_;
  StageModel& model_;
  std::map<int, std::deque<Ticket>> sent_;  // by queue: sends that main has not waited for

 private:
  struct Kind {
    bool forward = false;
    std::size_t next = 0;  // step to look at for a receive
    int under_way = 0;     // receives posted and not yet taken
  };

  Slice boundary(int microbatch) {
    return main_.allocate(model_.boundary_elements(microbatch), model_.boundary_dtype(), Category::activation);
  }

  /// Posts receives of each kind (activations, gradients) until two are under way: what the next step of the kind
  /// needs, and the one after, which may arrive while that step computes.
  void post_receives() {
    for (Kind& kind : kinds_)
      for (; kind.under_way < 2 && kind.next < steps_.size(); ++kind.next) {
        const Step& step = steps_[kind.next];
        const Neighbour from = source(step);
        if ((step.work == Work::forward) != kind.forward || from.stage < 0) continue;
        arriving_[step] = receive_later(from, kind.forward, step.microbatch);
        ++kind.under_way;
      }
  }

  /// Starts a receive on the queue of its link, and main continues.
  Arriving receive_later(const Neighbour& from, bool forward, int microbatch) {
    Slice slice = boundary(microbatch);
    const Ticket ticket = main_.run(queue_of(from, forward),
                                    [slice, stage = from.stage](Rank link) { link.exchange({receive(stage, slice)}); });
    return {slice, ticket};
  }

  const Pipeline& pipeline_;
  const StageSchedule& steps_;
  std::array<Kind, 2> kinds_ = {{{true}, {false}}};
  std::map<Step, Arriving> arriving_;
};

}  // namespace lockstep::week24
