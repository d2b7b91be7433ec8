// 24.1 without StageRunner: one list of receives, posted as far ahead as allowed; and parts by guessing their largest
// cost: between a limit that fails and one that does, by sums of neighbouring layers.
#include "labs/week24_pipeline/stages.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>

namespace lockstep::week24 {
namespace {

/// Parts of at most `limit`, filled from the front, of which each later one keeps a layer; none where that fails.
std::optional<std::vector<std::size_t>> filled(const std::vector<double>& costs, std::size_t parts, double limit) {
  std::vector<std::size_t> first{0};
  for (std::size_t k = 1; k <= parts; ++k) {
    const std::size_t end = costs.size() - (parts - k);
    std::size_t i = first.back();
    for (double sum = 0; i < end && sum + costs[i] <= limit; ++i) sum += costs[i];
    if (i == first.back()) return std::nullopt;
    first.push_back(i);
  }
  return first.back() == costs.size() ? std::optional(first) : std::nullopt;
}

struct Message {
  Neighbour other;
  const Rank* queue = nullptr;
};

/// Messages that a step receives and sends; a stage of −1: none.
Message incoming(const Pipeline& pipeline, const Step& step) {
  if (step.work == Work::weight_gradient) return {};
  const bool forward = step.work == Work::forward;
  const Neighbour from = forward ? before(pipeline, step.chunk) : after(pipeline, step.chunk);
  return {from, &(forward ? pipeline.down : pipeline.up).at(static_cast<std::size_t>(from.link))};
}
Message outgoing(const Pipeline& pipeline, const Step& step) {
  if (step.work == Work::weight_gradient) return {};
  const bool forward = step.work == Work::forward;
  const Neighbour to = forward ? after(pipeline, step.chunk) : before(pipeline, step.chunk);
  return {to, &(forward ? pipeline.down : pipeline.up).at(static_cast<std::size_t>(to.link))};
}

struct UnderWay {
  Slice slice;
  Ticket ticket;
};

}  // namespace

std::vector<std::size_t> partition(const std::vector<double>& costs, int parts) {
  if (parts < 1 || costs.size() < static_cast<std::size_t>(parts))
    usage_error("no " + std::to_string(parts) + " stages from " + std::to_string(costs.size()) + " layers");
  std::set<double> limits;  // of all neighbouring layers: the largest part is one of them
  for (std::size_t begin = 0; begin < costs.size(); ++begin) {
    double sum = 0;
    for (std::size_t end = begin; end < costs.size(); ++end) limits.insert(sum += costs[end]);
  }
  for (const double limit : limits)
    if (const auto first = filled(costs, static_cast<std::size_t>(parts), limit)) return *first;
  return {};
}

void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model) {
  Rank main = pipeline.group;
  std::map<bool, std::list<UnderWay>> received;     // of forwards, and of the rest
  std::map<bool, std::size_t> posted;               // steps that were looked at
  std::map<const Rank*, std::list<UnderWay>> sent;  // by queue, the oldest first
  const auto boundary = [&](int microbatch) {
    return main.allocate(model.boundary_elements(microbatch), model.boundary_dtype(), Category::activation);
  };
  const auto post_ahead = [&](bool forward) {
    for (std::size_t& i = posted[forward]; i < steps.size() && received[forward].size() < 2; ++i) {
      const Message message = incoming(pipeline, steps[i]);
      if (message.other.stage < 0 || (steps[i].work == Work::forward) != forward) continue;
      const Slice slice = boundary(steps[i].microbatch);
      const int peer = message.other.stage;
      received[forward].push_back(
          {slice, main.run(*message.queue, [slice, peer](Rank link) { link.exchange({receive(peer, slice)}); })});
    }
  };
  for (const Step& step : steps) {
    post_ahead(false);
    post_ahead(true);
    const bool forward = step.work == Work::forward;
    UnderWay input;
    if (incoming(pipeline, step).other.stage >= 0) {
      input = received[forward].front();
      received[forward].pop_front();
      main.wait(input.ticket);
    }
    const Message message = outgoing(pipeline, step);
    const int peer = message.other.stage;
    const Slice output = peer < 0 ? Slice() : boundary(step.microbatch);
    if (forward)
      model.forward(step.microbatch, step.chunk, input.slice, output);
    else
      model.backward(step.work, step.microbatch, step.chunk, input.slice, output);
    if (peer < 0) continue;
    std::list<UnderWay>& queue = sent[message.queue];
    if (queue.size() == 2) {
      main.wait(queue.front().ticket);
      queue.pop_front();
    }
    queue.push_back(
        {output, main.run(*message.queue, [output, peer](Rank link) { link.exchange({send(peer, output)}); })});
  }
  for (auto& [queue, list] : sent)
    for (const UnderWay& message : list) main.wait(message.ticket);
}

}  // namespace lockstep::week24
