// Exercise 23.7: experts on different ranks. Read labs/week23_tensor_parallel/experts.hpp first.
#include "labs/week23_tensor_parallel/experts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

Routing route(const std::vector<float>& logits, std::size_t experts, std::size_t k) {
  Routing routing;
  for (auto first = logits.begin(); first != logits.end(); first += static_cast<std::ptrdiff_t>(experts)) {
    const std::vector<float> z(first, first + static_cast<std::ptrdiff_t>(experts));
    std::vector<std::int32_t> ranked(experts);  // 0, 1, …: to be sorted
    std::iota(ranked.begin(), ranked.end(), 0);
    todo("23.7a",
         "of the token whose E logits are z, append the probabilities to routing.probabilities, where exp must not "
         "overflow, and the k experts to routing.experts");
  }
  return routing;
}

Grouping group_by_expert(const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  Grouping grouping{std::vector<std::size_t>(experts), std::vector<std::int32_t>(expert_of.size())};
  todo("23.7a", "how many each expert has, and their places in expert_of, an expert's together and in ascending "
                "order");
  return grouping;
}

void all_to_all(Rank group, Slice to, const std::vector<std::size_t>& received, Slice from,
                const std::vector<std::size_t>& sent, std::size_t width) {
  std::vector<Transfer> batch;
  std::size_t out = 0, in = 0;
  for (std::size_t q = 0; q < sent.size(); ++q) {
    const Slice going = from.cut(out * width, sent[q] * width), coming = to.cut(in * width, received[q] * width);
    const int peer = static_cast<int>(q);
    todo("23.7b", "what goes to rank q and what comes from there: into the batch, or copied, or nothing at all");
    out += sent[q];
    in += received[q];
  }
  group.exchange(batch);
}

std::vector<std::size_t> exchange_counts(Rank group, const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> received;
  const std::vector<std::int32_t> numbers(counts.begin(), counts.end());
  Slice mine = group.allocate(counts.size(), DType::i32, Category::buffer);
  Slice theirs = group.allocate(counts.size(), DType::i32, Category::buffer);
  todo("23.7b", "an all-to-all as well. How many numbers go to each rank?");
  return received;
}

void dispatch(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.leaving()), arriving = rows_of(ep, plan.received.order.size());
  todo("23.7c", "the rows in the order in which they leave, the all-to-all, and by expert");
}

void collect(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.received.order.size()), arriving = rows_of(ep, plan.leaving());
  todo("23.7c", "dispatch backwards. What is the transpose of each of its steps?");
}

void experts_forward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved, Slice y,
                     Slice x) {
  const std::size_t c = ep.channels, k = ep.k, tokens = x.size() / c;
  Slice result = rows_of(ep, saved.plan.received.order.size());
  todo("23.7c",
       "the rows to their experts, run_experts, the outputs back to their slots, and each token's weighted sum: a "
       "product of 1 × k and k × C");
}

void experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                      const ExpertsSaved& saved, Slice dx, Slice dweights, Slice dy) {
  const std::size_t c = ep.channels, k = ep.k, tokens = dx.size() / c, rows = saved.plan.received.order.size();
  Slice doutputs = rows_of(ep, tokens * k), dresult = rows_of(ep, rows), dinput = rows_of(ep, rows);
  todo("23.7c", "the gradients of both factors of each token's product, then the forward pass from its end");
}

std::vector<float> router_gradient(const Routing& routing, const std::vector<float>& dweights, std::size_t experts,
                                   std::size_t k) {
  std::vector<float> dlogits(routing.probabilities.size());
  const std::vector<float> weights = weights_of(routing, experts, k);
  todo("23.7d",
       "with g the gradient of a token's probabilities, which is 0 for experts that were not chosen: dlogit_e = "
       "probability_e · (g_e − Σ_j probability_j · g_j)");
  return dlogits;
}

void average_gradients(Rank world, Rank same_experts, Slice replicated, Slice experts) {
  todo("23.7d", "which ranks' tokens are in `experts` already, and what do both have to be divided by?");
}

}  // namespace lockstep::week23
