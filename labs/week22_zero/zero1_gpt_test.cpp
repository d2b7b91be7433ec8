// Tests of exercise 22.2 on a GPT: weights against plain data parallelism, clipping, memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week22_zero/zero1.hpp"
#include "labs/week22_zero/zero_gpt_testing.hpp"

namespace lockstep::week22 {
namespace {

using testing::run_cases;
using testing::sizes_of;

// Part b -------------------------------------------------------------------------------------------------------------

/// Trains the GPT under ZeRO-1; all values after each step.
Values train_zero1(Rank dp, std::size_t sequences, DType storage = DType::f32, float max_norm = 0) {
  GptConfig config = week21::small_gpt();
  config.storage = storage;
  Gpt gpt(dp, config, static_cast<std::uint64_t>(dp.rank()));
  const auto zero = make_zero1(dp, gpt.parameters(), kBuckets, kAdamW);
  Slice factor = dp.allocate(1, DType::f32, Category::buffer), sum = dp.allocate(1, DType::f32, Category::buffer);
  StepHooks engine;
  engine.begin_step = [&] { fill(dp, gpt.parameters().gradients, 0); };
  engine.ready = [&](std::size_t i) { zero->ddp().gradient_ready(i); };
  engine.end_backward = [&] { zero->ddp().finish(); };
  engine.step = [&] {
    if (max_norm > 0) clip_shares(dp, factor, sum, zero->gradient_shares(), max_norm);
    zero->step(kRate, max_norm > 0 ? factor : Slice{});
  };
  return train_engine(dp, gpt, sequences, 1, engine, [&] { return to_host(dp, gpt.parameters().values); });
}

TEST(Lab22_2b, TheWeightsAreThoseOfDdpBitForBit) {
  for (DType storage : {DType::f32, DType::bf16}) {
    const auto program = [&](Rank dp, const Case& c) { return train_zero1(dp, c.size, storage); };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      return differs_from(outcome, trained(train_ddp, c.ranks, c.size, storage, 0), 0, "plain DDP", kEveryBit);
    };
    run_cases(program, judge,
              {.ranks = {1, 2, 3, 4, 8},
               .sizes = sizes_of({3, 8}),
               .queues = true,
               .unit = "sequence",
               .cause = wrong_zero1_a});
    if (HasFailure()) return;
  }
}

// Part c -------------------------------------------------------------------------------------------------------------

TEST(Lab22_2c, TheNormIsThatOfTheWholeGradient) {
  const auto program = [](Rank dp, const Case& c) {
    // Element e of the whole gradient is e + 1; rank r holds its chunk, in two pieces.
    const ChunkRange mine = chunk_range(c.size, dp.rank(), dp.size());
    Slice share = dp.allocate(mine.size, DType::f32, Category::gradient);
    std::vector<float> values;
    for (std::size_t i = 0; i < mine.size; ++i) values.push_back(static_cast<float>(mine.offset + i + 1));
    upload(dp, share, values);
    Slice factor = dp.allocate(1, DType::f32, Category::buffer), sum = dp.allocate(1, DType::f32, Category::buffer);
    clip_shares(dp, factor, sum, {share.cut(0, mine.size / 2), share.cut(mine.size / 2, mine.size - mine.size / 2)}, 5);
    return Values{read(dp, sum, 0), read(dp, factor, 0)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const auto n = static_cast<double>(c.size);
    const double squares = n * (n + 1) * (2 * n + 1) / 6, factor = std::min(1.0, 5 / (std::sqrt(squares) + 1e-6));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen[0] != squares)
        return fmt::format("rank {}: the squared norm is {}, expected {}, of all shares of all ranks{}", rank, seen[0],
                           squares, seen[0] * c.ranks == squares ? ": the sum is divided by p, as averages are" : "");
      if (!(std::abs(seen[1] - factor) <= 1e-6))
        return fmt::format(
            "rank {}: the factor is {:.6g}, expected {:.6g}: a norm of {:.6g} is clipped to 5. Is the factor computed "
            "after the sum over the ranks?",
            rank, seen[1], factor, std::sqrt(squares));
    }
    return "";
  };
  run_cases(program, judge);
}

/// What is wrong with parts a and b, without which no training is that of DDP.
std::string wrong_zero1_before_c() {
  if (std::string wrong = wrong_zero1_a(); !wrong.empty() || !testing::has_ranks(2)) return wrong;
  const Outcome zero1 = run({.ranks = 2}, Program([](Rank dp) { return train_zero1(dp, 8); }));
  const std::string wrong = differs_from(zero1.check(), trained(train_ddp, 2, 8, DType::f32, 0), 0, "plain DDP");
  return wrong.empty() ? "" : "22.2b first: with 2 ranks and 8 sequences, and without clipping, " + wrong;
}

TEST(Lab22_2c, ClippedTrainingIsThatOfDdp) {
  constexpr float kNorm = 0.5f;  // small enough to bite
  const auto program = [](Rank dp, const Case& c) { return train_zero1(dp, c.size, DType::f32, kNorm); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    // The squares are added in another order, so the factor may differ in its last bit.
    return differs_from(outcome, trained(train_ddp, c.ranks, c.size, DType::f32, kNorm), 1e-5,
                        "plain DDP, clipped by the same norm,");
  };
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({8}), .unit = "sequence", .cause = wrong_zero1_before_c});
}

// All together -------------------------------------------------------------------------------------------------------

TEST(Lab22_2, MemoryOfOneRank) {
  // Values and gradients whole, the state of a share: 4Ψ + 4Ψ + 8Ψ/p in fp32, the paper's 4Ψ + 12Ψ/p with 16-bit ones.
  const auto program = [](Rank dp, const Case&) {
    Gpt gpt(dp, week21::small_gpt(), 0);
    const auto zero = make_zero1(dp, gpt.parameters(), kBuckets, kAdamW);
    Values seen;
    for (Category category : {Category::parameter, Category::gradient, Category::optimizer})
      seen.push_back(static_cast<double>(ledger_of(dp).memory.live_of(category)));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const auto all = static_cast<double>(week21::small_gpt().parameters());
    double state = 0;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen[0] != 4 * all || seen[1] != 4 * all)
        return fmt::format("rank {} holds {} bytes of values and {} of gradients, expected {} of each", rank, seen[0],
                           seen[1], 4 * all);
      state += seen[2];
    }
    if (state != 8 * all)
      return fmt::format("all ranks together hold {} bytes of optimizer state, expected {}, once", state, 8 * all);
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1}), .unit = ""});
}

}  // namespace
}  // namespace lockstep::week22
