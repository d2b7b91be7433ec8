// Tests of exercise 21.12, parts a and b: the outer gradient and the outer step. Parts c and d are in
// local_sgd_when_test.cpp, the training of a GPT in local_sgd_gpt_test.cpp.
#include "labs/week21_data_parallel/local_sgd_testing.hpp"

namespace lockstep::week21::local_sgd_testing {
namespace {

// Part a --------------------------------------------------------------------------------------------------------------

/// Rank r has come by local_change(r, i, 0). Returns calls and elements of the all-reduce, bytes of buffers, θ₀, g.
Values outer_gradients(Rank me, const Case& c) {
  std::vector<float> before(c.size), after(c.size);
  for (std::size_t i = 0; i < c.size; ++i) {
    before[i] = start_of(i);
    after[i] = before[i] + local_change(me.rank(), i, 0);
  }
  Slice start = uploaded(me, before, Category::optimizer), values = uploaded(me, after, Category::parameter);
  Values seen(3, 0.0);
  const std::uint64_t held = ledger_of(me).memory.peak_of(Category::buffer);
  std::uint64_t of_sum = 0;
  outer_gradient(me, values, start, [&](Rank group, const Slice& data) {
    ++seen[0];
    seen[1] = static_cast<double>(data.size());
    ring_all_reduce(group, data);
    of_sum = 4 * (c.size / static_cast<std::size_t>(c.ranks) + 1);
  });
  seen[2] = static_cast<double>(ledger_of(me).memory.peak_of(Category::buffer) - held) - static_cast<double>(of_sum);
  append_values(me, start, seen);
  append_values(me, values, seen);
  return seen;
}

std::string wrong_gradient(const Case& c, const Values& seen, int rank) {
  for (std::size_t i = 0; i < c.size; ++i) {
    if (seen[3 + i] != start_of(i))
      return fmt::format("rank {}: start[{}] was {} and is now {}: outer_gradient must not change it", rank, i,
                         start_of(i), seen[3 + i]);
    double sum = 0;
    for (int r = 0; r < c.ranks; ++r) sum -= local_change(r, i, 0);
    const double g = seen[3 + c.size + i], expected = sum / c.ranks;
    if (std::abs(g - expected) <= kRounding) continue;
    const char* hint = std::abs(g + expected) <= kRounding ? ": a gradient points from where the ranks are to `start`"
                       : std::abs(g - sum) <= kRounding    ? ": that is the sum over the ranks, not the average"
                       : std::abs(g + local_change(rank, i, 0)) <= kRounding ? ": that is this rank's own"
                       : std::abs(g - start_of(i) + expected) <= kRounding
                           ? ": that is the average of the parameters; the gradient is how far they have moved"
                           : "";
    return fmt::format("rank {}: element {} of the outer gradient is {:.7g}, expected {:.7g}{}", rank, i, g, expected,
                       hint);
  }
  return "";
}

TEST(Lab21_12a, TheOuterGradientIsTheAverageOfTheDrifts) {
  run_cases(outer_gradients, [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::string wrong = wrong_gradient(c, outcome.values[rank], rank);
      if (!wrong.empty()) return wrong;
    }
    return replicas_part(outcome, 3, 2 * c.size);
  });
}

TEST(Lab21_12a, OneAllReduceOfTheWholeArrayAndNoMemory) {
  run_cases(outer_gradients, [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen[0] != 1 || seen[1] != static_cast<double>(c.size))
        return fmt::format("rank {}: {:.0f} calls of all_reduce, the last with {:.0f} elements; expected one with {}",
                           rank, seen[0], seen[1], c.size);
      if (seen[2] > 0)
        return fmt::format(
            "rank {}: {:.0f} bytes of buffers besides those of the all-reduce: both arrays exist already, "
            "work in `values`",
            rank, seen[2]);
    }
    return "";
  });
}

// Part b --------------------------------------------------------------------------------------------------------------

constexpr OuterSgd kOuter[] = {
    {},                                                            // DiLoCo's
    {.learning_rate = 1, .momentum = 0},                           // local SGD
    {.learning_rate = 0.5f, .momentum = 0, .nesterov = false},     // a shorter step
    {.learning_rate = 0.3f, .momentum = 0.6f, .nesterov = false},  // heavy ball
    {.learning_rate = 1.1f, .momentum = 0.4f},
};
constexpr std::size_t kVariants = std::size(kOuter);
constexpr int kOuterSteps = 4;

std::string name_of(const OuterSgd& how) {
  return fmt::format("rate {}, momentum {}{}", how.learning_rate, how.momentum,
                     how.momentum == 0 ? ""
                     : how.nesterov    ? ", Nesterov"
                                       : ", not Nesterov");
}

constexpr std::size_t kElements = 13;

/// Four outer steps; after each: bytes sent, bytes of buffers at most, those that stay, θ₀ and the values.
Values outer_steps(Rank me, const Case& c) {
  const OuterSgd how = kOuter[c.size];
  std::vector<float> g(kElements);
  for (std::size_t i = 0; i < kElements; ++i) g[i] = start_of(i);
  Slice start = uploaded(me, g, Category::optimizer), values = uploaded(me, g, Category::parameter), velocity;
  if (how.momentum != 0) velocity = uploaded(me, std::vector<float>(kElements, 0.0f), Category::optimizer);
  const RankLedger before = ledger_of(me);
  Values seen;
  for (int step = 0; step < kOuterSteps; ++step) {
    for (std::size_t i = 0; i < kElements; ++i) g[i] = local_change(0, i, step);
    upload(me, values, g);
    outer_step(me, values, start, velocity, how);
    const RankLedger now = ledger_of(me);
    seen.push_back(static_cast<double>(now.traffic.bytes_sent - before.traffic.bytes_sent));
    seen.push_back(static_cast<double>(now.memory.peak_of(Category::buffer)));
    seen.push_back(static_cast<double>(now.memory.live_of(Category::buffer)));
    append_values(me, start, seen);
    append_values(me, values, seen);
  }
  return seen;
}

constexpr std::size_t kPerStep = 3 + 2 * kElements;

std::string wrong_outer_step(const OuterSgd& how, const Values& seen) {
  for (std::size_t i = 0; i < kElements; ++i) {
    OuterElement element{static_cast<double>(start_of(i))};
    for (int step = 0; step < kOuterSteps; ++step) {
      element.step(how, static_cast<double>(local_change(0, i, step)));
      const std::size_t at = static_cast<std::size_t>(step) * kPerStep + 3 + i;
      if (!(std::abs(seen[at] - element.start) <= kRounding))
        return fmt::format("{}: after outer step {} start[{}] is {:.7g}, expected {:.7g}{}", name_of(how), step + 1, i,
                           seen[at], element.start,
                           step == 0 ? "" : "; the first step was right: what does velocity keep between two?");
      if (seen[at + kElements] != seen[at])
        return fmt::format(
            "{}: after outer step {} values[{}] is {:.7g} and start[{}] {:.7g}: the next local step "
            "begins where the outer one ended",
            name_of(how), step + 1, i, seen[at + kElements], i, seen[at]);
    }
  }
  return "";
}

const CasePlan kEachOuter{.ranks = {1, 2}, .sizes = sizes_of({0, 1, 2, 3, 4}), .which = "outer optimizer"};

TEST(Lab21_12b, StepsAreThoseOfTheFormula) {
  run_cases(
      outer_steps,
      [](const Case& c, const Outcome& outcome) { return wrong_outer_step(kOuter[c.size], outcome.values[0]); },
      kEachOuter);
}

TEST(Lab21_12b, NothingIsSentAndOneArrayIsEnough) {
  run_cases(
      outer_steps,
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        const std::size_t last = (kOuterSteps - 1) * kPerStep;
        if (seen[last] != 0)
          return fmt::format(
              "{}: outer steps have sent {:.0f} bytes: all ranks have the same gradient and take the same "
              "step",
              name_of(kOuter[c.size]), seen[last]);
        if (seen[last + 1] > 4.0 * kElements)
          return fmt::format("{}: an outer step of {} elements holds {:.0f} bytes of buffers, at most {} are allowed",
                             name_of(kOuter[c.size]), kElements, seen[last + 1], 4 * kElements);
        if (seen[last + 2] != 0)
          return fmt::format("{}: {:.0f} bytes of buffers are still held after an outer step", name_of(kOuter[c.size]),
                             seen[last + 2]);
        return "";
      },
      kEachOuter);
}

}  // namespace
}  // namespace lockstep::week21::local_sgd_testing
