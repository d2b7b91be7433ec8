// Tests of exercise 21.6: gradient accumulation, on gradients that are known integers, on a GPT, and on the model where
// it must fail.
#include "labs/week21_data_parallel/accumulation.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/values.hpp"

namespace lockstep::week21 {
namespace {

using testing::Case;
using testing::run_cases;
using testing::sizes_of;

std::vector<Microbatch> parts_of(const std::vector<std::size_t>& counts, std::size_t first = 0) {
  std::vector<Microbatch> parts;
  for (std::size_t count : counts) {
    parts.push_back({first, count});
    first += count;
  }
  return parts;
}

const std::vector<std::vector<std::size_t>> kCuts = {{8},       {4, 4},    {5, 3},    {1, 7},
                                                     {1, 2, 5}, {3, 0, 5}, {0, 8, 0}, {2, 2, 2, 2}};

constexpr std::size_t kFirst = 3;  // these parts are of a larger batch, of which others have the samples before

/// Each microbatch of kCuts[size] that was run, and the weight that it was given; and the gradient, to which each adds
/// its weight in element 0 and, in element 1, weight × the sum of its sample numbers 1, 2, … over their count.
Values weights_given(Rank me, const Case& c) {
  Slice gradients = me.allocate(2, DType::f32, Category::gradient);  // full of NaN, as new memory is
  Slice part = me.allocate(2, DType::f32, Category::buffer);
  Values seen;
  accumulate_gradients(me, gradients, parts_of(kCuts[c.size], kFirst), [&](Microbatch microbatch, float weight) {
    for (std::size_t number : {microbatch.first, microbatch.count}) seen.push_back(static_cast<double>(number));
    seen.push_back(weight);
    const float mean = static_cast<float>(microbatch.first) + (static_cast<float>(microbatch.count) + 1) / 2;
    upload(me, part, std::vector<float>{weight, weight * mean});
    add(me, gradients, part);
  });
  testing::append(me, gradients, seen);
  return seen;
}

std::string wrong_weights(const Case& c, const Outcome& outcome) {
  const auto all = parts_of(kCuts[c.size], kFirst);
  const Values& seen = outcome.values[0];
  const std::size_t at = seen.size() - 2;  // the gradient; before it, what was run and its weight
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> weights;
    for (std::size_t call = 0; call < at; call += 3)
      if (seen[call] == static_cast<double>(all[i].first) && seen[call + 1] == static_cast<double>(all[i].count))
        weights.push_back(seen[call + 2]);
    if (all[i].count == 0) {
      if (!weights.empty()) return fmt::format("microbatch {} has no samples: skip it (its mean loss is 0/0)", i);
      continue;
    }
    if (weights.size() != 1)
      return fmt::format("microbatch {} of {} was {}", i, all.size(),
                         weights.empty() ? "not run" : fmt::format("run {} times", weights.size()));
    const double expected = static_cast<double>(all[i].count) / 8, weight = weights[0];
    if (!(std::abs(weight - expected) <= 1e-6 * expected))
      return fmt::format(
          "microbatch {} has {} of 8 samples: its weight is {}, expected {}{}", i, all[i].count, weight, expected,
          weight == static_cast<float>(1.0 / static_cast<double>(all.size()))
              ? ": it was weighted by steps; then the samples of a short microbatch count too much"
          : weight == static_cast<double>(all[i].count / 8)
              ? fmt::format(": a ratio of two whole numbers is rounded down in C++, {} / 8 to {}", all[i].count, weight)
          : weight == 1 ? ": nothing was divided"
                        : "");
  }
  if (std::isnan(seen[at]))
    return "the gradient is not a number: it must be zeroed before the first microbatch adds to it";
  if (!(std::abs(seen[at] - 1) <= 1e-6 && std::abs(seen[at + 1] - (kFirst + 4.5)) <= 1e-5))
    return fmt::format("the gradient is {} and {}, expected 1 and {}: every microbatch must add to it, none clear it",
                       seen[at], seen[at + 1], kFirst + 4.5);
  return "";
}

TEST(Lab21_6, MicrobatchesCountByTheirSamples) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < kCuts.size(); ++i) numbers.push_back(i);
  run_cases(weights_given, wrong_weights, {.ranks = {1}, .sizes = sizes_of(numbers), .which = "split"});
}

TEST(Lab21_6, ASecondBatchStartsFromZero) {
  run_cases(
      [](Rank me, const Case& c) {
        weights_given(me, c);
        Slice gradients = me.allocate(1, DType::f32, Category::gradient),
              one = me.allocate(1, DType::f32, Category::buffer);
        fill(me, one, 1);
        for (int batch = 0; batch < 2; ++batch)
          accumulate_gradients(me, gradients, microbatches(4, 2), [&](Microbatch, float) { add(me, gradients, one); });
        return Values{to_host(me, gradients)[0]};
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        if (outcome.values[0][0] == 2) return "";
        if (std::isnan(outcome.values[0][0]))
          return "the gradient is not a number: it must be zeroed before the first microbatch adds to it";
        return fmt::format(
            "after a second batch of two microbatches the gradient is {}, expected 2: the first batch's is "
            "still in it",
            outcome.values[0][0]);
      },
      {.ranks = {1}, .sizes = sizes_of({0}), .which = "case"});
}

TEST(Lab21_6, TheGapIsRelativeToTheSecondGradient) {
  run_cases(
      [](Rank me, const Case& c) {
        Slice a = me.allocate(c.size, DType::f32, Category::gradient),
              b = me.allocate(c.size, DType::f32, Category::gradient);
        Values seen;
        for (float factor : {1.0f, 3.0f, 0.0f, 0.5f}) {
          fill(me, a, 2 * factor);
          fill(me, b, 2);
          seen.push_back(relative_gap(me, a, b));
        }
        seen.push_back(to_host(me, a)[0]);
        seen.push_back(to_host(me, b)[0]);
        return seen;
      },
      [](const Case&, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        const double expected[] = {0, 2, 1, 0.5};
        const char* pair[] = {"b and b", "3b and b", "0 and b", "b/2 and b"};
        if (seen[4] != 1 || seen[5] != 2) return "relative_gap changed its arguments: work on a copy";
        for (int i = 0; i < 4; ++i)
          if (!(std::abs(seen[i] - expected[i]) <= 1e-6))
            return fmt::format("the gap between {} is {}, expected {} = ‖a − b‖/‖b‖", pair[i], seen[i], expected[i]);
        return "";
      },
      {.ranks = {1}, .sizes = sizes_of({1, 4, 101})});
}

/// Exact in double; no two elements are equal, and neither parallel nor of equal length.
std::vector<float> gap_input(int which, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(which) * 104729 + 31) % 1009) / 512.0f - 1.0f;
  return values;
}

TEST(Lab21_6, TheGapOfAnyTwoGradients) {
  const auto program = [](Rank me, const Case& c) {
    Slice a = me.allocate(c.size, DType::f32, Category::gradient),
          b = me.allocate(c.size, DType::f32, Category::gradient);
    upload(me, a, gap_input(0, c.size));
    upload(me, b, gap_input(1, c.size));
    Values seen{relative_gap(me, a, b), relative_gap(me, b, a)};
    for (const Slice& slice : {a, b}) testing::append(me, slice, seen);
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<float> a = gap_input(0, c.size), b = gap_input(1, c.size);
    double difference = 0, of_a = 0, of_b = 0;
    for (std::size_t i = 0; i < c.size; ++i) {
      difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
      of_a += static_cast<double>(a[i]) * a[i], of_b += static_cast<double>(b[i]) * b[i];
    }
    const Values& seen = outcome.values[0];
    for (std::size_t i = 0; i < c.size; ++i)
      if (seen[2 + i] != a[i] || seen[2 + c.size + i] != b[i])
        return "relative_gap changed its arguments: work on a copy";
    const double expected[] = {std::sqrt(difference / of_b), std::sqrt(difference / of_a)};
    const char* pair[] = {"‖a − b‖/‖b‖", "‖b − a‖/‖a‖"};
    for (int i : {0, 1})
      if (std::isnan(seen[i]))
        return fmt::format("{} is not a number: uninitialised memory was read", pair[i]);
      else if (!(std::abs(seen[i] - expected[i]) <= 1e-5 * expected[i]))
        return fmt::format(
            "{} is {:.7g}, expected {:.7g}: the root of the sum of squared differences, over that of the "
            "second gradient's squares",
            pair[i], seen[i], expected[i]);
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({1, 2, 7, 101})});
}

std::string too_far(double gap) {
  if (std::isnan(gap)) return "the gap to the large batch's gradient is not a number: uninitialised memory";
  return fmt::format("the accumulated gradient differs by {:.2e} from the large batch's: more than rounding", gap);
}

// On models ----------------------------------------------------------------------------------------------------------

/// The gap between the gradient accumulated over `parts` and the one of the whole batch, for a model's backward.
double gap_of(Rank me, Slice gradients, const std::vector<Microbatch>& parts, const WeightedBackward& backward) {
  fill(me, gradients, 0);
  backward({0, parts.back().first + parts.back().count}, 1);  // the parts are all of it, in order
  Slice whole = me.allocate(gradients.size(), DType::f32, Category::buffer);
  copy(me, whole, gradients);
  accumulate_gradients(me, gradients, parts, backward);
  return relative_gap(me, gradients, whole);
}

TEST(Lab21_6, AGptCannotTellTheDifference) {
  const auto program = [](Rank me, const Case& c) {
    Gpt gpt(me, {.layers = 1, .heads = 2, .d_model = 8, .vocabulary = 13, .context = 4}, 1);
    const auto backward = [&](Microbatch part, float weight) {
      std::vector<std::int32_t> tokens, targets;
      for (std::size_t i = 4 * part.first; i < 4 * (part.first + part.count); ++i) {
        tokens.push_back(static_cast<std::int32_t>(i * i % 13));
        targets.push_back(static_cast<std::int32_t>((i + 1) * (i + 1) % 13));
      }
      Batch batch{me.allocate(tokens.size(), DType::i32, Category::buffer),
                  me.allocate(tokens.size(), DType::i32, Category::buffer), part.count, 4};
      upload(me, batch.tokens, tokens);
      upload(me, batch.targets, targets);
      Activations saved = gpt.allocate_activations(me, batch.sequences, batch.length);
      Slice loss = me.allocate(1, DType::f32, Category::activation);
      fill(me, loss, 0);
      gpt.forward(me, batch, saved);
      cross_entropy(me, loss, saved.logits, batch.targets, weight / static_cast<float>(batch.rows()));
      gpt.backward(me, batch, saved);
    };
    return Values{gap_of(me, gpt.parameters().gradients, parts_of(kCuts[c.size]), backward)};
  };
  const auto judge = [](const Case&, const Outcome& outcome) -> std::string {
    // Sums of 32 products in another order: some multiples of 2^-24.
    if (outcome.values[0][0] < 2e-6) return "";
    return too_far(outcome.values[0][0]);
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({0, 1, 2, 3, 4, 5, 6, 7}), .which = "split"});
}

/// A classifier of d inputs, h hidden units and 3 classes, which normalises its hidden units over the batch or not at
/// all. Hidden units are kept as h × n, so that batch norm is layer_norm of each row: over the samples of a
/// microbatch.
struct Classifier {
  static constexpr std::size_t d = 5, h = 8, classes = 3, samples = 8;
  Rank me;
  bool batch_norm;
  Slice values = me.allocate((d + classes) * h, DType::f32, Category::parameter);
  Slice gradients = me.allocate((d + classes) * h, DType::f32, Category::gradient);
  Slice inputs = me.allocate(samples * d, DType::f32, Category::buffer);
  Slice targets = me.allocate(samples, DType::i32, Category::buffer);

  Classifier(Rank rank, bool with_batch_norm) : me(rank), batch_norm(with_batch_norm) {
    random_normal(me, values, {.seed = 1}, 0, 0.5f);
    random_normal(me, inputs, {.seed = 2}, 0, 1);
    upload(me, targets, std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0, 1});
  }

  void backward(Microbatch part, float weight) {
    const std::size_t n = part.count;
    const auto buffer = [&](std::size_t count) { return me.allocate(count, DType::f32, Category::activation); };
    const Matrix x = matrix(inputs.cut(part.first * d, n * d), n, d);
    const Matrix w1 = matrix(values.cut(0, h * d), h, d), w2 = matrix(values.cut(h * d, classes * h), classes, h);
    const Matrix dw1 = matrix(gradients.cut(0, h * d), h, d);
    const Matrix dw2 = matrix(gradients.cut(h * d, classes * h), classes, h);
    const Matrix hidden = matrix(buffer(h * n), h, n), normal = matrix(buffer(h * n), h, n);
    const Matrix active = matrix(buffer(h * n), h, n), logits = matrix(buffer(n * classes), n, classes);
    Slice ones = buffer(n), zeros = buffer(n), statistics = buffer(2 * h), loss = buffer(1), ignored = buffer(2 * n);
    fill(me, ones, 1);
    for (const Slice& slice : {zeros, loss, ignored}) fill(me, slice, 0);

    matmul(me, hidden, w1, x.t());
    if (batch_norm)
      layer_norm(me, normal.slice, statistics, hidden.slice, ones, zeros);
    else
      copy(me, normal.slice, hidden.slice);
    gelu(me, active.slice, normal.slice);
    matmul(me, logits, active.t(), w2.t());
    cross_entropy(me, loss, logits.slice, targets.cut(part.first, n), weight / static_cast<float>(n));

    const Matrix dactive = matrix(buffer(h * n), h, n), dnormal = matrix(buffer(h * n), h, n);
    const Matrix dhidden = batch_norm ? matrix(buffer(h * n), h, n) : dnormal;
    matmul(me, dw2, logits.t(), active.t(), Into::accumulate);
    matmul(me, dactive, w2.t(), logits.t());
    gelu_backward(me, dnormal.slice, dactive.slice, normal.slice);
    if (batch_norm)
      layer_norm_backward(me, dhidden.slice, ignored.cut(0, n), ignored.cut(n, n), dnormal.slice, hidden.slice, ones,
                          statistics, Into::overwrite);
    matmul(me, dw1, dhidden, x, Into::accumulate);
  }
};

Values classifier_gap(Rank me, const Case& c, bool batch_norm) {
  Classifier model(me, batch_norm);
  return {gap_of(me, model.gradients, parts_of(kCuts[c.size]),
                 [&](Microbatch part, float weight) { model.backward(part, weight); })};
}

TEST(Lab21_6, WithoutBatchNormItIsTheLargeBatch) {
  run_cases([](Rank me, const Case& c) { return classifier_gap(me, c, false); },
            [](const Case&, const Outcome& outcome) -> std::string {
              if (outcome.values[0][0] < 1e-6) return "";
              return too_far(outcome.values[0][0]);
            },
            {.ranks = {1}, .sizes = sizes_of({0, 1, 2, 4, 7}), .which = "split"});
}

TEST(Lab21_6, WithBatchNormItIsNot) {
  run_cases([](Rank me, const Case& c) { return classifier_gap(me, c, true); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              const double gap = outcome.values[0][0];
              if (c.size == 0) return gap < 1e-6 ? "" : "one microbatch is the large batch, but " + too_far(gap);
              if (gap > 0.05) return "";
              return fmt::format(
                  "batch norm sees each microbatch's own mean and variance, so the gradients must differ; "
                  "the gap is {:.2e}: is it measured?",
                  gap);
            },
            {.ranks = {1}, .sizes = sizes_of({0, 1, 2, 4, 7}), .which = "split"});
}

}  // namespace
}  // namespace lockstep::week21
