// Tests of exercise 23.4: the vocabulary-parallel embedding against the serial one, and the whole GPT: losses and every
// gradient, the number and size of its sums, and logits that nobody gathers.
#include "labs/week23_tensor_parallel/tensor_block.hpp"

#include <gtest/gtest.h>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/tensor_block_testing.hpp"
#include "labs/week23_tensor_parallel/tensor_gpt_testing.hpp"

namespace lockstep::week23::tensor_block_test {
namespace {

using testing::Case;
using testing::run_cases;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab23_4a, EmbeddingAndItsGradients) {
  const auto program = [](Rank me, const Case& c) {
    const TensorParallel tp = make_tensor_parallel(me, false);
    const VocabularyShard shard = vocabulary_shard(c.size, me.rank(), me.size());
    const HostMatrix own = padded_rows(numbers(1, c.size, kChannels), me.rank(), me.size());
    Slice table = uploaded(me, own), positions = uploaded(me, numbers(2, kSequence, kChannels));
    Slice token = uploaded_tokens(me, tokens(c.size, 0, false)), y = unwritten(me, kRows * kChannels);
    parallel_embedding(tp, y, token, table, positions, kSequence, shard);
    Slice dtable = ones(me, table), dpositions = ones(me, positions);
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
    // Gradients were 1 before.
    HostMatrix y{kRows, kChannels, {}}, dtable{c.size, kChannels, std::vector<float>(c.size * kChannels, 1)};
    HostMatrix dpositions{kSequence, kChannels, std::vector<float>(kSequence * kChannels, 1)}, often = y;
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
      std::fill(own.values.begin() + static_cast<std::ptrdiff_t>(shard.count * kChannels), own.values.end(), 1.0f);
      Reader reader(outcome.values[rank], rank);
      reader.expect("y", y, {{often, fmt::format("the sum holds the positions {} times", c.ranks)}});
      reader.expect("the gradient of the positions", dpositions);
      reader.expect("the gradient of its rows of the table", own);
      if (!reader.complaint().empty()) return reader.complaint();
    }
    if (std::string wrong = wrong_sums(outcome, "embedding forward", 1, 4 * kRows * kChannels); !wrong.empty())
      return wrong;
    return more_than_sums(outcome, 4 * kRows * kChannels);
  };
  run_cases(program, judge, plan());
}

// Part c --------------------------------------------------------------------------------------------------------------

/// Logits of N rows, and the gradients back, of a head whose rows are the vocabulary's.
TEST(Lab23_4c, TheHeadIsAColumnParallelLayer) {
  constexpr std::size_t width = 3, rows = 4;
  const auto layer_of = [](const Case& c) {
    return SerialLinear(rows, width, c.size * static_cast<std::size_t>(c.ranks));
  };
  const auto program = [=](Rank me, const Case& c) {
    const SerialLinear head = layer_of(c);
    const std::size_t first = c.size * static_cast<std::size_t>(me.rank());
    const auto layers = make_tensor_layers(make_tensor_parallel(me, false), c.size * static_cast<std::size_t>(c.ranks));
    Slice x = uploaded(me, head.x), weight = uploaded(me, cut_rows(head.weight, first, c.size));
    Slice logits = unwritten(me, rows * c.size), dx = unwritten(me, x.size()), dweight = ones(me, weight);
    layers->logits(me, logits, x, weight, rows);
    layers->logits_backward(me, dx, dweight, uploaded(me, cut_columns(head.dy, first, c.size)), x, weight, rows);
    Values seen;
    for (const Slice& slice : {logits, dx, dweight}) append(seen, to_host(me, slice));
    return seen;
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const SerialLinear head = layer_of(c);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::size_t first = c.size * static_cast<std::size_t>(rank);
      const HostMatrix dweight = cut_rows(head.dweight(), first, c.size);
      Reader reader(outcome.values[rank], rank);
      reader.expect("its logits", cut_columns(product(head.x, head.weight, Transposed::b), first, c.size));
      reader.expect("dx of the head", head.dx());
      reader.expect("the gradient of the head", plus_one(dweight),
                    {{dweight, "gradients accumulate: what was there before is lost"}});
      if (!reader.complaint().empty()) return reader.complaint();
    }
    const std::uint64_t bytes = 4 * rows * width;
    if (std::string wrong = wrong_sums(outcome, "head backward", 1, bytes); !wrong.empty()) return wrong;
    return more_than_sums(outcome, bytes);
  };
  run_cases(program, judge, plan());
}

/// Like 23.1d, for the head.
TEST(Lab23_4c, TheHeadsGradientHidesTheSum) {
  constexpr std::size_t rows = 512, width = 256, own = 256;
  const auto program = [](Rank me, const Case& c) {
    const auto layers = make_tensor_layers(make_tensor_parallel(me, true), own * static_cast<std::size_t>(c.ranks));
    Slice dx = unwritten(me, rows * width), x = unwritten(me, rows * width), dlogits = unwritten(me, rows * own);
    Slice head = unwritten(me, own * width), dhead = unwritten(me, own * width);
    return exposed_by(me, [&] { layers->logits_backward(me, dx, dhead, dlogits, x, head, rows); });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return too_exposed(
        outcome, 0.5,
        "column_backward overlaps its all-reduce of dx with the head's gradient: is that what the backward "
        "pass calls?");
  };
  run_cases(program, judge, timed_plan(2.0 * rows * width * own, 4.0 * rows * width));
}

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
        return fmt::format("rank {} sent {} bytes, expected {}: only the all-reduces, and the loss's numbers per token",
                           rank, sent, expected);
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
