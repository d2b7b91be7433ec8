// Shared by tests of a layer of experts (23.7, 23.10): the layer's program, with its gradients and messages, against
// one rank that holds all experts.
#pragma once

#include "common/support/text/counted.hpp"
#include "labs/week23_tensor_parallel/experts_testing.hpp"

namespace lockstep::week23::experts_test {

inline constexpr std::size_t kElements = kHidden * kChannels;  // of one matrix of an expert

inline std::vector<float> input_of(int rank, std::size_t tokens) { return quarters(60 + rank, tokens, kChannels); }
inline std::vector<float> output_gradient_of(int rank, std::size_t tokens) {
  return quarters(80 + rank, tokens, kChannels);
}
inline std::vector<float> up_of(std::size_t expert) {
  return quarters(100 + static_cast<int>(expert), kHidden, kChannels);
}
inline std::vector<float> down_of(std::size_t expert) {
  return quarters(140 + static_cast<int>(expert), kChannels, kHidden);
}

inline Slice on_device(Rank me, const std::vector<float>& values, Category category = Category::activation) {
  Slice slice = me.allocate(values.size(), DType::f32, category);
  upload(me, slice, values);
  return slice;
}
template <class F>
inline std::vector<float> of_experts(std::size_t first, std::size_t count, const F& f) {
  std::vector<float> all;
  for (std::size_t e = first; e < first + count; ++e)
    for (const float value : f(e)) all.push_back(value);
  return all;
}
inline ExpertTensors experts_of(Rank me, std::size_t first, std::size_t count) {
  return {on_device(me, of_experts(first, count, up_of), Category::parameter),
          on_device(me, of_experts(first, count, down_of), Category::parameter)};
}

/// Counts what has been sent since: bytes, batches.
struct Sent {
  Rank me;
  RankLedger before = ledger_of(me);
  Values since() const {
    const RankLedger now = ledger_of(me);
    return {static_cast<double>(now.traffic.bytes_sent - before.traffic.bytes_sent),
            static_cast<double>(now.batches - before.batches)};
  }
};

/// Makes the way of the rows, in a test of its own: with a capacity, for example.
using MakeSaved = std::function<ExpertsSaved(const Load&, const ExpertParallel&, const Routing&)>;
inline ExpertsSaved without_limit(const Load&, const ExpertParallel& ep, const Routing& routing) {
  return make_saved(ep, routing);
}
inline Load load_of_case(const Case& c) { return Load(c); }

/// Calls a pass of the layer. Where rows reach outside of a slice, the error says how many go which way.
template <class F>
void with_the_way(const RowPlan& plan, const F& pass) {
  try {
    pass();
  } catch (const Error& error) {
    const std::string said = error.what();
    if (error.verdict() != Verdict::usage || said.find("reaches outside") == said.npos) throw;
    throw Error(Verdict::usage,
                fmt::format("{}. On the way there this rank sends {} and receives {}, and on the way back the reverse",
                            said, counted(plan.leaving(), "row"), counted(plan.received.order.size(), "row")));
  }
}

inline testing::CaseProgram layer(bool backward, Load (*load_of)(const Case&) = load_of_case,
                                  const MakeSaved& saved_of = without_limit) {
  return [=](Rank me, const Case& c) {
    const Load load = load_of(c);
    const ExpertParallel ep{me, load.experts, load.k, kChannels, kHidden};
    const std::size_t tokens = load.tokens(me.rank()), first = ep.own() * static_cast<std::size_t>(me.rank());
    const Routing routing = exact_routing(load.logits(me.rank()), load.experts, load.k);
    const ExpertTensors values = experts_of(me, first, ep.own());
    const ExpertTensors gradients{ones(me, values.up), ones(me, values.down)};
    Slice x = on_device(me, input_of(me.rank(), tokens)), dy = on_device(me, output_gradient_of(me.rank(), tokens));
    Slice y = unwritten(me, x.size()), dx = unwritten(me, x.size()), dweights = unwritten(me, tokens * load.k);
    const ExpertsSaved saved = saved_of(load, ep, routing);
    Values seen;
    const Sent forward{me};
    with_the_way(saved.plan, [&] { experts_forward(ep, values, saved, y, x); });
    append(seen, to_host(me, y));
    for (const double number : forward.since()) seen.push_back(number);
    if (!backward) return seen;
    const Sent back{me};
    with_the_way(saved.plan, [&] { experts_backward(ep, values, gradients, saved, dx, dweights, dy); });
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
      put(whole.experts, kept_by(load, rank));
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

/// Rows that `rank` exchanges with others: rows sent there, and rows that come here and are sent back.
inline std::size_t rows_away(const Load& load, int rank) {
  const std::size_t own = load.experts / static_cast<std::size_t>(load.ranks);
  std::size_t count = 0;
  for (int from = 0; from < load.ranks; ++from)
    for (const std::int32_t expert : kept_by(load, from)) {
      const int to = expert / static_cast<int>(own);
      if (to < load.ranks && (from == rank) != (to == rank)) ++count;
    }
  return count;
}
inline std::string wrong_bytes(const Values& seen, std::size_t& at, int rank, const Load& load, const char* pass) {
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

/// y where rows come back wrongly: take_rows in place of put_rows for those that leave an expert's rank, for those that
/// arrive at their tokens' rank, or for both. No slot is dropped.
inline Doubles taken_back(const Load& load, const Whole& right, bool leaving, bool arriving) {
  const auto order_of = [](const std::vector<std::size_t>& expert_of) {
    std::vector<std::size_t> order(expert_of.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return expert_of[a] < expert_of[b]; });
    return order;
  };
  const std::size_t own = load.experts / static_cast<std::size_t>(load.ranks);
  std::vector<std::vector<std::size_t>> rows(static_cast<std::size_t>(load.ranks));  // slots, as they come to each rank
  std::vector<std::size_t> expert_of(right.experts.begin(), right.experts.end()), output_of(expert_of.size());
  std::vector<std::vector<std::size_t>> sent;  // a rank's slots, as they leave
  for (int rank = 0; rank < load.ranks; ++rank) {
    const auto first = expert_of.begin() + static_cast<std::ptrdiff_t>(load.tokens_before(rank) * load.k);
    sent.push_back(order_of({first, first + static_cast<std::ptrdiff_t>(load.tokens(rank) * load.k)}));
    for (std::size_t& slot : sent.back()) {
      slot += load.tokens_before(rank) * load.k;
      rows[expert_of[slot] / own].push_back(slot);
    }
  }
  for (const std::vector<std::size_t>& here : rows) {
    std::vector<std::size_t> experts;
    for (const std::size_t slot : here) experts.push_back(expert_of[slot]);
    const std::vector<std::size_t> order = order_of(experts);
    for (std::size_t i = 0; i < here.size(); ++i) output_of[here[i]] = here[leaving ? order[order[i]] : i];
  }
  const std::vector<std::size_t> arrived = output_of;
  for (std::size_t rank = 0; arriving && rank < sent.size(); ++rank) {
    const std::size_t first = load.tokens_before(static_cast<int>(rank)) * load.k;
    for (std::size_t i = 0; i < sent[rank].size(); ++i)
      output_of[first + i] = arrived[sent[rank][sent[rank][i] - first]];
  }
  Whole slots{1, {}, right.up, right.down, right.weights};  // each as a token of its own
  for (const std::size_t slot : output_of) {
    slots.experts.push_back(right.experts[slot]);
    for (std::size_t i = 0; i < kChannels; ++i) slots.x.push_back(right.x[slot / right.k * kChannels + i]);
  }
  const Doubles outputs = slots.y();
  Doubles y(right.x.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) y[i / kChannels / right.k * kChannels + i % kChannels] += outputs[i];
  return y;
}

inline std::string wrong_forward(const Load& load, const Outcome& outcome) {
  const Exact exact(load);
  const Doubles y = exact.whole.y();
  for (int rank = 0; rank < load.ranks; ++rank) {
    const std::size_t first = load.tokens_before(rank) * kChannels, count = load.tokens(rank) * kChannels;
    std::size_t at = 0;
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    std::vector<Instead> instead = {{[&] { return cut(exact.without_weights().whole.y(), first, count); },
                                     "the outputs are added without their weights"}};
    for (const auto& [leaving, arriving] : {std::pair(true, false), std::pair(false, true), std::pair(true, true)})
      if (load.factor == 0)
        instead.push_back({[&, leaving = leaving, arriving = arriving] {
                             return cut(taken_back(load, exact.whole, leaving, arriving), first, count);
                           },
                           "outputs come back to other slots. On the way back put_rows undoes what take_rows did on "
                           "the way there; take_rows with the same order does not"});
    std::string wrong = differs_from(seen, at, rank, "y", cut(y, first, count), instead);
    if (wrong.empty()) wrong = wrong_bytes(seen, at, rank, load, "forward");
    if (!wrong.empty()) return wrong;
  }
  return "";
}

inline std::string wrong_backward(const Load& load, const Outcome& outcome) {
  Exact exact(load), bare = exact.without_weights();
  struct Tensor {
    const char* name;
    Doubles Whole::*of;
    std::size_t width;  // of a token, or of a rank's experts
    Doubles right;
  };
  const std::size_t own = load.experts / static_cast<std::size_t>(load.ranks) * kElements;
  const auto tensor = [&](const char* name, Doubles Whole::*of, std::size_t width) {
    return Tensor{name, of, width, exact.gradient(of)};
  };
  const std::vector<Tensor> of_tokens = {tensor("dx", &Whole::x, kChannels),
                                         tensor("dweights", &Whole::weights, load.k)},
                            of_experts = {tensor("the gradient of up", &Whole::up, own),
                                          tensor("the gradient of down", &Whole::down, own)};
  for (int rank = 0; rank < load.ranks; ++rank) {
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
           {[&] { return of_rank(all.right, 1.0 / load.ranks); },
            "it was divided by p, and nothing is to be divided here"}});
      if (!wrong.empty()) return wrong;
    }
    if (wrong = wrong_bytes(seen, at, rank, load, "backward"); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace lockstep::week23::experts_test
