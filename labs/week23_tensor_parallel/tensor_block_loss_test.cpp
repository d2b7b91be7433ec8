// Tests of exercise 23.4b: the loss of a cut vocabulary and its gradient against softmax in double, with a scale and
// without, and logits that nobody gathers or copies.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week23_tensor_parallel/tensor_block_testing.hpp"

namespace lockstep::week23::tensor_block_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

constexpr float kFactor = 0.25f;

/// Columns of a rank, padded.
std::size_t width_of(const Case& c) {
  return (c.size + static_cast<std::size_t>(c.ranks) - 1) / static_cast<std::size_t>(c.ranks);
}
Slice uploaded_logits(Rank me, const Case& c, VocabularyShard shard) {
  HostMatrix own{kRows, width_of(c), std::vector<float>(kRows * width_of(c), 50)};  // padding would win every softmax
  put_columns(own, 0, cut_columns(numbers(1, kRows, c.size), shard.first, shard.count));
  return uploaded(me, own);
}
std::vector<std::int32_t> targets(const Case& c) { return tokens(c.size, 3, true); }

/// By softmax, in double.
struct ExactLoss {
  double loss = 0;
  std::vector<double> gradient;  // of every row's whole vocabulary
};
ExactLoss exact_loss(const Case& c) {
  const HostMatrix logits = numbers(1, kRows, c.size);
  const std::vector<std::int32_t> target = targets(c);
  ExactLoss exact{.gradient = std::vector<double>(kRows * c.size)};
  for (std::size_t n = 0; n < kRows; ++n) {
    if (target[n] < 0) continue;
    double sum = 0;
    for (std::size_t i = 0; i < c.size; ++i) sum += std::exp(logits.at(n, i));
    for (std::size_t i = 0; i < c.size; ++i)
      exact.gradient[n * c.size + i] =
          kFactor * (std::exp(logits.at(n, i)) / sum - (i == static_cast<std::size_t>(target[n]) ? 1 : 0));
    exact.loss += kFactor * (std::log(sum) - logits.at(n, static_cast<std::size_t>(target[n])));
  }
  return exact;
}

/// A rank's logits after the call, from `at` on, against the gradient times `scale`.
std::string wrong_gradient(const Case& c, int rank, const Values& seen, std::size_t at, const ExactLoss& exact,
                           double scale) {
  const VocabularyShard shard = vocabulary_shard(c.size, rank, c.ranks);
  for (std::size_t i = 0; i < kRows * width_of(c); ++i) {
    const std::size_t n = i / width_of(c), column = i % width_of(c);
    const bool padding = column >= shard.count;
    const double one = padding ? 0 : exact.gradient[n * c.size + shard.first + column], found = seen.at(at + i);
    if (std::abs(found - scale * one) <= 1e-5 * scale) continue;
    if (found != found)
      return fmt::format("rank {}: the gradient of row {}, column {} is not a number: uninitialised memory", rank, n,
                         column);
    const bool unscaled = scale != 1 && std::abs(found - one) <= 1e-5;
    return fmt::format("rank {}: the gradient of row {}, column {}{} is {:g}, expected {:g}{}", rank, n, column,
                       padding ? " (padding)" : "", found, scale * one,
                       unscaled ? fmt::format(", gradient_scale of {:g} times as much", scale) : "");
  }
  return "";
}

TEST(Lab23_4b, LossAndGradientOfACutVocabulary) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    Slice logits = uploaded_logits(me, c, shard), target = uploaded_tokens(me, targets(c));
    Slice loss = uploaded(me, {1, 2, {1, 1}});
    parallel_cross_entropy(tp, loss.cut(0, 1), logits, target, shard, kFactor, {}, /*only_loss=*/true);
    Values seen;
    append(seen, to_host(me, logits));
    parallel_cross_entropy(tp, loss.cut(1, 1), logits, target, shard, kFactor, {}, /*only_loss=*/false);
    append(seen, to_host(me, logits));
    append(seen, to_host(me, loss));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const HostMatrix logits = numbers(1, kRows, c.size);
    const ExactLoss exact = exact_loss(c);
    const std::size_t width = width_of(c);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      const VocabularyShard shard = vocabulary_shard(c.size, rank, c.ranks);
      for (std::size_t i = 0; i < kRows * width; ++i) {
        const double before = i % width >= shard.count ? 50 : logits.at(i / width, shard.first + i % width);
        if (seen[i] != before) return fmt::format("rank {}: computing only the loss changed the logits", rank);
      }
      if (std::string wrong = wrong_gradient(c, rank, seen, kRows * width, exact, 1); !wrong.empty()) return wrong;
      for (std::size_t which : {0, 1})
        if (const double value = seen[2 * kRows * width + which];
            !(std::abs(value - 1 - exact.loss) <= 1e-5 * (1 + exact.loss)))
          return fmt::format("rank {}: the loss gains {:g}, of the whole vocabulary it is {:g}", rank, value - 1,
                             exact.loss);
    }
    return wrong_sums(outcome, "loss", 2, 2 * kRows * 4 * static_cast<std::uint64_t>(c.ranks));
  };
  run_cases(program, judge, plan());
}

/// A scale that changes between two steps, as that of 22.5 does.
constexpr float kScales[] = {8, 0.5f};

TEST(Lab23_4b, TheGradientIsScaledAndTheLossIsNot) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    Slice target = uploaded_tokens(me, targets(c)), scale = me.allocate(1, DType::f32, Category::buffer);
    Values seen;
    for (const float factor : kScales) {
      Slice logits = uploaded_logits(me, c, shard), loss = uploaded(me, {1, 1, {0}});
      fill(me, scale, factor);
      parallel_cross_entropy(tp, loss, logits, target, shard, kFactor, scale, /*only_loss=*/false);
      append(seen, to_host(me, loss));
      append(seen, to_host(me, logits));
    }
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const ExactLoss exact = exact_loss(c);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      std::size_t at = 0;
      for (const float scale : kScales) {
        if (const double loss = seen.at(at); loss != loss)
          return fmt::format("rank {}: the loss is not a number: uninitialised memory", rank);
        else if (!(std::abs(loss - exact.loss) <= 1e-5 * (1 + exact.loss)))
          return fmt::format("rank {}: with a gradient_scale of {:g} the loss is {:g}, expected {:g}: it is not scaled",
                             rank, scale, loss, exact.loss);
        if (std::string wrong = wrong_gradient(c, rank, seen, at + 1, exact, scale); !wrong.empty()) return wrong;
        at += 1 + kRows * width_of(c);
      }
    }
    return "";
  };
  run_cases(program, judge, plan());
}

TEST(Lab23_4b, NoScratchOfTheLogitsSize) {
  CasePlan wide = plan();
  wide.ranks = {1, 2, 4};
  wide.sizes = [](int ranks) { return std::vector<std::size_t>{64 * static_cast<std::size_t>(ranks)}; };
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    Slice logits = uploaded_logits(me, c, shard), target = uploaded_tokens(me, targets(c));
    Slice loss = uploaded(me, {1, 1, {0}});
    Values seen;
    for (const bool only_loss : {true, false}) {
      const std::uint64_t before = ledger_of(me).memory.peak_total;
      parallel_cross_entropy(tp, loss, logits, target, shard, kFactor, {}, only_loss);
      seen.push_back(static_cast<double>(ledger_of(me).memory.peak_total - before));
    }
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const double logits = 4.0 * static_cast<double>(kRows * width_of(c)), statistics = 4.0 * 2 * kRows * c.ranks;
    for (int rank = 0; rank < c.ranks; ++rank)
      for (const double scratch : outcome.values[rank])
        if (scratch >= logits)
          return fmt::format(
              "rank {} takes {} bytes of scratch. Its logits have {}, and are never copied or gathered: the statistics "
              "of all ranks need {}",
              rank, scratch, logits, statistics);
    return "";
  };
  run_cases(program, judge, wide);
}

}  // namespace
}  // namespace lockstep::week23::tensor_block_test
