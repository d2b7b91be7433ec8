// 23.7 with counts instead of sorting, peers in the order of their distance, counts as floats, one product for each
// slot, and gradients that are divided before they travel.
#include "labs/week23_tensor_parallel/experts.hpp"

#include <cmath>
#include <numeric>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

Routing route(const std::vector<float>& logits, std::size_t experts, std::size_t k) {
  Routing routing;
  for (std::size_t first = 0; first < logits.size(); first += experts) {
    double log_sum = -INFINITY;
    for (std::size_t e = 0; e < experts; ++e) {
      const double z = logits[first + e], most = std::fmax(z, log_sum);
      log_sum = most + std::log(std::exp(z - most) + std::exp(log_sum - most));
    }
    for (std::size_t e = 0; e < experts; ++e)
      routing.probabilities.push_back(static_cast<float>(std::exp(logits[first + e] - log_sum)));
    std::vector<bool> chosen(experts);
    for (std::size_t j = 0; j < k; ++j) {
      std::size_t best = 0;
      while (chosen[best]) ++best;
      for (std::size_t e = best; e < experts; ++e)
        if (!chosen[e] && logits[first + e] > logits[first + best]) best = e;
      chosen[best] = true;
      routing.experts.push_back(static_cast<std::int32_t>(best));
    }
  }
  return routing;
}

Grouping group_by_expert(const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  std::vector<std::size_t> counts(experts), next(experts);
  for (const std::int32_t expert : expert_of) ++counts[static_cast<std::size_t>(expert)];
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::size_t{0});
  std::vector<std::int32_t> order(expert_of.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[next[static_cast<std::size_t>(expert_of[i])]++] = static_cast<std::int32_t>(i);
  return {counts, order};
}

void all_to_all(Rank group, Slice to, const std::vector<std::size_t>& received, Slice from,
                const std::vector<std::size_t>& sent, std::size_t width) {
  const auto part_of = [width](const Slice& array, const std::vector<std::size_t>& counts, std::size_t q) {
    const auto first = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(q), std::size_t{0});
    return array.cut(first * width, counts[q] * width);
  };
  const std::size_t p = sent.size(), r = static_cast<std::size_t>(group.rank());
  std::vector<Transfer> batch;
  for (std::size_t step = 1; step < p; ++step) {
    const std::size_t next = (r + step) % p, previous = (r + p - step) % p;
    if (received[previous] > 0) batch.push_back(receive(static_cast<int>(previous), part_of(to, received, previous)));
    if (sent[next] > 0) batch.push_back(send(static_cast<int>(next), part_of(from, sent, next)));
  }
  const Ticket ticket = batch.empty() ? Ticket() : group.start(batch);
  copy(group, part_of(to, received, r), part_of(from, sent, r));
  group.wait(ticket);
}

std::vector<std::size_t> exchange_counts(Rank group, const std::vector<std::size_t>& counts) {
  const std::vector<float> numbers(counts.begin(), counts.end());
  Slice mine = group.allocate(counts.size(), DType::f32, Category::buffer);
  Slice theirs = group.allocate(counts.size(), DType::f32, Category::buffer);
  upload(group, mine, numbers);
  const auto p = static_cast<std::size_t>(group.size());
  const std::vector<std::size_t> each(p, counts.size() / p);
  all_to_all(group, theirs, each, mine, each, 1);
  const std::vector<float> received = to_host(group, theirs);
  return {received.begin(), received.end()};
}

namespace {

/// The place at which each element of an order stands.
std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return places;
}

}  // namespace

void dispatch(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.leaving()), arriving = rows_of(ep, plan.received.order.size());
  take_rows(ep, leaving, from, plan.sent.order);
  all_to_all(ep.group, arriving, plan.from_rank, leaving, plan.to_rank, ep.channels);
  put_rows(ep, to, arriving, inverse(plan.received.order));
}

void collect(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.received.order.size()), arriving = rows_of(ep, plan.leaving());
  take_rows(ep, leaving, from, inverse(plan.received.order));
  all_to_all(ep.group, arriving, plan.to_rank, leaving, plan.from_rank, ep.channels);
  put_rows(ep, to, arriving, plan.sent.order);
}

void experts_forward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved, Slice y,
                     Slice x) {
  Slice result = rows_of(ep, saved.plan.received.order.size());
  dispatch(ep, saved.plan, saved.input, x);
  run_experts(ep, values, saved, result);
  collect(ep, saved.plan, saved.outputs, result);
  fill(ep.group, y, 0);
  for (std::size_t slot = saved.weights.size(); slot-- > 0;)
    matmul(ep.group, part(y, slot / ep.k, 1, ep.channels), part(saved.weights, slot, 1, 1),
           part(saved.outputs, slot, 1, ep.channels), Into::accumulate);
}

void experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                      const ExpertsSaved& saved, Slice dx, Slice dweights, Slice dy) {
  const std::size_t c = ep.channels, rows = saved.plan.received.order.size();
  Slice doutputs = rows_of(ep, saved.weights.size()), dresult = rows_of(ep, rows), dinput = rows_of(ep, rows);
  for (std::size_t slot = 0; slot < saved.weights.size(); ++slot)
    matmul(ep.group, part(doutputs, slot, 1, c), part(saved.weights, slot, 1, 1), part(dy, slot / ep.k, 1, c));
  dispatch(ep, saved.plan, dresult, doutputs);
  run_experts_backward(ep, values, gradients, saved, dinput, dresult);
  collect(ep, saved.plan, dx, dinput);
  for (std::size_t slot = 0; slot < saved.weights.size(); ++slot)
    matmul(ep.group, part(dweights, slot, 1, 1), part(saved.outputs, slot, 1, c), part(dy, slot / ep.k, 1, c).t());
}

std::vector<float> router_gradient(const Routing& routing, const std::vector<float>& dweights, std::size_t experts,
                                   std::size_t k) {
  std::vector<float> gradient = routing.probabilities;
  for (std::size_t n = 0; n < gradient.size() / experts; ++n) {
    std::vector<double> g(experts);
    for (std::size_t s = n * k; s < (n + 1) * k; ++s) g[static_cast<std::size_t>(routing.experts[s])] = dweights[s];
    double mean = 0;
    for (std::size_t e = 0; e < experts; ++e) mean += g[e] * routing.probabilities[n * experts + e];
    for (std::size_t e = 0; e < experts; ++e) gradient[n * experts + e] *= static_cast<float>(g[e] - mean);
  }
  return gradient;
}

void average_gradients(Rank world, Rank same_experts, Slice replicated, Slice experts) {
  for (const Slice& gradient : {replicated, experts}) scale(world, gradient, 1.0f / static_cast<float>(world.size()));
  week21::ring_all_reduce(same_experts, experts);
  week21::ring_all_reduce(world, replicated);
}

}  // namespace lockstep::week23
