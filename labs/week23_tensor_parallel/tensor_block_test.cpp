// Tests of exercise 23.4: vocabulary-parallel embedding and loss against the serial ones, and the whole GPT: losses and
// every gradient, the number and size of its sums, and logits that nobody gathers.
#include "labs/week23_tensor_parallel/tensor_block.hpp"

#include <gtest/gtest.h>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/tensor_gpt.hpp"

namespace lockstep::week23::tensor_block_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

constexpr std::size_t kSequence = 4, kRows = 8, kChannels = 3;

/// A case's size is the vocabulary; few of them divide.
CasePlan plan() {
  CasePlan plan;
  plan.sizes = sizes_of({5, 8, 13});
  plan.unit = "token";
  return plan;
}

std::vector<std::int32_t> tokens(std::size_t vocabulary, std::size_t seed, bool some_ignored) {
  std::vector<std::int32_t> result;
  for (std::size_t n = 0; n < kRows; ++n)
    result.push_back(some_ignored && n % 4 == 1 ? -1 : static_cast<std::int32_t>((seed + 5 * n * n + n) % vocabulary));
  return result;
}
Slice uploaded_tokens(Rank me, const std::vector<std::int32_t>& values) {
  Slice slice = me.allocate(values.size(), DType::i32, Category::buffer);
  upload(me, slice, values);
  return slice;
}

/// This rank's rows of a V × columns table; padding is 9, which must never show.
HostMatrix padded_rows(const HostMatrix& table, int rank, int ranks) {
  const VocabularyShard shard = vocabulary_shard(table.rows, rank, ranks);
  HostMatrix own = cut_rows(table, shard.first, shard.count);
  own.rows = (table.rows + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  own.values.resize(own.rows * table.columns, 9);
  return own;
}

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab23_4a, EmbeddingAndItsGradients) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    const HostMatrix own = padded_rows(numbers(1, c.size, kChannels), me.rank(), me.size());
    Slice table = uploaded(me, own), positions = uploaded(me, numbers(2, kSequence, kChannels));
    Slice token = uploaded_tokens(me, tokens(c.size, 0, false)), y = unwritten(me, kRows * kChannels);
    parallel_embedding(tp, y, token, table, positions, kSequence, shard);
    Slice dtable = zeros(me, table), dpositions = zeros(me, positions);
    parallel_embedding_backward(tp, dtable, dpositions, uploaded(me, numbers(3, kRows, kChannels)), token, kSequence,
                                shard);
    Values seen;
    for (const Slice& slice : {y, dpositions, dtable}) append(seen, to_host(me, slice));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const HostMatrix table = numbers(1, c.size, kChannels), positions = numbers(2, kSequence, kChannels);
    const HostMatrix dy = numbers(3, kRows, kChannels);
    const std::vector<std::int32_t> token = tokens(c.size, 0, false);
    HostMatrix y{kRows, kChannels, {}}, dtable{c.size, kChannels, std::vector<float>(c.size * kChannels)};
    HostMatrix dpositions{kSequence, kChannels, std::vector<float>(kSequence * kChannels)}, often = y;
    for (std::size_t n = 0; n < kRows; ++n)
      for (std::size_t i = 0; i < kChannels; ++i) {
        const auto t = static_cast<std::size_t>(token[n]);
        y.values.push_back(table.at(t, i) + positions.at(n % kSequence, i));
        often.values.push_back(table.at(t, i) + static_cast<float>(c.ranks) * positions.at(n % kSequence, i));
        dtable.values[t * kChannels + i] += dy.at(n, i);
        dpositions.values[n % kSequence * kChannels + i] += dy.at(n, i);
      }
    for (int rank = 0; rank < c.ranks; ++rank) {
      HostMatrix own = padded_rows(dtable, rank, c.ranks);
      const VocabularyShard shard = vocabulary_shard(c.size, rank, c.ranks);
      std::fill(own.values.begin() + static_cast<std::ptrdiff_t>(shard.count * kChannels), own.values.end(), 0.0f);
      Reader reader(outcome.values[rank], rank);
      reader.expect("y", y, {{often, fmt::format("the sum holds the positions {} times", c.ranks)}});
      reader.expect("the gradient of the positions", dpositions);
      reader.expect("the gradient of its rows of the table", own);
      if (!reader.complaint().empty()) return reader.complaint();
    }
    return wrong_sums(outcome, "embedding forward", 1, 4 * kRows * kChannels);
  };
  run_cases(program, judge, plan());
}

// Part b --------------------------------------------------------------------------------------------------------------

TEST(Lab23_4b, LossAndGradientOfACutVocabulary) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    const std::size_t width = (c.size + static_cast<std::size_t>(c.ranks) - 1) / static_cast<std::size_t>(c.ranks);
    HostMatrix own{kRows, width, std::vector<float>(kRows * width, 50)};  // padding that would win every softmax
    put_columns(own, 0, cut_columns(numbers(1, kRows, c.size), shard.first, shard.count));
    Slice logits = uploaded(me, own), target = uploaded_tokens(me, tokens(c.size, 3, true));
    Slice loss = uploaded(me, {1, 2, {1, 1}});
    parallel_cross_entropy(tp, loss.cut(0, 1), logits, target, shard, 0.25f, {}, /*only_loss=*/true);
    Values seen;
    append(seen, to_host(me, logits));
    parallel_cross_entropy(tp, loss.cut(1, 1), logits, target, shard, 0.25f, {}, /*only_loss=*/false);
    append(seen, to_host(me, logits));
    append(seen, to_host(me, loss));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const HostMatrix logits = numbers(1, kRows, c.size);
    const std::vector<std::int32_t> target = tokens(c.size, 3, true);
    const std::size_t width = (c.size + static_cast<std::size_t>(c.ranks) - 1) / static_cast<std::size_t>(c.ranks);
    double loss = 0;
    std::vector<double> gradient(kRows * c.size);
    for (std::size_t n = 0; n < kRows; ++n) {
      if (target[n] < 0) continue;
      double sum = 0;
      for (std::size_t i = 0; i < c.size; ++i) sum += std::exp(logits.at(n, i));
      for (std::size_t i = 0; i < c.size; ++i)
        gradient[n * c.size + i] =
            0.25 * (std::exp(logits.at(n, i)) / sum - (i == static_cast<std::size_t>(target[n]) ? 1 : 0));
      loss += 0.25 * (std::log(sum) - logits.at(n, static_cast<std::size_t>(target[n])));
    }
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      const VocabularyShard shard = vocabulary_shard(c.size, rank, c.ranks);
      for (std::size_t i = 0; i < kRows * width; ++i) {
        const std::size_t n = i / width, column = i % width;
        const bool padding = column >= shard.count;
        const double before = padding ? 50 : logits.at(n, shard.first + column);
        if (seen[i] != before) return fmt::format("rank {}: the loss alone has changed the logits", rank);
        const double exact = padding ? 0 : gradient[n * c.size + shard.first + column];
        if (!(std::abs(seen[kRows * width + i] - exact) <= 1e-5))
          return fmt::format("rank {}: the gradient of row {}, column {}{} is {:g}, expected {:g}", rank, n, column,
                             padding ? " (padding)" : "", seen[kRows * width + i], exact);
      }
      for (std::size_t which : {0, 1})
        if (const double value = seen[2 * kRows * width + which]; !(std::abs(value - 1 - loss) <= 1e-5 * (1 + loss)))
          return fmt::format("rank {}: the loss gains {:g}, of the whole vocabulary it is {:g}", rank, value - 1, loss);
    }
    return wrong_sums(outcome, "loss", 2, 2 * kRows * 4 * static_cast<std::uint64_t>(c.ranks));
  };
  run_cases(program, judge, plan());
}

// Part c --------------------------------------------------------------------------------------------------------------

TensorRunPlan gpt_plan(bool tied, bool overlap) {
  TensorRunPlan plan;
  plan.config = small_tensor_gpt(tied);
  plan.overlap = overlap;
  plan.layers = [](const TensorParallel& tp, const GptConfig& config) {
    return make_tensor_layers(tp, config.vocabulary);
  };
  return plan;
}

void run_gpt(bool tied, bool overlap) { run_tensor_gpt(gpt_plan(tied, overlap)); }

TEST(Lab23_4c, LossesAndGradientsAreTheSerialModels) { run_gpt(true, false); }
TEST(Lab23_4c, WithAHeadOfItsOwn) { run_gpt(false, false); }
TEST(Lab23_4c, WithOverlap) { run_gpt(true, true); }

TEST(Lab23_4c, TwoSumsABlockForwardAndTwoBackward) {
  TensorRunPlan plan = gpt_plan(true, false);
  plan.steps = 1;
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t layers = plan.config.layers, bytes = 4 * 16 * plan.config.d_model;
    // A training step and a validation: twice forward, once backward.
    for (const char* place : {"attention forward", "mlp forward"})
      if (std::string wrong = wrong_sums(outcome, place, 2 * layers, bytes); !wrong.empty()) return wrong;
    for (const char* place : {"attention backward", "mlp backward"})
      if (std::string wrong = wrong_sums(outcome, place, layers, bytes); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_sums(outcome, "embedding forward", 2, bytes); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_sums(outcome, "head backward", 1, bytes); !wrong.empty()) return wrong;
    // All that is sent: (6 layers + 3) sums of N × C, and two gathers of two numbers a row and rank.
    const double p = c.ranks, ring = 2 * (p - 1) / p, gather = (p - 1) / p;
    const double expected = ring * static_cast<double>((6 * layers + 3) * bytes) + gather * 2 * p * 2 * 16 * 4;
    for (int rank = 0; rank < c.ranks; ++rank)
      if (const auto sent = static_cast<double>(outcome.ledgers[rank].traffic.bytes_sent); sent != expected)
        return fmt::format(
            "rank {} sent {} bytes, expected {}: nothing but the sums, and per-token numbers of the loss", rank, sent,
            expected);
    return "";
  };
  run_cases([&](Rank me, const Case&) { return train_tensor_gpt(me, plan); }, judge, tensor_gpt_cases(false));
}

TEST(Lab23_4c, ParametersAreCut) {
  const TensorRunPlan plan = gpt_plan(true, false);
  const auto program = [&](Rank me, const Case&) {
    GptConfig config = plan.config;
    config.tensor = {me.rank(), me.size()};
    Gpt gpt(me, config, 1);
    gpt.use(make_tensor_layers(make_tensor_parallel(me, false), config.vocabulary));
    Activations saved = gpt.allocate_activations(me, 1, 8);
    gpt.forward(me, small_batch(me, 1, 8, config.vocabulary, 0), saved);
    return Values{static_cast<double>(ledger_of(me).memory.live_of(Category::parameter))};
  };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const auto p = static_cast<std::size_t>(c.ranks), width = plan.config.d_model;
    // Whole on every rank: positions, norms, and the biases of projection and down.
    const std::size_t whole = plan.config.context * width + plan.config.layers * 6 * width + 2 * width;
    const std::size_t cut =
        (plan.config.vocabulary + p - 1) / p * width + plan.config.layers * (12 * width * width + 7 * width) / p;
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.values[rank][0] != 4.0 * static_cast<double>(whole + cut))
        return fmt::format("rank {} holds {} bytes of parameters, expected {}", rank, outcome.values[rank][0],
                           4 * (whole + cut));
    return "";
  };
  run_cases(program, judge, tensor_gpt_cases(false));
}

}  // namespace
}  // namespace lockstep::week23::tensor_block_test
