// 23.10 with the number of slots before each one counted anew, an order that is put together without group_by_expert,
// P summed before it meets f, and the gradient by 23.7d, as if every token had chosen all experts.
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

std::vector<std::int32_t> keep_within(const std::vector<std::int32_t>& expert_of, std::size_t experts, std::size_t k,
                                      std::size_t capacity) {
  std::vector<std::int32_t> kept;
  for (std::size_t slot = 0; slot < expert_of.size(); ++slot) {
    std::size_t before = 0;
    for (std::size_t other = 0; other < expert_of.size(); ++other)
      if (expert_of[other] == expert_of[slot] && (other % k < slot % k || (other % k == slot % k && other < slot)))
        ++before;
    kept.push_back(before < capacity ? expert_of[slot] : static_cast<std::int32_t>(experts));
  }
  return kept;
}

ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t capacity) {
  const std::vector<std::int32_t> kept = keep_within(routing.experts, ep.experts, ep.k, capacity);
  Grouping sent;
  for (std::size_t e = 0; e <= ep.experts; ++e) {
    const std::size_t before = sent.order.size();
    for (std::size_t slot = 0; slot < kept.size(); ++slot)
      if (kept[slot] == static_cast<std::int32_t>(e)) sent.order.push_back(static_cast<std::int32_t>(slot));
    if (e < ep.experts) sent.counts.push_back(sent.order.size() - before);
  }
  const std::vector<std::size_t> received = exchange_counts(ep.group, sent.counts);
  return make_saved(ep, routing, plan_rows(ep, std::move(sent), received));
}

std::vector<float> load_of(Rank world, const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  std::vector<float> counts(experts);
  for (const std::int32_t expert : expert_of) counts[static_cast<std::size_t>(expert)] += 1;
  Slice sums = world.allocate(experts, DType::f32, Category::buffer);
  upload(world, sums, counts);
  week21::ring_all_reduce(world, sums);
  std::vector<float> load;
  double all = 0;
  for (const float count : to_host(world, sums)) load.push_back(count), all += count;
  for (float& share : load) share = static_cast<float>(share / all);
  return load;
}

float balance_loss(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  double loss = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    double mean = 0;
    for (std::size_t n = 0; n < tokens; ++n) mean += routing.probabilities[n * experts + e];
    loss += load[e] * mean / static_cast<double>(tokens);
  }
  return static_cast<float>(loss * static_cast<double>(experts));
}

std::vector<float> balance_gradient(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  Routing all = routing;
  all.experts.clear();
  std::vector<float> gradients;
  for (std::size_t n = 0; n < tokens; ++n)
    for (std::size_t e = 0; e < experts; ++e) {
      all.experts.push_back(static_cast<std::int32_t>(e));
      gradients.push_back(load[e] * static_cast<float>(experts) / static_cast<float>(tokens));
    }
  return router_gradient(all, gradients, experts, experts);
}

}  // namespace lockstep::week23
