// Exercise 23.10: experts with a capacity. Read labs/week23_tensor_parallel/expert_capacity.hpp first.
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

std::vector<std::int32_t> keep_within(const std::vector<std::int32_t>& expert_of, std::size_t experts, std::size_t k,
                                      std::size_t capacity) {
  std::vector<std::int32_t> kept(expert_of.size(), static_cast<std::int32_t>(experts));  // all dropped
  // lab 23.10a begin: the slots that find room with their expert. In which order do they come?
  std::vector<std::size_t> taken(experts);
  for (std::size_t choice = 0; choice < k; ++choice)
    for (std::size_t slot = choice; slot < expert_of.size(); slot += k)
      if (taken[static_cast<std::size_t>(expert_of[slot])]++ < capacity) kept[slot] = expert_of[slot];
  // lab end
  return kept;
}

ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t capacity) {
  // lab 23.10b begin: the kept slots by expert, with the dropped ones behind them; and how their rows travel
  Grouping sent = group_by_expert(keep_within(routing.experts, ep.experts, ep.k, capacity), ep.experts + 1);
  sent.counts.pop_back();
  return make_saved(ep, routing, plan_rows(ep, sent, exchange_counts(ep.group, sent.counts)));
  // lab end
}

std::vector<float> load_of(Rank world, const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  Slice sums = world.allocate(experts, DType::f32, Category::buffer);
  // lab 23.10c begin: how many slots chose each expert, on this rank and then on all, and the shares of their sum
  const std::vector<std::size_t> counts = group_by_expert(expert_of, experts).counts;
  upload(world, sums, std::vector<float>(counts.begin(), counts.end()));
  week21::ring_all_reduce(world, sums);
  std::vector<float> load = to_host(world, sums);
  for (const float all = std::accumulate(load.begin(), load.end(), 0.0f); float& share : load) share /= all;
  return load;
  // lab end
}

float balance_loss(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  // lab 23.10c begin: E·Σ f_e·P_e
  float sum = 0;
  for (std::size_t i = 0; i < tokens * experts; ++i) sum += load[i % experts] * routing.probabilities[i];
  return sum * static_cast<float>(experts) / static_cast<float>(tokens);
  // lab end
}

std::vector<float> balance_gradient(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  const float scale = static_cast<float>(experts) / static_cast<float>(tokens);
  std::vector<float> dlogits(routing.probabilities.size());
  // lab 23.10c begin: the gradient of a probability, and then through the softmax as in 23.7d
  for (std::size_t n = 0; n < tokens; ++n) {
    const auto first = routing.probabilities.begin() + static_cast<std::ptrdiff_t>(n * experts);
    const float mean = std::inner_product(load.begin(), load.end(), first, 0.0f);
    for (std::size_t i = n * experts, e = 0; e < experts; ++i, ++e)
      dlogits[i] = scale * routing.probabilities[i] * (load[e] - mean);
  }
  // lab end
  return dlogits;
}

}  // namespace lockstep::week23
