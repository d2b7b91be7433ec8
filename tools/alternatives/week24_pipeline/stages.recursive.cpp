// 24.1 with parts by recursion over what is left, later cuts first; and an interpreter whose sends are waited for
// before a step's work, not after it.
#include <algorithm>
#include <limits>
#include <map>

#include "labs/week24_pipeline/stage_runner.hpp"

namespace lockstep::week24 {
namespace {

struct Cut {
  double largest = std::numeric_limits<double>::infinity();
  std::size_t end = 0;  // of the first part
};

/// The best way to cut layers [from, …) into `parts`; what was found before is in `known`.
Cut best_cut(const std::vector<double>& costs, std::size_t from, std::size_t parts,
             std::map<std::pair<std::size_t, std::size_t>, Cut>& known) {
  if (const auto found = known.find({from, parts}); found != known.end()) return found->second;
  Cut best;
  double sum = 0;
  for (std::size_t end = from + 1; end + (parts - 1) <= costs.size(); ++end) {
    sum += costs[end - 1];
    if (parts == 1 && end < costs.size()) continue;
    const double rest = parts == 1 ? 0 : best_cut(costs, end, parts - 1, known).largest;
    if (const double largest = std::max(sum, rest); largest <= best.largest) best = {largest, end};
  }
  return known[{from, parts}] = best;
}

class WaitsFirst final : public StageRunner {
 public:
  using StageRunner::StageRunner;

 private:
  void run_step(const Step& step) override {
    const Neighbour to = target(step);
    const Arriving input = take(step);
    main_.wait(input.ticket);
    Slice output = result(to, step.microbatch);
    work(step, input.slice, output);
    if (to.stage < 0) return;
    const Rank& queue = queue_of(to, step.work == Work::forward);
    std::deque<Ticket>& earlier = sent_[queue.queue()];
    while (earlier.size() >= 2) {
      main_.wait(earlier.front());
      earlier.pop_front();
    }
    const auto give = [output, peer = to.stage](Rank link) {
      const Ticket started = link.start({send(peer, output)});
      link.wait(started);
    };
    earlier.push_back(main_.run(queue, give));
  }

  void work(const Step& step, const Slice& input, const Slice& output) {
    switch (step.work) {
      case Work::forward: return model_.forward(step.microbatch, step.chunk, input, output);
      case Work::backward:
      case Work::input_gradient:
      case Work::weight_gradient: return model_.backward(step.work, step.microbatch, step.chunk, input, output);
    }
  }
};

}  // namespace

std::vector<std::size_t> partition(const std::vector<double>& costs, int parts) {
  if (parts < 1 || static_cast<std::size_t>(parts) > costs.size())
    usage_error(std::to_string(costs.size()) + " layers for " + std::to_string(parts) + " stages are too few");
  std::map<std::pair<std::size_t, std::size_t>, Cut> known;
  std::vector<std::size_t> first{0};
  for (auto left = static_cast<std::size_t>(parts); left > 0; --left)
    first.push_back(best_cut(costs, first.back(), left, known).end);
  return first;
}

void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model) {
  WaitsFirst runner(pipeline, steps, model);
  runner.run();
}

}  // namespace lockstep::week24
