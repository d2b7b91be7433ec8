// Exercise 24.1: stages. Read labs/week24_pipeline/stages.hpp first.
#include "labs/week24_pipeline/stages.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>

namespace lockstep::week24 {

std::vector<std::size_t> partition(const std::vector<double>& costs, int parts) {
  const std::size_t layers = costs.size(), p = static_cast<std::size_t>(parts);
  if (parts < 1 || layers < p)
    usage_error(std::to_string(layers) + " layers cannot fill " + std::to_string(parts) + " stages: each needs one");
  // best[k][i]: the smallest largest part when the first i layers are in k parts; cut[k][i]: where its last part
  // begins.
  std::vector<std::vector<double>> best(p + 1, std::vector<double>(layers + 1, 0));
  std::vector<std::vector<std::size_t>> cut(p + 1, std::vector<std::size_t>(layers + 1, 0));
  todo("24.1a",
       "best[1][i] is a sum. For k ≥ 2 parts of i ≥ k layers try every place j ≥ k − 1 where the last part may "
       "begin: the larger of best[k − 1][j] and the sum of layers j … i − 1. Keep the smallest, and its j in "
       "cut[k][i]");
  std::vector<std::size_t> first(p + 1, layers);
  for (std::size_t k = p; k > 0; --k) first[k - 1] = k == 1 ? 0 : cut[k][first[k]];
  return first;
}

Pipeline make_pipeline(Rank group, PipelineShape shape) {
  if (shape.stages != group.size())
    usage_error("a pipeline of " + std::to_string(shape.stages) + " stages on " + std::to_string(group.size()) +
                " ranks");
  if (shape.stages == 1 && shape.chunks > 1)
    usage_error("chunks go round the stages: with one stage there is nowhere to go");
  Pipeline pipeline{group, shape, {}, {}};
  for (int link = 0; link < shape.stages; ++link) {
    // The link from the last stage to the first has no neighbour of its parity to share with, when stages are odd.
    const std::string number = link + 1 == shape.stages ? "around" : link % 2 == 0 ? "even" : "odd";
    pipeline.down.push_back(group.stream("down " + number));
    pipeline.up.push_back(group.stream("up " + number));
  }
  return pipeline;
}

Neighbour before(const Pipeline& pipeline, int chunk) {
  const int stage = pipeline.group.rank(), last = pipeline.shape.stages - 1;
  if (stage > 0) return {stage - 1, stage - 1};
  return chunk > 0 ? Neighbour{last, last} : Neighbour{};
}

Neighbour after(const Pipeline& pipeline, int chunk) {
  const int stage = pipeline.group.rank(), last = pipeline.shape.stages - 1;
  if (stage < last) return {stage + 1, stage};
  return chunk + 1 < pipeline.shape.chunks ? Neighbour{0, last} : Neighbour{};
}

namespace {

/// A receive that is under way.
struct Arriving {
  Slice slice;
  Ticket ticket;
};

class Interpreter {
 public:
  Interpreter(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model)
      : pipeline_(pipeline), main_(pipeline.group), steps_(steps), model_(model) {}

  void run() {
    for (const Step& step : steps_) {
      post_receives();
      if (step.work == Work::forward)
        forward(step);
      else
        backward(step);
    }
    for (auto& [rank, tickets] : sent_)
      for (const Ticket& ticket : tickets) main_.wait(ticket);
  }

 private:
  /// Whether the step needs something from a neighbour: activations from before, or gradients from after.
  Neighbour source(const Step& step) const {
    if (step.work == Work::forward) return before(pipeline_, step.chunk);
    return step.work == Work::weight_gradient ? Neighbour{} : after(pipeline_, step.chunk);
  }
  Slice boundary(int microbatch) {
    return main_.allocate(model_.boundary_elements(microbatch), model_.boundary_dtype(), Category::activation);
  }
  /// Memory for a part's result that a neighbour wants; empty where there is none.
  Slice result(const Neighbour& to, int microbatch) { return to.stage < 0 ? Slice() : boundary(microbatch); }

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

  Arriving receive_later(const Neighbour& from, bool forward, int microbatch) {
    Slice slice = boundary(microbatch);
    const Rank& queue = (forward ? pipeline_.down : pipeline_.up)[static_cast<std::size_t>(from.link)];
    todo("24.1b", "run a receive into `slice` from that stage on the queue of the link; main goes on");
  }

  void send_later(const Neighbour& to, bool forward, Slice slice) {
    const Rank& queue = (forward ? pipeline_.down : pipeline_.up)[static_cast<std::size_t>(to.link)];
    todo("24.1b",
         "run the send likewise. Its slice is in use until main waits for the ticket: do that for the send before "
         "the last one of this queue, which has long arrived (sent_, by queue)");
  }

  /// What the step has received, once it is there.
  Slice arrived(const Step& step) {
    if (source(step).stage < 0) return {};
    const auto here = arriving_.find(step);
    --kinds_[step.work == Work::forward ? 0 : 1].under_way;
    todo("24.1b", "wait for it, and forget it");
  }

  void forward(const Step& step) {
    const Neighbour to = after(pipeline_, step.chunk);
    todo("24.1b", "input, output, the part's forward; then send the output on, where there is a next part");
  }

  void backward(const Step& step) {
    const Neighbour to = step.work == Work::weight_gradient ? Neighbour{} : before(pipeline_, step.chunk);
    todo("24.1b", "the same way back, with gradients");
  }

  const Pipeline& pipeline_;
  Rank main_;
  const StageSchedule& steps_;
  StageModel& model_;
  struct Kind {
    bool forward = false;
    std::size_t next = 0;  // step to look at for a receive
    int under_way = 0;     // receives posted and not yet used
  };
  std::array<Kind, 2> kinds_ = {{{true}, {false}}};
  std::map<Step, Arriving> arriving_;
  std::map<int, std::deque<Ticket>> sent_;  // by queue
};

}  // namespace

void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model) {
  Interpreter(pipeline, steps, model).run();
}

}  // namespace lockstep::week24
