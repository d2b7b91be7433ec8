// 24.7 by list scheduling: the steps are played, and the stage that can begin something first does: an input's gradient
// if one is there, else a forward that fits, else the gradients of weights.
#include "labs/week24_pipeline/open_schedule.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace lockstep::week24 {
namespace {

class Player {
 public:
  explicit Player(const OpenPipeline& pipeline)
      : pipeline_(pipeline), stages_(pipeline.stages.size()), lines_(pipeline.stages.size()) {
    for (Stage& stage : stages_)
      for (std::vector<double>* ends : {&stage.forward, &stage.input_gradient})
        ends->assign(static_cast<std::size_t>(pipeline.shape.microbatches), kNever);
  }

  std::string play() {
    while (const std::optional<Choice> next = earliest()) take(*next);
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Stage {
    double free_at = 0;
    std::size_t forwards = 0, inputs = 0, weights = 0;
    std::vector<double> forward, input_gradient;  // when each ended
  };
  struct Choice {
    double begin = kNever;
    int rank = 0;  // of the kinds of work, where several could begin at once
    std::size_t stage = 0;
    Work work = Work::forward;
    bool operator<(const Choice& other) const { return begin != other.begin ? begin < other.begin : rank < other.rank; }
  };

  std::optional<Choice> earliest() const {
    Choice best;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (const Choice& choice : choices(s))
        if (choice < best) best = choice;
    if (best.begin == kNever) return std::nullopt;
    return best;
  }

  std::vector<Choice> choices(std::size_t s) const {
    const Stage& stage = stages_[s];
    const auto all = static_cast<std::size_t>(pipeline_.shape.microbatches);
    const auto room = static_cast<std::size_t>(pipeline_.most_in_flight);
    const double hop = pipeline_.stages[s].transfer;
    std::vector<Choice> found;
    if (stage.inputs < stage.forwards) {
      const double there = s + 1 < stages_.size() ? stages_[s + 1].input_gradient[stage.inputs] + hop : 0;
      found.push_back({std::max(stage.free_at, there), 0, s, Work::input_gradient});
    }
    if (stage.forwards < all && stage.forwards - stage.weights < room) {
      const double there = s > 0 ? stages_[s - 1].forward[stage.forwards] + hop : 0;
      found.push_back({std::max(stage.free_at, there), 1, s, Work::forward});
    }
    if (stage.weights < stage.inputs) found.push_back({stage.free_at, 2, s, Work::weight_gradient});
    return found;
  }

  void take(const Choice& choice) {
    Stage& stage = stages_[choice.stage];
    const StepTimes& times = pipeline_.stages[choice.stage];
    std::size_t& next = choice.work == Work::forward          ? stage.forwards
                        : choice.work == Work::input_gradient ? stage.inputs
                                                              : stage.weights;
    stage.free_at = choice.begin + (choice.work == Work::forward          ? times.forward
                                    : choice.work == Work::input_gradient ? times.input_gradient
                                                                          : times.weight_gradient);
    if (choice.work == Work::forward) stage.forward[next] = stage.free_at;
    if (choice.work == Work::input_gradient) stage.input_gradient[next] = stage.free_at;
    lines_[choice.stage] += to_string({choice.work, static_cast<int>(next)}) + " ";
    ++next;
  }

  const OpenPipeline& pipeline_;
  std::vector<Stage> stages_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string open_schedule(const OpenPipeline& pipeline) { return Player(pipeline).play(); }

}  // namespace lockstep::week24
