// Tests of exercise 23.7, parts a and b, and the router's gradient of part d: the choice, rows by expert, and what
// travels in an all-to-all.
#include "common/support/text/counted.hpp"
#include "labs/week23_tensor_parallel/experts_testing.hpp"

namespace lockstep::week23::experts_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto route = testing::answer<week23::route>;
constexpr auto group_by_expert = testing::answer<week23::group_by_expert>;
constexpr auto router_gradient = testing::answer<week23::router_gradient>;

// Part a --------------------------------------------------------------------------------------------------------------

std::string text_of(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t number : numbers) text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  return text;
}

std::string wrong_routing(const std::vector<float>& logits, std::size_t experts, std::size_t k) {
  const Routing is = route(logits, experts, k), exact = exact_routing(logits, experts, k);
  if (is.probabilities.size() != exact.probabilities.size() || is.experts.size() != exact.experts.size())
    return fmt::format("{} probabilities and {} slots, expected {} and {}", is.probabilities.size(), is.experts.size(),
                       exact.probabilities.size(), exact.experts.size());
  for (std::size_t i = 0; i < exact.probabilities.size(); ++i) {
    const float value = is.probabilities[i], right = exact.probabilities[i];
    if (std::abs(value - right) <= 1e-6f) continue;
    const std::size_t n = i / experts;
    float chosen = 0;
    for (std::size_t s = n * k; s < (n + 1) * k; ++s)
      chosen += exact.probabilities[n * experts + static_cast<std::size_t>(exact.experts[s])];
    return fmt::format("the probability of expert {} for token {} is {:.6g}, expected {:.6g}{}", i % experts, n, value,
                       right,
                       !std::isfinite(value) ? ": exp has overflowed. Subtract the largest logit first"
                       : value == 0 || std::abs(value - right / chosen) <= 1e-6f
                           ? ": the softmax is over all E experts, and comes before the choice of k"
                           : "");
  }
  for (std::size_t n = 0; n < exact.experts.size() / k; ++n) {
    const auto of = [&](const Routing& routing) {
      const auto begin = routing.experts.begin() + static_cast<std::ptrdiff_t>(n * k);
      return std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(k));
    };
    if (of(is) != of(exact))
      return fmt::format(
          "token {} goes to experts {}, expected {}: the largest logit first, and of equal ones the lowest number", n,
          text_of(of(is)), text_of(of(exact)));
  }
  return "";
}

TEST(Lab23_7a, SoftmaxOverAllExpertsThenTheLargest) {
  const float ln2 = std::log(2.0f), ln3 = std::log(3.0f);
  const auto check = [](const std::vector<float>& logits, std::size_t experts, std::size_t k) {
    if (const std::string wrong = wrong_routing(logits, experts, k); !wrong.empty())
      FAIL() << counted(experts, "expert") << ", " << k << " for each token: " << wrong;
  };
  check({0, ln2, ln3}, 3, 2);
  check({0, ln2, ln3, ln3, 0, ln2}, 3, 1);
  check({1, 1, 1, 1}, 4, 2);
  check({}, 2, 1);
  check({5000, 4999, 0, -5001, -5000, -5000}, 3, 2);
  std::vector<float> many = numbers(30, 12, 24).values;
  for (const std::size_t k : {1u, 3u, 24u}) check(many, 24, k);
}

std::string wrong_grouping(const std::vector<std::int32_t>& expert_of, std::size_t experts) {
  const Grouping is = group_by_expert(expert_of, experts);
  std::vector<std::size_t> counts;
  std::vector<std::int32_t> order;
  for (std::size_t e = 0; e < experts; ++e) {
    const std::size_t before = order.size();
    for (std::size_t i = 0; i < expert_of.size(); ++i)
      if (expert_of[i] == static_cast<std::int32_t>(e)) order.push_back(static_cast<std::int32_t>(i));
    counts.push_back(order.size() - before);
  }
  if (is.counts.size() != experts) return fmt::format("{} counts, expected {}", is.counts.size(), experts);
  for (std::size_t e = 0; e < experts; ++e)
    if (is.counts[e] != counts[e])
      return fmt::format("experts {} of {}: expert {} has {}, expected {}", text_of(expert_of), experts, e,
                         is.counts[e], counts[e]);
  if (is.order != order)
    return fmt::format("experts {}: the order is {}, expected {}: by expert, and each one's places in ascending order",
                       text_of(expert_of), text_of(is.order), text_of(order));
  return "";
}
std::string wrong_groupings() {
  std::vector<std::int32_t> many;
  for (const float value : numbers(31, 1, 100).values) many.push_back(static_cast<std::int32_t>(value) + 3);
  for (const auto& [expert_of, experts] : std::vector<std::pair<std::vector<std::int32_t>, std::size_t>>{
           {{2, 0, 1, 0}, 3}, {{1, 1}, 2}, {{0}, 4}, {{}, 2}, {{}, 1}, {many, 7}, {many, 9}})
    if (std::string wrong = wrong_grouping(expert_of, experts); !wrong.empty()) return wrong;
  return "";
}
TEST(Lab23_7a, RowsByExpertInTheirOrder) {
  if (const std::string wrong = wrong_groupings(); !wrong.empty()) FAIL() << wrong;
}

// Part b --------------------------------------------------------------------------------------------------------------

/// Numbers of rows from rank to rank: different ones; none from rank 0; all to rank 0; none at all; one everywhere.
std::size_t rows_between(std::size_t which, int from, int to) {
  const auto r = static_cast<std::size_t>(from), q = static_cast<std::size_t>(to);
  switch (which) {
    case 0: return (3 * r + 5 * q + 1) % 4;
    case 1: return r == 0 ? 0 : 1 + q % 2;
    case 2: return q == 0 ? 2 + r : 0;
    case 3: return 0;
    default: return 1;
  }
}
constexpr std::size_t kTables = 5;
std::size_t width_of(std::size_t which) { return 1 + which % 3; }
float element_of(int from, int to, std::size_t i) {
  return static_cast<float>(1000 * from + 100 * to) + static_cast<float>(i);
}

Values an_all_to_all(Rank me, const Case& c) {
  std::vector<std::size_t> sent, received;
  std::vector<float> rows;
  const std::size_t width = width_of(c.size);
  for (int q = 0; q < c.ranks; ++q) {
    sent.push_back(rows_between(c.size, me.rank(), q));
    received.push_back(rows_between(c.size, q, me.rank()));
    for (std::size_t i = 0; i < sent.back() * width; ++i) rows.push_back(element_of(me.rank(), q, i));
  }
  Slice from = unwritten(me, rows.size());
  Slice to = unwritten(me, width * std::accumulate(received.begin(), received.end(), std::size_t{0}));
  upload(me, from, rows);
  all_to_all(me, to, received, from, sent, width);
  Values seen;
  append(seen, to_host(me, to));
  return seen;
}

std::string wrong_rows(const Case& c, const Outcome& outcome) {
  const std::size_t width = width_of(c.size);
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::size_t at = 0;
    for (int q = 0; q < c.ranks; ++q)
      for (std::size_t i = 0; i < rows_between(c.size, q, rank) * width; ++i) {
        const double value = outcome.values[static_cast<std::size_t>(rank)].at(at++);
        if (value == static_cast<double>(element_of(q, rank, i))) continue;
        return fmt::format("rank {}: element {} of row {} from rank {} is {:g}, expected {:g}{}", rank, i % width,
                           i / width, q, value, element_of(q, rank, i),
                           std::isnan(value) ? ": nothing has arrived there" : "");
      }
  }
  return "";
}

/// Messages where there are rows for another rank, and one batch.
std::string wrong_transfers(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    const RankLedger& ledger = outcome.ledgers[static_cast<std::size_t>(rank)];
    std::uint64_t messages = 0, rows = 0;
    for (int q = 0; q < c.ranks; ++q)
      if (const std::size_t count = q == rank ? 0 : rows_between(c.size, rank, q); count > 0) ++messages, rows += count;
    const std::uint64_t bytes = rows * width_of(c.size) * 4;
    if (ledger.batches > 1)
      return fmt::format("rank {} started {} batches, expected one: collect all transfers first", rank, ledger.batches);
    if (ledger.traffic.messages_sent != messages)
      return fmt::format("rank {} sent {} messages, expected {}: one to each other rank that it has rows for", rank,
                         ledger.traffic.messages_sent, messages);
    if (ledger.traffic.bytes_sent != bytes)
      return fmt::format("rank {} sent {} bytes, expected {}: {} rows of {} elements", rank, ledger.traffic.bytes_sent,
                         bytes, rows, width_of(c.size));
  }
  return "";
}

CasePlan plan_of_tables() {
  std::vector<std::size_t> tables(kTables);
  std::iota(tables.begin(), tables.end(), std::size_t{0});
  return {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of(tables), .which = "table of rows"};
}
TEST(Lab23_7b, RowsArriveInRankOrder) { run_cases(an_all_to_all, wrong_rows, plan_of_tables()); }
TEST(Lab23_7b, OneBatchAndNoEmptyMessages) { run_cases(an_all_to_all, wrong_transfers, plan_of_tables()); }

std::size_t count_for(int rank, std::size_t expert) { return (static_cast<std::size_t>(rank) * 7 + expert * 3) % 11; }

TEST(Lab23_7b, EveryRankLearnsWhatItReceives) {
  const auto program = [](Rank me, const Case& c) {
    std::vector<std::size_t> counts;
    for (std::size_t e = 0; e < c.size * static_cast<std::size_t>(c.ranks); ++e)
      counts.push_back(count_for(me.rank(), e));
    const std::vector<std::size_t> received = exchange_counts(me, counts);
    return Values(received.begin(), received.end());
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const auto p = static_cast<std::size_t>(c.ranks);
    for (std::size_t rank = 0; rank < p; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen.size() != p * c.size)
        return fmt::format("rank {} has {} counts, expected {}", rank, seen.size(), p * c.size);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const int from = static_cast<int>(i / c.size);
        const std::size_t expert = rank * c.size + i % c.size, right = count_for(from, expert);
        if (seen[i] != static_cast<double>(right))
          return fmt::format("rank {}: from rank {} come {:g} rows for expert {}, expected {}{}", rank, from, seen[i],
                             expert, right,
                             seen[i] == static_cast<double>(count_for(static_cast<int>(rank), i))
                                 ? ": these are its own counts, of what it sends"
                                 : "");
      }
      if (outcome.ledgers[rank].batches > 1)
        return fmt::format("rank {} started {} batches, expected one", rank, outcome.ledgers[rank].batches);
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({1, 2, 3}), .unit = "expert per rank"});
}

// Part d, the router
// ---------------------------------------------------------------------------------------------------

TEST(Lab23_7d, TheLogitsGradientIsThatOfFiniteDifferences) {
  for (const auto& [experts, k] : std::vector<std::pair<std::size_t, std::size_t>>{{1, 1}, {3, 2}, {4, 1}, {7, 3}}) {
    const std::size_t tokens = 3;
    std::vector<float> logits = numbers(32, tokens, experts).values;
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] += 0.125f * static_cast<float>(i % experts);
    const std::vector<float> dweights = numbers(33, tokens, k).values;
    const Routing routing = exact_routing(logits, experts, k);
    Doubles z = doubles(logits);
    const auto value = [&, experts = experts, k = k] {
      double sum = 0;
      for (std::size_t slot = 0; slot < dweights.size(); ++slot) {
        const double* of = &z[slot / k * experts];
        double all = 0;
        for (std::size_t e = 0; e < experts; ++e) all += std::exp(of[e]);
        sum += dweights[slot] * std::exp(of[routing.experts[slot]]) / all;
      }
      return sum;
    };
    const Doubles exact = gradient_by_differences(z, value);
    const std::vector<float> is = router_gradient(routing, dweights, experts, k);
    ASSERT_EQ(is.size(), exact.size());
    const auto divides_mean = [&, experts = experts, k = k] {
      for (std::size_t i = 0; i < exact.size(); ++i) {
        double mean = 0;
        for (std::size_t slot = i / experts * k; slot < (i / experts + 1) * k; ++slot)
          mean += weights_of(routing, experts, k)[slot] * dweights[slot];
        if (!near(is[i], exact[i] + routing.probabilities[i] * mean * (1 - 1.0 / static_cast<double>(k)), 1))
          return false;
      }
      return true;
    };
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (near(is[i], exact[i], 1)) continue;
      const auto chosen = routing.experts.begin() + static_cast<std::ptrdiff_t>(i / experts * k);
      const bool was = std::find(chosen, chosen + static_cast<std::ptrdiff_t>(k),
                                 static_cast<std::int32_t>(i % experts)) != chosen + static_cast<std::ptrdiff_t>(k);
      FAIL() << fmt::format(
          "{}, {} for each token: the gradient of token {}'s logit {} is {:.6g}, expected {:.6g}{}",
          counted(experts, "expert"), k, i / experts, i % experts, is[i], exact[i],
          divides_mean() ? ": Σ probability · g over a token's k slots was divided by k. It is a sum, as it stands"
          : was          ? ""
                         : ": an expert that was not chosen has a logit in every probability too");
    }
  }
}

}  // namespace
}  // namespace lockstep::week23::experts_test
