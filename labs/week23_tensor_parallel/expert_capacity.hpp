// Exercise 23.10 (extra): experts with a capacity, of which each rank's slots above it are dropped, and a loss that
// trains the router to spread tokens evenly. Symbols are those of experts.hpp.
//
// Lepikhin et al., "GShard" (arXiv 2006.16668), section 2.2: a capacity for each group of tokens, here a rank's. Fedus
// et al., "Switch Transformers" (arXiv 2101.03961), section 2.2: the capacity factor, and E·Σ f_e·P_e. Qiu et al.,
// "Demons in the Detail" (arXiv 2501.11873): f is counted over all ranks' tokens.
#pragma once

#include <cmath>

#include "labs/week23_tensor_parallel/experts.hpp"

namespace lockstep::week23 {

/// Given: ⌈factor · k·N/E⌉, the slots of a rank that an expert computes. With even routing each gets k·N/E.
inline std::size_t capacity_of(double factor, std::size_t tokens, std::size_t experts, std::size_t k) {
  return static_cast<std::size_t>(std::ceil(factor * static_cast<double>(k * tokens) / static_cast<double>(experts)));
}
/// Part a, on the host: the expert of each slot that is kept, and the number E for a slot that is dropped. An expert
/// keeps the first `capacity` slots that chose it: all tokens' first choices, in the order of tokens, then all second
/// choices, and so on. A dropped slot is not offered to another expert. capacity may be 0, or above N.
std::vector<std::int32_t> keep_within(const std::vector<std::int32_t>& expert_of, std::size_t experts, std::size_t k,
                                      std::size_t capacity);

/// Part b: make_saved with a capacity. All ranks of the group call it. Rows of dropped slots do not travel: plan.sent
/// counts the kept slots of each of E experts, and its order has them by expert, in ascending order, and the dropped
/// ones behind them. So 23.7's layer needs no change: a dropped slot's output and its weight's gradient are 0.
ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t capacity);

/// Part c: f_e, the share of the slots of all ranks of `world` that chose expert e, dropped or not. Every rank calls it
/// with its own `expert_of`, which may be empty, and gets the same E numbers, whose sum is 1. One ring_all_reduce
/// (21.2) of E numbers. Fewer than 2^24 slots in all, and at least one.
std::vector<float> load_of(Rank world, const std::vector<std::int32_t>& expert_of, std::size_t experts);
/// E·Σ f_e·P_e, where f is `load`, and P_e the mean probability of expert e over this rank's tokens, at least one. It
/// is 1 where f or P is even. If ranks have equally many tokens, the mean of their losses is the loss of all tokens.
float balance_loss(const Routing& routing, const std::vector<float>& load);
/// Its gradient by this rank's logits, N × E. f counts choices and has no gradient, so it is a constant here.
std::vector<float> balance_gradient(const Routing& routing, const std::vector<float>& load);

}  // namespace lockstep::week23
