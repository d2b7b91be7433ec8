// Tests of exercise 23.7, parts c and d: the layer against one rank that holds all experts, what it sends, and the
// gradients of a whole data-parallel step, whatever the number of ranks that share the experts.
#include "common/support/text/counted.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/experts_testing.hpp"

namespace lockstep::week23::experts_test {
namespace {

constexpr std::size_t kElements = kHidden * kChannels;  // of one matrix of an expert

std::vector<float> input_of(int rank, std::size_t tokens) { return quarters(60 + rank, tokens, kChannels); }
std::vector<float> output_gradient_of(int rank, std::size_t tokens) { return quarters(80 + rank, tokens, kChannels); }
std::vector<float> up_of(std::size_t expert) { return quarters(100 + static_cast<int>(expert), kHidden, kChannels); }
std::vector<float> down_of(std::size_t expert) { return quarters(140 + static_cast<int>(expert), kChannels, kHidden); }

Slice on_device(Rank me, const std::vector<float>& values, Category category = Category::activation) {
  Slice slice = me.allocate(values.size(), DType::f32, category);
  upload(me, slice, values);
  return slice;
}
template <class F>
std::vector<float> of_experts(std::size_t first, std::size_t count, const F& f) {
  std::vector<float> all;
  for (std::size_t e = first; e < first + count; ++e)
    for (const float value : f(e)) all.push_back(value);
  return all;
}
ExpertTensors experts_of(Rank me, std::size_t first, std::size_t count) {
  return {on_device(me, of_experts(first, count, up_of), Category::parameter),
          on_device(me, of_experts(first, count, down_of), Category::parameter)};
}

// Part c --------------------------------------------------------------------------------------------------------------

/// What has been sent since: bytes, batches.
struct Sent {
  Rank me;
  RankLedger before = ledger_of(me);
  Values since() const {
    const RankLedger now = ledger_of(me);
    return {static_cast<double>(now.traffic.bytes_sent - before.traffic.bytes_sent),
            static_cast<double>(now.batches - before.batches)};
  }
};

testing::CaseProgram layer(bool backward) {
  return [=](Rank me, const Case& c) {
    const Load load(c);
    const ExpertParallel ep{me, load.experts, load.k, kChannels, kHidden};
    const std::size_t tokens = load.tokens(me.rank()), first = ep.own() * static_cast<std::size_t>(me.rank());
    const Routing routing = exact_routing(load.logits(me.rank()), load.experts, load.k);
    const ExpertTensors values = experts_of(me, first, ep.own());
    const ExpertTensors gradients{ones(me, values.up), ones(me, values.down)};
    Slice x = on_device(me, input_of(me.rank(), tokens)), dy = on_device(me, output_gradient_of(me.rank(), tokens));
    Slice y = unwritten(me, x.size()), dx = unwritten(me, x.size()), dweights = unwritten(me, tokens * load.k);
    const ExpertsSaved saved = make_saved(ep, routing);
    Values seen;
    const Sent forward{me};
    experts_forward(ep, values, saved, y, x);
    append(seen, to_host(me, y));
    for (const double number : forward.since()) seen.push_back(number);
    if (!backward) return seen;
    const Sent back{me};
    experts_backward(ep, values, gradients, saved, dx, dweights, dy);
    for (const Slice& slice : {dx, dweights, gradients.up, gradients.down}) append(seen, to_host(me, slice));
    for (const double number : back.since()) seen.push_back(number);
    return seen;
  };
}

/// The same on one rank; and dy of all tokens.
struct Exact {
  Whole whole;
  Doubles dy;
  explicit Exact(const Load& load) {
    whole.k = load.k;
    for (int rank = 0; rank < load.ranks; ++rank) {
      const std::size_t tokens = load.tokens(rank);
      const Routing routing = exact_routing(load.logits(rank), load.experts, load.k);
      const auto put = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
      put(whole.x, input_of(rank, tokens));
      put(dy, output_gradient_of(rank, tokens));
      put(whole.experts, routing.experts);
      put(whole.weights, weights_of(routing, load.experts, load.k));
    }
    whole.up = doubles(of_experts(0, load.experts, up_of));
    whole.down = doubles(of_experts(0, load.experts, down_of));
  }
  Doubles gradient(Doubles Whole::*of) {
    return gradient_by_differences(whole.*of, [&] {
      const Doubles y = whole.y();
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    });
  }
  Exact without_weights() const {
    Exact other = *this;
    std::fill(other.whole.weights.begin(), other.whole.weights.end(), 1.0);
    return other;
  }
};

/// Rows that `rank` exchanges with others: what it sends there, and what comes here and is sent back.
std::size_t rows_away(const Load& load, int rank) {
  const std::size_t own = load.experts / static_cast<std::size_t>(load.ranks);
  std::size_t count = 0;
  for (int from = 0; from < load.ranks; ++from)
    for (const std::int32_t expert : exact_routing(load.logits(from), load.experts, load.k).experts) {
      const int to = expert / static_cast<int>(own);
      if ((from == rank) != (to == rank)) ++count;
    }
  return count;
}
std::string wrong_bytes(const Values& seen, std::size_t& at, int rank, const Load& load, const char* pass) {
  const std::size_t rows = rows_away(load, rank), bytes = rows * kChannels * 4;
  const double sent = seen.at(at), batches = seen.at(at + 1);
  at += 2;
  if (batches > 2)
    return fmt::format("rank {} started {:g} batches in the {} pass, expected two: rows there, and back", rank, batches,
                       pass);
  if (sent != static_cast<double>(bytes))
    return fmt::format("rank {} sent {:g} bytes in the {} pass, expected {}: {} of {} elements", rank, sent, pass,
                       bytes, counted(rows, "row"), kChannels);
  return "";
}

std::string wrong_forward(const Case& c, const Outcome& outcome) {
  const Load load(c);
  const Exact exact(load);
  const Doubles y = exact.whole.y();
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::size_t first = load.tokens_before(rank) * kChannels, count = load.tokens(rank) * kChannels;
    std::size_t at = 0;
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    std::string wrong = differs_from(seen, at, rank, "y", cut(y, first, count),
                                     {{[&] { return cut(exact.without_weights().whole.y(), first, count); },
                                       "the outputs are added without their weights"}});
    if (wrong.empty()) wrong = wrong_bytes(seen, at, rank, load, "forward");
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string wrong_backward(const Case& c, const Outcome& outcome) {
  const Load load(c);
  Exact exact(load), bare = exact.without_weights();
  struct Tensor {
    const char* name;
    Doubles Whole::*of;
    std::size_t width;  // of a token, or of a rank's experts
    Doubles right;
  };
  const std::size_t own = load.experts / static_cast<std::size_t>(c.ranks) * kElements;
  const auto tensor = [&](const char* name, Doubles Whole::*of, std::size_t width) {
    return Tensor{name, of, width, exact.gradient(of)};
  };
  const std::vector<Tensor> of_tokens = {tensor("dx", &Whole::x, kChannels),
                                         tensor("dweights", &Whole::weights, load.k)},
                            of_experts = {tensor("the gradient of up", &Whole::up, own),
                                          tensor("the gradient of down", &Whole::down, own)};
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    std::size_t at = load.tokens(rank) * kChannels + 2;  // behind y and what forward has sent
    std::string wrong;
    for (const Tensor& all : of_tokens) {
      const auto of_rank = [&](const Doubles& values) {
        return cut(values, load.tokens_before(rank) * all.width, load.tokens(rank) * all.width);
      };
      wrong = differs_from(
          seen, at, rank, all.name, of_rank(all.right),
          {{[&] { return of_rank(bare.gradient(all.of)); }, "the gradients went to the experts without the weights"}});
      if (!wrong.empty()) return wrong;
    }
    for (const Tensor& all : of_experts) {
      const auto of_rank = [&](const Doubles& values, double factor = 1, double before = 1) {
        Doubles part = cut(values, static_cast<std::size_t>(rank) * own, own);
        for (double& value : part) value = factor * value + before;
        return part;
      };
      wrong = differs_from(
          seen, at, rank, all.name, of_rank(all.right),
          {{[&] { return of_rank(all.right, 1, 0); }, "gradients accumulate: the 1 that was there before is lost"},
           {[&] { return of_rank(bare.gradient(all.of)); }, "the gradients went to the experts without the weights"},
           {[&] { return of_rank(all.right, 1.0 / c.ranks); },
            "it was divided by p, and nothing is to be divided here"}});
      if (!wrong.empty()) return wrong;
    }
    if (wrong = wrong_bytes(seen, at, rank, load, "backward"); !wrong.empty()) return wrong;
  }
  return "";
}

/// The first error of parts a and b, on which all of this depends.
std::string earlier_part() {
  const Grouping grouping = group_by_expert({2, 0, 1, 0}, 3);
  if (grouping.counts != std::vector<std::size_t>{2, 1, 1} || grouping.order != std::vector<std::int32_t>{1, 3, 2, 0})
    return "23.7a first: group_by_expert of 2 0 1 0 has counts 2 1 1 and the order 1 3 2 0";
  return "";
}
CasePlan layer_plan() {
  CasePlan plan = plan_of_loads();
  plan.cause = earlier_part;
  return plan;
}
TEST(Lab23_7c, IsTheLayerOfOneRank) { run_cases(layer(false), wrong_forward, layer_plan()); }
TEST(Lab23_7c, GradientsAreThoseOfOneRank) { run_cases(layer(true), wrong_backward, layer_plan()); }

// Part d --------------------------------------------------------------------------------------------------------------

/// Groups of 1, 2, … ranks that share the experts, of all ranks.
CasePlan plan_of_groups() {
  const auto sizes = [](int ranks) {
    std::vector<std::size_t> groups;
    for (std::size_t p = 1; p <= static_cast<std::size_t>(ranks); p *= 2) groups.push_back(p);
    return groups;
  };
  return {.ranks = {1, 2, 4, 8}, .sizes = sizes, .unit = "rank that shares the experts"};
}

/// Groups of c.size ranks share the experts; each rank's loss is the mean over its tokens. What each contributes here:
/// its number to what is replicated, and to its experts a sum over its group.
TEST(Lab23_7d, BothGradientsAreMeansOverAllRanks) {
  constexpr std::size_t kReplicated = 16, kExperts = 24;
  const auto value = [](int rank) { return static_cast<double>(1 + rank * rank); };
  const auto program = [=](Rank me, const Case& c) {
    const int p = static_cast<int>(c.size);
    Rank same = me.split(me.rank() % p, me.rank());
    double group = 0;
    for (int r = me.rank() / p * p; r < me.rank() / p * p + p; ++r) group += value(r) * (1 + me.rank() % p);
    Slice replicated = me.allocate(kReplicated, DType::f32, Category::gradient),
          experts = me.allocate(kExperts, DType::f32, Category::gradient);
    fill(me, replicated, static_cast<float>(value(me.rank())));
    fill(me, experts, static_cast<float>(group));
    average_gradients(me, same, replicated, experts);
    return Values{to_host(me, replicated)[0], to_host(me, experts)[0]};
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    double sum = 0;
    for (int rank = 0; rank < c.ranks; ++rank) sum += value(rank);
    const auto d = static_cast<double>(c.ranks), p = static_cast<double>(c.size);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      const double replicated = sum / d, experts = replicated * (1 + rank % static_cast<int>(c.size));
      const std::string where = fmt::format("{} ranks, of which {:g} share the experts: rank {}", c.ranks, p, rank);
      if (!near(seen[0], replicated, replicated))
        return fmt::format("{}: a gradient that all ranks have is {:g}, expected {:g}, the mean over all ranks", where,
                           seen[0], replicated);
      if (!near(seen[1], experts, experts))
        return fmt::format("{}: a gradient of its experts is {:g}, expected {:g}{}", where, seen[1], experts,
                           near(seen[1], experts * p, experts)
                               ? fmt::format(": {:g} times too large. It is a sum over all {:g} ranks, of which the "
                                             "{:g} in same_experts are only some",
                                             p, d, d / p)
                           : near(seen[1], experts / p, experts)
                               ? fmt::format(": {:g} times too small. It was divided by p twice", p)
                               : "");
      const std::uint64_t most = 4 * 2 *
                                 (kReplicated * (c.ranks - 1u) / static_cast<std::uint64_t>(c.ranks) +
                                  kExperts * (c.ranks / c.size - 1) / (c.ranks / c.size) + 4);
      if (const std::uint64_t sent = outcome.ledgers[static_cast<std::size_t>(rank)].traffic.bytes_sent; sent > most)
        return fmt::format("{} sent {} bytes, expected at most {}: the experts' gradients travel among same_experts",
                           where, sent, most);
    }
    return "";
  };
  run_cases(program, judge, plan_of_groups());
}

// All parts -----------------------------------------------------------------------------------------------------------

constexpr std::size_t kExpertsOfAll = 8, kTokens = 4, kChoices = 2;

// In quarters, as the inputs are: logits are exact, and equal ones are equal everywhere.
std::vector<float> router_weight() { return quarters(200, kExpertsOfAll, kChannels); }
std::vector<float> target_of(int rank) { return quarters(220 + rank, kTokens, kChannels); }

/// A step's gradients: of the router, and of this rank's experts. The loss of a token is ½|y|² + target · y.
Values step(Rank me, const Case& c) {
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
  const ExpertsSaved saved = make_saved(ep, routing);
  experts_forward(ep, values, saved, y, x);
  add(me, dy, y);
  scale(me, dy, 1.0f / kTokens);
  experts_backward(ep, values, gradients, saved, dx, dweights, dy);
  upload(me, dlogits, router_gradient(routing, to_host(me, dweights), kExpertsOfAll, kChoices));
  matmul(me, matrix(of_router, kExpertsOfAll, kChannels), matrix(dlogits, kTokens, kExpertsOfAll).t(), rows);
  average_gradients(me, same, of_router, of_experts);
  Values seen;
  for (const Slice& slice : {of_router, gradients.up, gradients.down}) append(seen, to_host(me, slice));
  return seen;
}

/// The same by finite differences of the mean loss over all tokens, on one rank.
struct ExactStep {
  Whole whole{kChoices, {}, {}, {}, {}};
  Doubles router = doubles(router_weight()), targets;
  explicit ExactStep(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const float value : input_of(rank, kTokens)) whole.x.push_back(value);
      for (const float value : target_of(rank)) targets.push_back(value);
    }
    whole.up = doubles(of_experts(0, kExpertsOfAll, up_of));
    whole.down = doubles(of_experts(0, kExpertsOfAll, down_of));
    const Doubles z = logits();
    whole.experts = exact_routing({z.begin(), z.end()}, kExpertsOfAll, kChoices).experts;
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
    for (std::size_t slot = 0; slot < whole.experts.size(); ++slot) {
      const double* of = &z[slot / kChoices * kExpertsOfAll];
      double sum = 0;
      for (std::size_t e = 0; e < kExpertsOfAll; ++e) sum += std::exp(of[e]);
      whole.weights.push_back(std::exp(of[whole.experts[slot]]) / sum);
    }
    const Doubles y = whole.y();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * y[i] / 2 + targets[i] * y[i];
    return sum / static_cast<double>(whole.x.size() / kChannels);
  }
};

std::string wrong_step(const Case& c, const Outcome& outcome) {
  ExactStep exact(c.ranks);
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

/// One rank that has all experts, groups of two, and all ranks together: the same gradients.
TEST(Lab23_7, GradientsDoNotDependOnWhoSharesTheExperts) { run_cases(step, wrong_step, plan_of_groups()); }

}  // namespace
}  // namespace lockstep::week23::experts_test
