// Exercise 23.10: experts with a capacity. Read labs/week23_tensor_parallel/expert_capacity.hpp first.
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

std::vector<std::int32_t> keep_within(const std::vector<std::int32_t>& expert_of, std::size_t experts, std::size_t k,
                                      std::size_t capacity) {
  std::vector<std::int32_t> kept(expert_of.size(), static_cast<std::int32_t>(experts));  // all dropped
  todo("23.10a", "the slots that find room with their expert. In which order do they come?");
  return kept;
}

ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t capacity) {
  todo("23.10b", "the kept slots by expert, with the dropped ones behind them; and how their rows travel");
}

std::vector<float> load_of(Rank world, const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  Slice sums = world.allocate(experts, DType::f32, Category::buffer);
  todo("23.10c", "how many slots chose each expert, on this rank and then on all, and the shares of their sum");
}

float balance_loss(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  todo("23.10c", "E·Σ f_e·P_e");
}

std::vector<float> balance_gradient(const Routing& routing, const std::vector<float>& load) {
  const std::size_t experts = load.size(), tokens = routing.probabilities.size() / experts;
  const float scale = static_cast<float>(experts) / static_cast<float>(tokens);
  std::vector<float> dlogits(routing.probabilities.size());
  todo("23.10c", "the gradient of a probability, and then through the softmax as in 23.7d");
  return dlogits;
}

}  // namespace lockstep::week23
