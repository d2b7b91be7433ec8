// Shared by tests of experts (23.7, 23.10): a data-parallel training step, for any number of ranks that share the
// experts, against the loss of all tokens on one rank.
#pragma once

#include "labs/week23_tensor_parallel/experts_layer_testing.hpp"

namespace lockstep::week23::experts_test {

/// Groups of 1, 2, … ranks that share the experts, of all ranks.
inline CasePlan plan_of_groups() {
  const auto sizes = [](int ranks) {
    std::vector<std::size_t> groups;
    for (std::size_t p = 1; p <= static_cast<std::size_t>(ranks); p *= 2) groups.push_back(p);
    return groups;
  };
  return {.ranks = {1, 2, 4, 8}, .sizes = sizes, .unit = "sharing rank"};
}

inline constexpr std::size_t kExpertsOfAll = 8, kTokens = 4, kChoices = 2;

// In quarters, as the inputs are: logits are exact, and equal ones are equal everywhere.
inline std::vector<float> router_weight() { return quarters(200, kExpertsOfAll, kChannels); }
inline std::vector<float> target_of(int rank) { return quarters(220 + rank, kTokens, kChannels); }

/// Additions of another exercise: the way of the rows, and a gradient of the logits.
struct StepCode {
  std::function<ExpertsSaved(const ExpertParallel&, const Routing&)> saved = [](const auto& ep, const auto& routing) {
    return make_saved(ep, routing);
  };
  std::function<std::vector<float>(Rank, const Routing&)> more_dlogits = [](Rank, const Routing& routing) {
    return std::vector<float>(routing.probabilities.size());
  };
};

/// A step's gradients: of the router, and of this rank's experts. The loss of a token is ½|y|² + target · y.
inline Values step(Rank me, const Case& c, const StepCode& code = {}) {
  const int p = static_cast<int>(c.size);
  Rank group = me.split(me.rank() / p, me.rank()), same = me.split(me.rank() % p, me.rank());
  const ExpertParallel ep{group, kExpertsOfAll, kChoices, kChannels, kHidden};
  const std::size_t elements = ep.own() * kElements;
  const ExpertTensors values = experts_of(me, ep.own() * static_cast<std::size_t>(group.rank()), ep.own());
  Slice of_experts = me.allocate(2 * elements, DType::f32, Category::gradient);
  fill(me, of_experts, 0);
  const ExpertTensors gradients{of_experts.cut(0, elements), of_experts.cut(elements, elements)};
  Slice x = on_device(me, input_of(me.rank(), kTokens)), weight = on_device(me, router_weight(), Category::parameter);
  Slice logits = unwritten(me, kTokens * kExpertsOfAll), dlogits = unwritten(me, kTokens * kExpertsOfAll);
  Slice y = unwritten(me, x.size()), dx = unwritten(me, x.size()), dweights = unwritten(me, kTokens * kChoices);
  Slice dy = on_device(me, target_of(me.rank()));
  Slice of_router = me.allocate(weight.size(), DType::f32, Category::gradient);

  const Matrix rows = matrix(x, kTokens, kChannels);
  matmul(me, matrix(logits, kTokens, kExpertsOfAll), rows, matrix(weight, kExpertsOfAll, kChannels).t());
  const Routing routing = route(to_host(me, logits), kExpertsOfAll, kChoices);
  const ExpertsSaved saved = code.saved(ep, routing);
  experts_forward(ep, values, saved, y, x);
  add(me, dy, y);
  scale(me, dy, 1.0f / kTokens);
  experts_backward(ep, values, gradients, saved, dx, dweights, dy);
  std::vector<float> of_logits = router_gradient(routing, to_host(me, dweights), kExpertsOfAll, kChoices);
  const std::vector<float> more = code.more_dlogits(me, routing);
  for (std::size_t i = 0; i < more.size(); ++i) of_logits.at(i) += more[i];
  upload(me, dlogits, of_logits);
  matmul(me, matrix(of_router, kExpertsOfAll, kChannels), matrix(dlogits, kTokens, kExpertsOfAll).t(), rows);
  average_gradients(me, same, of_router, of_experts);
  Values seen;
  for (const Slice& slice : {of_router, gradients.up, gradients.down}) append(seen, to_host(me, slice));
  return seen;
}

/// The same by finite differences of the mean loss over all tokens, on one rank.
struct ExactStep {
  Whole whole{kChoices, {}, {}, {}, {}};
  Doubles router = doubles(router_weight()), targets, load = Doubles(kExpertsOfAll);
  double balance = 0;  // times 23.10's loss
  explicit ExactStep(int ranks, std::size_t capacity = kTokens, double times_balance = 0) : balance(times_balance) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const float value : input_of(rank, kTokens)) whole.x.push_back(value);
      for (const float value : target_of(rank)) targets.push_back(value);
    }
    whole.up = doubles(of_experts(0, kExpertsOfAll, up_of));
    whole.down = doubles(of_experts(0, kExpertsOfAll, down_of));
    const Doubles z = logits();
    const std::vector<std::int32_t> chosen = exact_routing({z.begin(), z.end()}, kExpertsOfAll, kChoices).experts;
    for (const std::int32_t expert : chosen)
      load[static_cast<std::size_t>(expert)] += 1.0 / static_cast<double>(chosen.size());
    for (auto of_rank = chosen.begin(); of_rank != chosen.end(); of_rank += kTokens * kChoices)
      for (const auto expert : exact_kept({of_rank, of_rank + kTokens * kChoices}, kExpertsOfAll, kChoices, capacity))
        whole.experts.push_back(expert);
  }
  Doubles logits() const {
    Doubles z(whole.x.size() / kChannels * kExpertsOfAll);
    for (std::size_t i = 0; i < z.size(); ++i)
      for (std::size_t j = 0; j < kChannels; ++j)
        z[i] += router[i % kExpertsOfAll * kChannels + j] * whole.x[i / kExpertsOfAll * kChannels + j];
    return z;
  }
  /// The choice stays as it is, which has no gradient.
  double loss() {
    const Doubles z = logits();
    whole.weights.clear();
    double sum = 0;
    for (std::size_t slot = 0; slot < whole.experts.size(); ++slot) {
      const double* of = &z[slot / kChoices * kExpertsOfAll];
      double all = 0, loaded = 0;
      for (std::size_t e = 0; e < kExpertsOfAll; ++e) all += std::exp(of[e]), loaded += load[e] * std::exp(of[e]);
      const auto expert = static_cast<std::size_t>(whole.experts[slot]);
      whole.weights.push_back(expert == kExpertsOfAll ? 0 : std::exp(of[expert]) / all);
      sum += balance * static_cast<double>(kExpertsOfAll) / kChoices * loaded / all;
    }
    const Doubles y = whole.y();
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * y[i] / 2 + targets[i] * y[i];
    return sum / static_cast<double>(whole.x.size() / kChannels);
  }
};

inline std::string wrong_step(const Case& c, const Outcome& outcome, ExactStep exact) {
  const auto of = [&](Doubles& parameters) {
    return gradient_by_differences(parameters, [&] { return exact.loss(); });
  };
  const Doubles router = of(exact.router), up = of(exact.whole.up), down = of(exact.whole.down);
  const auto p = static_cast<double>(c.size);
  const std::size_t own = kExpertsOfAll / c.size * kElements;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    const std::size_t first = own * (static_cast<std::size_t>(rank) % c.size);
    std::size_t at = 0;
    std::string wrong = differs_from(seen, at, rank, "the gradient of the router", router);
    for (const auto& [name, all] : {std::pair("the gradient of up", &up), std::pair("the gradient of down", &down)}) {
      if (!wrong.empty()) return wrong;
      const Doubles right = cut(*all, first, own);
      wrong = differs_from(seen, at, rank, name, right,
                           {{[&] { return times(right, p); }, "that is p times too much"},
                            {[&] { return times(right, 1 / p); }, "that is 1/p of it"}});
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace lockstep::week23::experts_test
