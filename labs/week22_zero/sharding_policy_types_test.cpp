// Tests of exercise 22.9, part c: the types of stored values, of computation and of reduction.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/testing/regions.hpp"
#include "common/testing/values.hpp"
#include "labs/week22_zero/fsdp_testing.hpp"
#include "labs/week22_zero/sharding_policy.hpp"

namespace lockstep::week22 {
namespace {

FsdpOptions mixed(DType keep, DType compute, DType reduce) {
  return with_policies({.prefetch = 1, .precision = {keep, compute, reduce}, .adamw = kAdamW});
}

/// Without a wrapper: the type, the numbers, and the memory of what comes back, while it is held and after.
TEST(Lab22_9c, ValuesComeInTheOtherType) {
  for (const DType from : {DType::f32, DType::bf16}) {
    const DType type = from == DType::f32 ? DType::bf16 : DType::f32;
    const auto program = [&](Rank me, const Case&) {
      const auto buffers = [&] { return static_cast<double>(ledger_of(me).memory.live_of(Category::buffer)); };
      const Slice values = me.allocate(3, from, Category::parameter);
      upload(me, values, std::vector<float>{1, 257, -0.5f});
      const double before = buffers();
      Slice other = in_type(me, values, type);
      if (other.dtype() != type || other.size() != 3)
        throw Error(Verdict::fail, fmt::format("3 numbers of {} came as {} of {}, expected 3 of {}", to_string(from),
                                               other.size(), to_string(other.dtype()), to_string(type)));
      const double held = buffers() - before;
      const std::vector<float> seen = to_host(me, other);
      other = {};
      return Values{seen[0], seen[1], seen[2], held, buffers() - before};
    };
    const auto judge = [&](const Case&, const Outcome& outcome) -> std::string {
      const Values expected{1, 256, -0.5, 3 * static_cast<double>(bytes_of(type)), 0};  // 257 is no bf16 number
      const char* what[] = {"number 0", "number 1", "number 2", "bytes of buffers for it", "bytes when it is gone"};
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (outcome.values[0].at(i) != expected[i])
          return fmt::format("1, 257, -0.5 of {} in {}: {} is {}, expected {}", to_string(from), to_string(type),
                             what[i], outcome.values[0][i], expected[i]);
      return "";
    };
    run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({3}), .unit = "number"});
    if (HasFailure()) return;
  }
}

TEST(Lab22_9c, BytesOnTheWireFollowThePolicy) {
  struct Policy {
    ShardPrecision precision;
    double gather, reduce;  // bytes an element
  };
  for (const Policy& policy :
       {Policy{{DType::f32, DType::bf16, DType::f32}, 2, 4}, Policy{{DType::f32, DType::bf16, DType::bf16}, 2, 2},
        Policy{{DType::bf16, DType::bf16, DType::f32}, 2, 4}, Policy{{DType::bf16, DType::bf16, DType::bf16}, 2, 2}}) {
    const auto program = [&](Rank dp, const Case& c) {
      // Two steps of the GPT: the second one starts from values that were updated.
      train_fsdp(dp, c.size, 1, gpt_units(),
                 mixed(policy.precision.keep, policy.precision.compute, policy.precision.reduce));
      const RankLedger ledger = ledger_of(dp);
      const auto in = [&](const char* region, const char* place) {
        return testing::required_visits_to(ledger, region, place).traffic;
      };
      return Values{static_cast<double>(in("all_gather", "where a unit's values are gathered").bytes_received),
                    static_cast<double>(in("reduce_scatter", "where a unit's gradients are reduced").bytes_sent)};
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const std::vector<Unit> units = gpt_units();
      for (int rank = 0; rank < c.ranks; ++rank) {
        const double gather =
            2 * week21::kSteps * policy.gather * static_cast<double>(others_elements(units, rank, c.ranks));
        const double reduce =
            week21::kSteps * policy.reduce * static_cast<double>(others_elements(units, rank, c.ranks));
        const Values& seen = outcome.values[rank];
        const std::string words =
            fmt::format("kept in {}, computed in {}, reduced in {}", to_string(policy.precision.keep),
                        to_string(policy.precision.compute), to_string(policy.precision.reduce));
        if (seen[0] != gather)
          return fmt::format("rank {}, {}: received {} bytes of values, expected {}: {} per element", rank, words,
                             seen[0], gather, policy.gather);
        if (seen[1] != reduce)
          return fmt::format("rank {}, {}: sent {} bytes to reduce gradients, expected {}: {} per element", rank, words,
                             seen[1], reduce, policy.reduce);
      }
      return "";
    };
    run_cases(program, judge, {.ranks = {2, 3}, .sizes = sizes_of({4}), .unit = "sequence"});
    if (HasFailure()) return;
  }
}

TEST(Lab22_9c, SumsAreTakenInTheReduceType) {
  // 256 + 1 is no bf16 number: with p ranks that each add one to rank 0's 256, a bf16 sum loses the ones.
  for (DType reduce : {DType::f32, DType::bf16}) {
    const auto program = [=](Rank dp, const Case&) {
      std::vector<Slice> gradients(1);
      const std::vector<Parameter> table{{"layer", 0, 3, 1, 3}};
      const auto fsdp = make_fsdp(dp,
                                  {table,
                                   {make_unit(table, 0, 1)},
                                   {{0}},
                                   [](Rank me, std::size_t, std::size_t, Slice part) { fill(me, part, 1); }},
                                  mixed(DType::f32, DType::bf16, reduce),
                                  [&](std::size_t i, Slice, Slice gradient) { gradients.at(i) = std::move(gradient); });
      fsdp->before(Pass::backward, 0);
      if (gradients[0].dtype() != DType::bf16) throw Error(Verdict::fail, "gradients are computed in bf16");
      fill(dp, gradients[0], dp.rank() == 0 ? 256.0f : 1.0f);
      fsdp->end(Pass::backward);
      Values seen;
      testing::append(dp, fsdp->gradient_shares()[0], seen);
      return seen;
    };
    const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
      for (int rank = 0; rank < c.ranks; ++rank)
        for (double value : outcome.values[rank]) {
          const double exact = (255.0 + c.ranks) / c.ranks;
          const bool is_exact = std::abs(value - exact) < 1e-6 * exact;
          if (reduce == DType::f32 && !is_exact)
            return fmt::format("rank {}: the average of bf16 gradients 256, 1, … reduced in fp32 is {}, expected {}",
                               rank, value, exact);
          if (reduce == DType::bf16 && is_exact)
            return fmt::format("rank {}: the average {} is exact, which bf16 sums cannot be: reduce in bf16", rank,
                               value);
        }
      return "";
    };
    run_cases(program, judge, {.ranks = {2, 4}, .sizes = sizes_of({3}), .unit = ""});
    if (HasFailure()) return;
  }
}

TEST(Lab22_9c, KeptInBf16TheWeightsAreThoseOfBf16Ddp) { equals_ddp(mixed(DType::bf16, DType::bf16, DType::bf16), 1); }

TEST(Lab22_9c, KeptInFp32TrainsAsFp32DoesNearly) {
  const auto program = [](Rank dp, const Case& c) {
    return train_fsdp(dp, c.size, 1, gpt_units(), mixed(DType::f32, DType::bf16, DType::f32));
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Values& ddp = trained(train_unit_ddp, c.ranks, c.size, 1, DType::f32);
    // A bf16 number has 8 bits; AdamW's steps of 0.03 follow the gradient's sign, which rounding rarely turns.
    const Values whole = whole_values(outcome, gpt_units());
    double distance = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) distance += std::abs(whole[i] - ddp[i]);
    distance /= static_cast<double>(whole.size());
    return distance < 2e-3 ? "" : fmt::format("values differ by {:.4f} from those of an fp32 run on average", distance);
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({8}), .unit = "sequence"});
}

}  // namespace
}  // namespace lockstep::week22
