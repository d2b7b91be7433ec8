// Exercise 24.1: stages. Read labs/week24_pipeline/stages.hpp first, and for part b stage_runner.hpp, whose members the
// class below uses.
#include "labs/week24_pipeline/stages.hpp"

#include <algorithm>
#include <deque>
#include <string>

#include "labs/week24_pipeline/stage_runner.hpp"

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

namespace {

class Interpreter final : public StageRunner {
 public:
  using StageRunner::StageRunner;

 private:
  void run_step(const Step& step) override {
    const Neighbour to = target(step);
    const bool forward = step.work == Work::forward;
    todo("24.1b",
         "the model's forward or backward, from what the step has received, once it is there, into memory for the "
         "result, which travels on if another stage needs it");
  }

  void send_later(const Neighbour& to, bool forward, Slice slice) {
    const Rank& queue = queue_of(to, forward);
    todo("24.1b",
         "the send happens on `queue` while main continues, as in receive_later. Its slice is in use until main "
         "waits for its ticket: no more than two of a queue are (sent_, by queue)");
  }
};

}  // namespace

void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model) {
  Interpreter(pipeline, steps, model).run();
}

}  // namespace lockstep::week24
