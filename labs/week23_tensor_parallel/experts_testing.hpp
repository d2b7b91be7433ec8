// Shared by the tests of exercise 23.7: who has which tokens and chooses which experts, and the layer in double
// precision on one rank that holds all experts, with its gradients by finite differences.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/described_cases_testing.hpp"
#include "labs/week23_tensor_parallel/experts.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"

namespace lockstep::week23::experts_test {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

inline constexpr std::size_t kChannels = 3, kHidden = 5;

inline std::vector<float> quarters(int kind, std::size_t rows, std::size_t columns) {
  HostMatrix matrix = numbers(kind, rows, columns);
  for (float& value : matrix.values) value /= 4;
  return matrix.values;
}

/// Case 2·kind + (0: E = p, 1: E = 2p); counted on, they begin again.
enum Kind : std::size_t { anywhere, all_to_one, one_without, rank_without_tokens, all_to_the_last_rank, kinds };
struct Load {
  std::size_t kind, experts, k;
  int ranks;
  double factor = 0;  // of the experts' capacity (23.10); 0: no limit
  explicit Load(const Case& c)
      : kind(c.size / 2 % kinds),
        experts(static_cast<std::size_t>(c.ranks) * (1 + c.size % 2)),
        k(std::min<std::size_t>(2, experts)),
        ranks(c.ranks) {}

  std::size_t tokens(int rank) const {
    if (kind == rank_without_tokens && rank == 0) return 0;
    return 2 + static_cast<std::size_t>(rank) % 3;
  }
  std::size_t tokens_before(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += tokens(r);
    return sum;
  }
  /// Logits of a rank's tokens, N × E: quarters, so that some are equal.
  std::vector<float> logits(int rank) const {
    std::vector<float> z = quarters(40 + rank, tokens(rank), experts);
    for (std::size_t i = 0; i < z.size(); ++i) {
      const std::size_t expert = i % experts, last = experts / static_cast<std::size_t>(ranks);
      if (kind == all_to_one && expert == 0) z[i] += 4;
      if (kind == one_without && expert + 1 == experts) z[i] -= 8;
      if (kind == all_to_the_last_rank && expert + last >= experts) z[i] += 4;
    }
    return z;
  }
};
/// "4 experts, k = 2, and most choices are expert 0. Tokens on the ranks: 2, 3."
inline std::string words(const Load& load) {
  const char* const choices[] = {"choices are mixed", "most choices are expert 0", "few choose the last expert",
                                 "rank 0 has no tokens", "most choices are the last rank's experts"};
  std::string text = fmt::format("{} expert{}, k = {}, and {}. Tokens on the ranks:", load.experts,
                                 load.experts == 1 ? "" : "s", load.k, choices[load.kind]);
  for (int rank = 0; rank < load.ranks; ++rank) text += fmt::format("{} {}", rank == 0 ? "" : ",", load.tokens(rank));
  return text + ".";
}
/// `earlier`: the first error of earlier parts, or "".
inline CasePlan plan_of_loads(std::function<std::string()> earlier = {}) {
  std::vector<std::size_t> cases(2 * kinds);
  std::iota(cases.begin(), cases.end(), std::size_t{0});
  return {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of(cases), .which = "load", .cause = std::move(earlier)};
}
inline void run_loads(const testing::CaseProgram& program, const testing::CaseJudge& judge, const CasePlan& plan) {
  testing::run_described(program, judge, plan, [](const Case& c) { return words(Load(c)); });
}

/// The result of route, computed in double.
inline Routing exact_routing(const std::vector<float>& logits, std::size_t experts, std::size_t k) {
  Routing routing;
  for (std::size_t first = 0; first < logits.size(); first += experts) {
    const float* z = &logits[first];
    const double most = *std::max_element(z, z + experts);
    double sum = 0;
    for (std::size_t e = 0; e < experts; ++e) sum += std::exp(z[e] - most);
    for (std::size_t e = 0; e < experts; ++e)
      routing.probabilities.push_back(static_cast<float>(std::exp(z[e] - most) / sum));
    std::vector<bool> taken(experts);
    for (std::size_t j = 0; j < k; ++j) {
      std::size_t best = experts;
      for (std::size_t e = 0; e < experts; ++e)
        if (!taken[e] && (best == experts || z[e] > z[best])) best = e;
      taken[best] = true;
      routing.experts.push_back(static_cast<std::int32_t>(best));
    }
  }
  return routing;
}

/// The expert of each of a rank's slots, and E where the slot is one too many: where `capacity` slots that come before
/// it chose its expert, too. Those of earlier choices do, and of the same choice those of lower tokens.
inline std::vector<std::int32_t> exact_kept(const std::vector<std::int32_t>& expert_of, std::size_t experts,
                                            std::size_t k, std::size_t capacity) {
  std::vector<std::int32_t> kept = expert_of;
  const auto turn = [k](std::size_t slot) { return std::pair(slot % k, slot / k); };
  for (std::size_t slot = 0; slot < kept.size(); ++slot) {
    std::size_t before = 0;
    for (std::size_t other = 0; other < kept.size(); ++other)
      if (expert_of[other] == expert_of[slot] && turn(other) < turn(slot)) ++before;
    if (before >= capacity) kept[slot] = static_cast<std::int32_t>(experts);
  }
  return kept;
}
/// A rank's slots in a load.
inline std::vector<std::int32_t> kept_by(const Load& load, int rank) {
  const std::vector<std::int32_t> chosen = exact_routing(load.logits(rank), load.experts, load.k).experts;
  const double capacity =
      std::ceil(load.factor * static_cast<double>(chosen.size()) / static_cast<double>(load.experts));
  return load.factor > 0 ? exact_kept(chosen, load.experts, load.k, static_cast<std::size_t>(capacity)) : chosen;
}

using Doubles = std::vector<double>;
inline Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// The layer on one rank, over the tokens of all.
struct Whole {
  std::size_t k = 1;
  Doubles x, up, down, weights;
  std::vector<std::int32_t> experts = {};

  Doubles y() const {
    constexpr std::size_t c = kChannels, hidden = kHidden;
    Doubles y(x.size());
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
      const std::size_t n = slot / k, e = static_cast<std::size_t>(experts[slot]);
      if (e * hidden * c == up.size()) continue;  // dropped
      for (std::size_t h = 0; h < hidden; ++h) {
        double sum = 0;
        for (std::size_t i = 0; i < c; ++i) sum += up[(e * hidden + h) * c + i] * x[n * c + i];
        const double bent = 0.5 * sum * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        for (std::size_t i = 0; i < c; ++i) y[n * c + i] += weights[slot] * down[(e * c + i) * hidden + h] * bent;
      }
    }
    return y;
  }
};

/// The gradient of value() by each element of `of`, which it reads.
inline Doubles gradient_by_differences(Doubles& of, const std::function<double()>& value) {
  constexpr double kStep = 1e-4;
  Doubles gradient;
  for (double& element : of) {
    const double before = element;
    element = before + kStep;
    const double above = value();
    element = before - kStep;
    gradient.push_back((above - value()) / (2 * kStep));
    element = before;
  }
  return gradient;
}

inline bool near(double value, double exact, double size) { return std::abs(value - exact) <= 1e-5 * (0.1 + size); }
inline double size_of(const Doubles& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, values.size())));
}

/// Another array that a wrong tensor may be, computed once it is wrong, and what that means.
struct Instead {
  std::function<Doubles()> values;
  const char* meaning;
};
/// "" where `seen`, from `at` on, which moves past it, is `exact` up to 1e-5 of its size; else the first difference.
inline std::string differs_from(const Values& seen, std::size_t& at, int rank, const std::string& name,
                                const Doubles& exact, const std::vector<Instead>& instead = {}) {
  const std::size_t first = std::exchange(at, at + exact.size());
  const auto is = [&](const Doubles& other) {
    for (std::size_t i = 0; i < other.size(); ++i)
      if (!near(seen.at(first + i), other[i], size_of(other))) return false;
    return true;
  };
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double value = seen.at(first + i);
    if (near(value, exact[i], size_of(exact))) continue;
    std::string wrong = fmt::format("rank {}: {}, element {} of {}, is {:.6g}, expected {:.6g}", rank, name, i,
                                    exact.size(), value, exact[i]);
    if (std::isnan(value)) return wrong + ": uninitialised memory";
    for (const Instead& other : instead)
      if (is(other.values())) return wrong + ": " + other.meaning;
    return wrong;
  }
  return "";
}

inline Doubles times(Doubles values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}
inline Doubles cut(const Doubles& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace lockstep::week23::experts_test
