// 23.10 with slots sorted by their turn, an order that is repaired after 23.7's grouping, shares that are added with
// their weights, and the softmax's gradient summed pair by pair.
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

std::vector<std::int32_t> keep_within(const std::vector<std::int32_t>& expert_of, std::size_t experts, std::size_t k,
                                      std::size_t capacity) {
  std::vector<std::size_t> turns(expert_of.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  std::stable_sort(turns.begin(), turns.end(), [k](std::size_t a, std::size_t b) { return a % k < b % k; });
  std::vector<std::size_t> room(experts, capacity);
  std::vector<std::int32_t> kept = expert_of;
  for (const std::size_t slot : turns) {
    std::size_t& left = room[static_cast<std::size_t>(expert_of[slot])];
    if (left > 0)
      --left;
    else
      kept[slot] = static_cast<std::int32_t>(experts);
  }
  return kept;
}

ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t capacity) {
  const auto nobody = static_cast<std::int32_t>(ep.experts);
  const std::vector<std::int32_t> kept = keep_within(routing.experts, ep.experts, ep.k, capacity);
  Grouping sent = group_by_expert(routing.experts, ep.experts);
  std::stable_partition(sent.order.begin(), sent.order.end(),
                        [&](std::int32_t slot) { return kept[static_cast<std::size_t>(slot)] != nobody; });
  for (std::size_t slot = 0; slot < kept.size(); ++slot)
    if (kept[slot] == nobody) --sent.counts[static_cast<std::size_t>(routing.experts[slot])];
  return make_saved(ep, routing, plan_rows(ep, sent, exchange_counts(ep.group, sent.counts)));
}

std::vector<float> load_of(Rank world, const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  const std::vector<std::size_t> counts = group_by_expert(expert_of, experts).counts;
  Slice sums = world.allocate(experts, DType::f32, Category::buffer);
  std::vector<float> load(counts.begin(), counts.end());
  upload(world, sums, load);
  week21::ring_all_reduce(world, sums);
  load = to_host(world, sums);
  scale(world, sums, 1 / std::accumulate(load.begin(), load.end(), 0.0f));
  return to_host(world, sums);
}

float balance_loss(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size();
  float mean = 0;
  for (std::size_t i = 0; i < routing.probabilities.size(); ++i)
    mean += (routing.probabilities[i] * load[i % experts] - mean) / static_cast<float>(i + 1);
  return mean * static_cast<float>(experts * experts);
}

std::vector<float> balance_gradient(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size();
  const std::vector<float>& p = routing.probabilities;
  std::vector<float> dlogits(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    for (std::size_t other = 0; other < experts; ++other)
      dlogits[i] += p[i] * p[i - i % experts + other] * (load[i % experts] - load[other]);
  for (float& value : dlogits) value *= static_cast<float>(experts * experts) / static_cast<float>(p.size());
  return dlogits;
}

}  // namespace lockstep::week23
