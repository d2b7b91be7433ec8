// Tests of exercise 23.5: rows gathered and scattered, the whole GPT against the serial one, the bytes forward and
// backward, and the activations that it saves.
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

#include <gtest/gtest.h>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "labs/week23_tensor_parallel/tensor_gpt_testing.hpp"

namespace lockstep::week23 {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab23_5a, RowsAreGatheredAndSumsScattered) {
  const auto program = [](Rank me, const Case& c) {
    const std::size_t p = static_cast<std::size_t>(me.size());
    Slice own = uploaded(me, numbers(me.rank(), 1, c.size)), whole = unwritten(me, c.size * p);
    gather_rows(me, whole, own, "gather");
    Values seen;
    append(seen, to_host(me, whole));
    append(seen, to_host(me, own));
    Slice parts = uploaded(me, numbers(20 + me.rank(), 1, c.size * p)), sum = unwritten(me, c.size);
    scatter_rows(me, sum, parts, "scatter");
    append(seen, to_host(me, sum));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::size_t p = static_cast<std::size_t>(c.ranks);
    HostMatrix all{1, 0, {}}, sum{1, c.size * p, std::vector<float>(c.size * p)};
    for (int rank = 0; rank < c.ranks; ++rank) {
      const HostMatrix own = numbers(rank, 1, c.size);
      all.values.insert(all.values.end(), own.values.begin(), own.values.end());
      sum = plus(sum, numbers(20 + rank, 1, c.size * p));
    }
    all.columns = all.values.size();
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::size_t first = c.size * static_cast<std::size_t>(rank);
      Reader reader(outcome.values[rank], rank);
      reader.expect("the gathered rows", all);
      reader.expect("its own rows after they were gathered", numbers(rank, 1, c.size));
      reader.expect(
          "its rows of the sum", cut_columns(sum, first, c.size),
          {{cut_columns(numbers(20 + rank, 1, c.size * p), first, c.size), "its own part: nothing was summed"}});
      if (!reader.complaint().empty()) return reader.complaint();
      const std::uint64_t expected = 2 * 4 * c.size * (p - 1);
      if (const std::uint64_t sent = outcome.ledgers[rank].traffic.bytes_sent; sent != expected)
        return fmt::format("rank {} sent {} bytes, expected {}: (p − 1)/p of the array for each of the two", rank, sent,
                           expected);
    }
    return "";
  };
  CasePlan plan;
  plan.sizes = sizes_of({1, 6});
  plan.unit = "element per rank";
  run_cases(program, judge, plan);
}

// Parts b and c -------------------------------------------------------------------------------------------------------

TensorRunPlan gpt_plan(bool overlap) {
  TensorRunPlan plan;
  plan.overlap = overlap;
  plan.sequence_parallel = true;
  plan.layers = [](const TensorParallel& tp, const GptConfig& config) {
    return make_sequence_layers(tp, config.vocabulary);
  };
  plan.finish = [](const TensorParallel& tp, const Gpt& gpt) {
    sum_norm_gradients(tp, norm_gradients(gpt.parameters()));
  };
  return plan;
}

TEST(Lab23_5c, NormsOfAllLengthsAreSummedOnce) {
  constexpr std::array<std::size_t, 4> lengths = {3, 1, 7, 4};
  const auto program = [=](Rank me, const Case&) {
    std::vector<Slice> norms;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      norms.push_back(uploaded(me, numbers(10 * me.rank() + static_cast<int>(i), 1, lengths[i]), Category::gradient));
    sum_norm_gradients(make_tensor_parallel(me, false), norms);
    Values seen;
    for (const Slice& norm : norms) append(seen, to_host(me, norm));
    return seen;
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      Reader reader(outcome.values[rank], rank);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        HostMatrix sum{1, lengths[i], std::vector<float>(lengths[i])};
        for (int other = 0; other < c.ranks; ++other)
          sum = plus(sum, numbers(10 * other + static_cast<int>(i), 1, lengths[i]));
        reader.expect(
            fmt::format("the gradient of norm {}, of {} element{}", i, lengths[i], lengths[i] == 1 ? "" : "s"), sum,
            {{numbers(10 * rank + static_cast<int>(i), 1, lengths[i]), "this rank's own part"}});
      }
      if (!reader.complaint().empty()) return reader.complaint();
    }
    const std::uint64_t bytes = 4 * 15;
    if (std::string wrong = wrong_sums(outcome, "norm gradients", 1, bytes); !wrong.empty())
      return "all norms are summed at once:  " + wrong;
    return more_than_sums(outcome, bytes);
  };
  CasePlan plan;
  plan.sizes = sizes_of({15});
  run_cases(program, judge, plan);
}

void run_gpt(bool overlap) { run_tensor_gpt(gpt_plan(overlap)); }

TEST(Lab23_5c, LossesAndGradientsAreTheSerialModels) { run_gpt(false); }
TEST(Lab23_5c, WithOverlap) { run_gpt(true); }

/// Bytes that one rank sends, in (p − 1)/p of N × C: with sums 2 for each; here 1 for each gather and scatter.
std::uint64_t sent(int ranks, bool sequence, bool backward) {
  TensorRunPlan plan = gpt_plan(false);
  const auto program = [&](Rank me) {
    GptConfig config = plan.config;
    config.tensor = {me.rank(), me.size(), sequence};
    const TensorParallel tp = make_tensor_parallel(me, false);
    Gpt gpt(me, config, 5);
    gpt.use(sequence ? make_sequence_layers(tp, config.vocabulary) : make_tensor_layers(tp, config.vocabulary));
    Activations saved = gpt.allocate_activations(me, 2, 8);
    const Batch batch = small_batch(me, 2, 8, config.vocabulary, 0);
    gpt.forward(me, batch, saved);
    const std::uint64_t before = ledger_of(me).traffic.bytes_sent;
    if (backward) {
      fill(me, saved.logits, 0);
      gpt.backward(me, batch, saved);
    }
    return Values{static_cast<double>(ledger_of(me).traffic.bytes_sent - (backward ? before : 0))};
  };
  return static_cast<std::uint64_t>(run({.ranks = ranks}, Program(program)).check().values[0][0]);
}

TEST(Lab23_5b, ForwardTheBytesOfSumsAndBackwardHalfAsMuchAgain) {
  const std::uint64_t layers = 2;
  if (!testing::has_ranks(2)) GTEST_SKIP() << "needs 2 ranks";
  for (int ranks : {2, 4}) {
    if (!testing::has_ranks(ranks)) continue;
    const std::uint64_t unit = 4 * 16 * 24 * static_cast<std::uint64_t>(ranks - 1) / static_cast<std::uint64_t>(ranks);
    // Forward: a gather and a scatter for each sum of the blocks; the embedding scatters, and the head gathers.
    EXPECT_EQ(sent(ranks, false, false), (4 * layers + 2) * unit) << "the sums of 23.4, forward";
    EXPECT_EQ(sent(ranks, true, false), (4 * layers + 2) * unit) << "forward must send what all-reduces send";
    // Backward: three where a sum is two; the head's two and the embedding's gather in addition to the head's sum.
    EXPECT_EQ(sent(ranks, false, true), (4 * layers + 2) * unit) << "the sums of 23.4, backward";
    EXPECT_EQ(sent(ranks, true, true), (6 * layers + 3) * unit)
        << "backward must send 1.5 times that: x is gathered again";
  }
}

TEST(Lab23_5b, ActivationsOfABlockAreCutWhole) {
  const auto activations = [](int ranks, bool sequence) {
    const auto program = [&](Rank me) {
      GptConfig config = small_tensor_gpt();
      config.tensor = {me.rank(), me.size(), sequence};
      const TensorParallel tp = make_tensor_parallel(me, false);
      Gpt gpt(me, config, 5);
      gpt.use(sequence ? make_sequence_layers(tp, config.vocabulary) : make_tensor_layers(tp, config.vocabulary));
      Activations saved = gpt.allocate_activations(me, 2, 8);
      const Batch batch = small_batch(me, 2, 8, config.vocabulary, 0);
      gpt.forward(me, batch, saved);  // memory that it adds for itself must not stay
      EXPECT_EQ(ledger_of(me).memory.peak_of(Category::activation), activation_bytes(config, 2, 8))
          << "what a layer gathers for itself is a buffer, and must be freed";
      const BlockActivations& block = saved.blocks[0];
      double bytes = 0;
      for (const Slice& slice :
           {block.input, block.norm1, block.qkv, block.attention, block.residual, block.norm2, block.up, block.gelu})
        bytes += static_cast<double>(slice.bytes());
      return Values{bytes};
    };
    return run({.ranks = ranks}, Program(program)).check().values[0][0];
  };
  const double whole = 4 * 16 * 24;  // N × C in fp32: Korthikanti's sbh, of 4 bytes each instead of 2
  for (int p : {1, 2, 4}) {
    if (!testing::has_ranks(p)) continue;
    EXPECT_EQ(activations(p, false), whole * (4 + 12.0 / p)) << "norms and residuals whole, the rest sharded";
    EXPECT_EQ(activations(p, true), whole * 16 / p) << "everything cut";
  }
}

}  // namespace
}  // namespace lockstep::week23
