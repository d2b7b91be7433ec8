// 23.7 as PyTorch's pieces do it: a partial sort by logit, all sends before all receives, rows copied one by one, and a
// mean over the holders of an expert, times the factor that it lacks.
#include "labs/week23_tensor_parallel/experts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

Routing route(const std::vector<float>& logits, std::size_t experts, std::size_t k) {
  Routing routing{logits, {}};
  for (auto first = routing.probabilities.begin(); first != routing.probabilities.end();
       first += static_cast<std::ptrdiff_t>(experts)) {
    const auto last = first + static_cast<std::ptrdiff_t>(experts);
    std::vector<std::pair<float, std::int32_t>> ranked;
    for (auto z = first; z != last; ++z) ranked.emplace_back(-*z, static_cast<std::int32_t>(z - first));
    std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(k), ranked.end());
    for (std::size_t j = 0; j < k; ++j) routing.experts.push_back(ranked[j].second);
    const float most = -ranked[0].first;
    for (auto z = first; z != last; ++z) *z = std::exp(*z - most);
    const float sum = std::accumulate(first, last, 0.0f);
    for (auto z = first; z != last; ++z) *z /= sum;
  }
  return routing;
}

Grouping group_by_expert(const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  Grouping grouping;
  for (std::size_t e = 0; e < experts; ++e) {
    const std::size_t before = grouping.order.size();
    for (std::size_t i = 0; i < expert_of.size(); ++i)
      if (static_cast<std::size_t>(expert_of[i]) == e) grouping.order.push_back(static_cast<std::int32_t>(i));
    grouping.counts.push_back(grouping.order.size() - before);
  }
  return grouping;
}

void all_to_all(Rank group, Slice to, const std::vector<std::size_t>& received, Slice from,
                const std::vector<std::size_t>& sent, std::size_t width) {
  std::vector<Transfer> batch;
  Slice going, coming;
  const auto each = [&](Slice array, const std::vector<std::size_t>& counts, Slice& own, const auto& transfer) {
    for (int q = 0; q < group.size(); ++q) {
      const std::size_t count = counts[static_cast<std::size_t>(q)] * width;
      if (q == group.rank())
        own = array.cut(0, count);
      else if (count > 0)
        batch.push_back(transfer(q, array.cut(0, count)));
      array = array.cut(count, array.size() - count);
    }
  };
  each(from, sent, going, send);
  each(to, received, coming, receive);
  if (!going.empty()) copy(group, coming, going);
  group.exchange(batch);
}

std::vector<std::size_t> exchange_counts(Rank group, const std::vector<std::size_t>& counts) {
  const std::vector<std::int32_t> numbers(counts.begin(), counts.end());
  const std::size_t own = counts.size() / static_cast<std::size_t>(group.size());
  Slice both = group.allocate(2 * counts.size(), DType::i32, Category::buffer);
  const Slice mine = both.cut(0, counts.size()), theirs = both.cut(counts.size(), counts.size());
  upload(group, mine, numbers);
  const std::vector<std::size_t> split(static_cast<std::size_t>(group.size()), own);
  all_to_all(group, theirs, split, mine, split, 1);
  std::vector<std::size_t> received;
  for (const float count : to_host(group, theirs)) received.push_back(static_cast<std::size_t>(std::lround(count)));
  return received;
}

void dispatch(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.leaving()), arriving = rows_of(ep, plan.received.order.size());
  take_rows(ep, leaving, from, plan.sent.order);
  all_to_all(ep.group, arriving, plan.from_rank, leaving, plan.to_rank, ep.channels);
  for (std::size_t i = 0; i < plan.received.order.size(); ++i)
    copy(ep.group, part(to, i, 1, ep.channels).slice,
         part(arriving, static_cast<std::size_t>(plan.received.order[i]), 1, ep.channels).slice);
}

void collect(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from) {
  Slice leaving = rows_of(ep, plan.received.order.size()), arriving = rows_of(ep, plan.leaving());
  for (std::size_t i = 0; i < plan.received.order.size(); ++i)
    copy(ep.group, part(leaving, static_cast<std::size_t>(plan.received.order[i]), 1, ep.channels).slice,
         part(from, i, 1, ep.channels).slice);
  all_to_all(ep.group, arriving, plan.to_rank, leaving, plan.from_rank, ep.channels);
  put_rows(ep, to, arriving, plan.sent.order);
}

void experts_forward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved, Slice y,
                     Slice x) {
  const std::size_t c = ep.channels, k = ep.k;
  Slice result = rows_of(ep, saved.plan.received.order.size());
  dispatch(ep, saved.plan, saved.input, x);
  run_experts(ep, values, saved, result);
  collect(ep, saved.plan, saved.outputs, result);
  for (std::size_t n = x.size() / c; n-- > 0;)
    matmul(ep.group, part(y, n, 1, c), part(saved.weights, n, k, 1).t(), part(saved.outputs, n, k, c));
}

void experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                      const ExpertsSaved& saved, Slice dx, Slice dweights, Slice dy) {
  const std::size_t c = ep.channels, k = ep.k, tokens = dx.size() / c, rows = saved.plan.received.order.size();
  Slice doutputs = rows_of(ep, tokens * k), dresult = rows_of(ep, rows);
  for (std::size_t n = 0; n < tokens; ++n) {
    matmul(ep.group, part(dweights, n, k, 1), part(saved.outputs, n, k, c), part(dy, n, 1, c).t());
    matmul(ep.group, part(doutputs, n, k, c), part(saved.weights, n, k, 1), part(dy, n, 1, c));
  }
  dispatch(ep, saved.plan, dresult, doutputs);
  Slice dinput = rows_of(ep, rows);
  run_experts_backward(ep, values, gradients, saved, dinput, dresult);
  collect(ep, saved.plan, dx, dinput);
}

std::vector<float> router_gradient(const Routing& routing, const std::vector<float>& dweights, std::size_t experts,
                                   std::size_t k) {
  std::vector<float> dlogits(routing.probabilities.size());
  for (std::size_t s = 0; s < dweights.size(); ++s) {
    const auto probability = routing.probabilities.begin() + static_cast<std::ptrdiff_t>(s / k * experts);
    const auto of = [&](std::size_t e) { return probability[static_cast<std::ptrdiff_t>(e)]; };
    const auto chosen = static_cast<std::size_t>(routing.experts[s]);
    for (std::size_t e = 0; e < experts; ++e)
      dlogits[s / k * experts + e] += dweights[s] * of(chosen) * ((e == chosen ? 1.0f : 0.0f) - of(e));
  }
  return dlogits;
}

void average_gradients(Rank world, Rank same_experts, Slice replicated, Slice experts) {
  const auto mean = [](Rank group, const Slice& gradient) {
    week21::ring_all_reduce(group, gradient);
    scale(group, gradient, 1.0f / static_cast<float>(group.size()));
  };
  mean(world, replicated);
  mean(same_experts, experts);
  scale(world, experts, static_cast<float>(same_experts.size()) / static_cast<float>(world.size()));
}

}  // namespace lockstep::week23
