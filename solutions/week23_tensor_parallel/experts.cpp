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
    // lab 23.7a begin: of the token whose E logits are z, append the probabilities to routing.probabilities, where exp
    // must not overflow, and the k experts to routing.experts
    const float most = *std::max_element(z.begin(), z.end());
    float sum = 0;
    for (const float logit : z) sum += std::exp(logit - most);
    for (const float logit : z) routing.probabilities.push_back(std::exp(logit - most) / sum);
    std::stable_sort(ranked.begin(), ranked.end(), [&](std::int32_t a, std::int32_t b) {
      return z[static_cast<std::size_t>(a)] > z[static_cast<std::size_t>(b)];
    });
    for (std::size_t j = 0; j < k; ++j) routing.experts.push_back(ranked[j]);
    // lab end
  }
  return routing;
}

Grouping group_by_expert(const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  Grouping grouping{std::vector<std::size_t>(experts), std::vector<std::int32_t>(expert_of.size())};
  // lab 23.7a begin: how many each expert has, and their places in expert_of, an expert's together and in ascending
  // order
  for (const std::int32_t expert : expert_of) ++grouping.counts[static_cast<std::size_t>(expert)];
  std::iota(grouping.order.begin(), grouping.order.end(), 0);
  std::stable_sort(grouping.order.begin(), grouping.order.end(), [&](std::int32_t a, std::int32_t b) {
    return expert_of[static_cast<std::size_t>(a)] < expert_of[static_cast<std::size_t>(b)];
  });
  // lab end
  return grouping;
}

void all_to_all(Rank group, Slice to, const std::vector<std::size_t>& received, Slice from,
                const std::vector<std::size_t>& sent, std::size_t width) {
  std::vector<Transfer> batch;
  std::size_t out = 0, in = 0;
  for (std::size_t q = 0; q < sent.size(); ++q) {
    const Slice going = from.cut(out * width, sent[q] * width), coming = to.cut(in * width, received[q] * width);
    const int peer = static_cast<int>(q);
    // lab 23.7b begin: what goes to rank q and what comes from there: into the batch, or copied, or nothing at all
    if (peer == group.rank()) copy(group, coming, going);
    if (peer != group.rank() && !going.empty()) batch.push_back(send(peer, going));
    if (peer != group.rank() && !coming.empty()) batch.push_back(receive(peer, coming));
    // lab end
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
  // lab 23.7b begin: an all-to-all as well. How many numbers go to each rank?
  upload(group, mine, numbers);
  const auto p = static_cast<std::size_t>(group.size());
  const std::vector<std::size_t> one(p, 1);
  all_to_all(group, theirs, one, mine, one, counts.size() / p);
  for (const float count : to_host(group, theirs)) received.push_back(static_cast<std::size_t>(count));
  // lab end
  return received;
}

void dispatch(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.leaving()), arriving = rows_of(ep, plan.received.order.size());
  // lab 23.7c begin: the rows in the order in which they leave, the all-to-all, and by expert
  take_rows(ep, leaving, from, plan.sent.order);
  all_to_all(ep.group, arriving, plan.from_rank, leaving, plan.to_rank, ep.channels);
  take_rows(ep, to, arriving, plan.received.order);
  // lab end
}

void collect(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.received.order.size()), arriving = rows_of(ep, plan.leaving());
  // lab 23.7c begin: dispatch backwards. What is the transpose of each of its steps?
  put_rows(ep, leaving, from, plan.received.order);
  all_to_all(ep.group, arriving, plan.to_rank, leaving, plan.from_rank, ep.channels);
  put_rows(ep, to, arriving, plan.sent.order);
  // lab end
}

void experts_forward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved, Slice y,
                     Slice x) {
  const std::size_t c = ep.channels, k = ep.k, tokens = x.size() / c;
  Slice result = rows_of(ep, saved.plan.received.order.size());
  // lab 23.7c begin: the rows to their experts, run_experts, the outputs back to their slots, and each token's weighted
  // sum: a product of 1 × k and k × C
  dispatch(ep, saved.plan, saved.input, x);
  run_experts(ep, values, saved, result);
  collect(ep, saved.plan, saved.outputs, result);
  for (std::size_t n = 0; n < tokens; ++n)
    matmul(ep.group, part(y, n, 1, c), part(saved.weights, n, 1, k), part(saved.outputs, n, k, c));
  // lab end
}

void experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                      const ExpertsSaved& saved, Slice dx, Slice dweights, Slice dy) {
  const std::size_t c = ep.channels, k = ep.k, tokens = dx.size() / c, rows = saved.plan.received.order.size();
  Slice doutputs = rows_of(ep, tokens * k), dresult = rows_of(ep, rows), dinput = rows_of(ep, rows);
  // lab 23.7c begin: the gradients of both factors of each token's product, then the forward pass from its end
  for (std::size_t n = 0; n < tokens; ++n) {
    matmul(ep.group, part(doutputs, n, k, c), part(saved.weights, n, 1, k).t(), part(dy, n, 1, c));
    matmul(ep.group, part(dweights, n, 1, k), part(dy, n, 1, c), part(saved.outputs, n, k, c).t());
  }
  dispatch(ep, saved.plan, dresult, doutputs);
  run_experts_backward(ep, values, gradients, saved, dinput, dresult);
  collect(ep, saved.plan, dx, dinput);
  // lab end
}

std::vector<float> router_gradient(const Routing& routing, const std::vector<float>& dweights, std::size_t experts,
                                   std::size_t k) {
  std::vector<float> dlogits(routing.probabilities.size());
  const std::vector<float> weights = weights_of(routing, experts, k);
  // lab 23.7d begin: with g the gradient of a token's probabilities, which is 0 for experts that were not chosen:
  // dlogit_e = probability_e · (g_e − Σ_j probability_j · g_j)
  for (std::size_t n = 0; n < dlogits.size() / experts; ++n) {
    float mean = 0;
    for (std::size_t s = n * k; s < (n + 1) * k; ++s) mean += weights[s] * dweights[s];
    for (std::size_t e = n * experts; e < (n + 1) * experts; ++e) dlogits[e] = -mean * routing.probabilities[e];
    for (std::size_t s = n * k; s < (n + 1) * k; ++s)
      dlogits[n * experts + static_cast<std::size_t>(routing.experts[s])] += weights[s] * dweights[s];
  }
  // lab end
  return dlogits;
}

void average_gradients(Rank world, Rank same_experts, Slice replicated, Slice experts) {
  // lab 23.7d begin: which ranks' tokens are in `experts` already, and what do both have to be divided by?
  week21::ring_all_reduce(world, replicated);
  week21::ring_all_reduce(same_experts, experts);
  for (const Slice& sum : {replicated, experts}) scale(world, sum, 1.0f / static_cast<float>(world.size()));
  // lab end
}

}  // namespace lockstep::week23
