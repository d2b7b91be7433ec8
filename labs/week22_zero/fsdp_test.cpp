// Tests of exercise 22.4, ZeRO stage 3, with given units, none of them gathered ahead.
#include "labs/week22_zero/fsdp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/support/text/counted.hpp"
#include "common/testing/regions.hpp"
#include "common/testing/values.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week22_zero/fsdp_testing.hpp"
#include "labs/week22_zero/zero_steps_testing.hpp"
#include "labs/week22_zero/zero_timing_testing.hpp"

namespace lockstep::week22 {
namespace {

constexpr int kPasses = 3;

// Part a -------------------------------------------------------------------------------------------------------------

void values_are_there(FsdpOptions options) {
  const auto program = [options](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, options);
    for (int pass = 0; pass < 2; ++pass) model.forward();
    Values seen;
    for (const Slice& share : model.fsdp().value_shares()) testing::append(dp, share, seen);
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.values[rank].size() != share_elements(units, rank, c.ranks))
        return fmt::format("rank {} keeps {}, expected {}: its chunk of each unit", rank,
                           counted(outcome.values[rank].size(), "element"), share_elements(units, rank, c.ranks));
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of(scripted_sizes()), .unit = "tensor"});
}

TEST(Lab22_4a, ValuesAreThereWhenTheyAreUsed) { values_are_there(kOnMain); }

// A queue runs concurrently with main, which waits for the ticket.
TEST(Lab22_4a, AGatherOnAQueueIsWaitedFor) { values_are_there(kPrefetch); }

TEST(Lab22_4a, AtRestThereIsAShareAndInAPassOneUnitMore) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    const double before = static_cast<double>(ledger_of(dp).memory.live_of(Category::parameter));
    model.forward();
    const Memory memory = ledger_of(dp).memory;
    return Values{before, static_cast<double>(memory.live_of(Category::parameter)),
                  static_cast<double>(memory.peak_of(Category::parameter))};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    const auto most =
        4 * static_cast<double>(most_elements(units, scripted_usage_order(c.size), Pass::forward, 0, false));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double share = 4 * static_cast<double>(share_elements(units, rank, c.ranks));
      const Values& seen = outcome.values[rank];
      if (seen[0] != share || seen[1] != share)
        return fmt::format(
            "rank {} holds {} bytes of values before a forward pass and {} after it, expected {}: its "
            "share. Whatever was gathered must be freed",
            rank, seen[0], seen[1], share);
      if (seen[2] != share + most)
        return fmt::format(
            "rank {} held up to {} bytes of values, expected {}: its share and the units that one "
            "piece uses",
            rank, seen[2], share + most);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of(scripted_sizes()), .unit = "tensor"});
}

TEST(Lab22_4a, ReleaseFreesTheGradientsToo) {
  // One unit: released in end(), before anything is reduced, which is part b.
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    model.forward();
    const auto live = [&](Category category) { return static_cast<double>(ledger_of(dp).memory.live_of(category)); };
    const double values = live(Category::parameter), gradients = live(Category::gradient);
    try {
      model.backward(0, 0);
    } catch (const Error& error) {
      if (error.verdict() != Verdict::not_implemented) throw;
    }
    return Values{live(Category::parameter) - values, live(Category::gradient) - gradients};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (int kind : {0, 1})
        if (const double left = outcome.values[rank][kind]; left != 0)
          return fmt::format(
              "rank {} holds {} bytes of {} more after a backward pass than before it: what was unsharded must be "
              "freed",
              rank, left, kind == 0 ? "values" : "gradients");
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({1, 2}), .unit = "tensor"});
}

/// Judges what each rank counted: two bytes for each element that others hold or get. "rank 1, {moved} 8 bytes {what}".
auto two_bytes_an_element(const char* moved, const char* what) {
  return [moved, what](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto expected = 2 * static_cast<double>(others_elements(units, rank, c.ranks));
      if (outcome.values[rank][0] != expected)
        return fmt::format("rank {}, {} {} bytes {}, expected {}: 2 per element", rank, moved, outcome.values[rank][0],
                           what, expected);
    }
    return "";
  };
}

/// Shards in fp32, computing in bf16: what travels is what the model computes with.
TEST(Lab22_4a, UnitsAreGatheredInTheComputeType) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, {.prefetch = 0, .precision = {.compute = DType::bf16}, .adamw = kAdamW});
    model.forward();
    const RankLedger ledger = ledger_of(dp);
    return Values{
        static_cast<double>(testing::required_visits_to(ledger, "all_gather", "where a unit's values are gathered")
                                .traffic.bytes_received)};
  };
  run_cases(program, two_bytes_an_element("kept in fp32, computed in bf16: received", "of values"),
            {.ranks = {2, 3}, .sizes = sizes_of({1, 5}), .unit = "tensor"});
}

// Part b -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4b, SharesOfGradientsAreAverages) { shares_are_averages(kOnMain); }

TEST(Lab22_4b, EverythingIsSharded) { memory_is_bounded(kOnMain); }

TEST(Lab22_4b, SendsTwoAllGathersAndOneReduceScatterAPass) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    const auto sent = [&] { return ledger_of(dp).traffic.bytes_sent; };
    const std::uint64_t before = sent();
    for (int pass = 0; pass < kPasses; ++pass) {
      model.forward();
      model.backward(0, pass);
    }
    const RankLedger between = ledger_of(dp);
    model.fsdp().step(kRate);
    const Traffic gather =
        testing::required_visits_to(between, "all_gather", "where a unit's values are gathered").traffic;
    const Traffic reduce =
        testing::required_visits_to(between, "reduce_scatter", "where a unit's gradients are reduced").traffic;
    const auto others =
        static_cast<double>(between.traffic.bytes_sent - before - gather.bytes_sent - reduce.bytes_sent);
    return Values{static_cast<double>(gather.bytes_received), static_cast<double>(reduce.bytes_sent), others,
                  static_cast<double>(sent() - between.traffic.bytes_sent), static_cast<double>(gather.bytes_sent)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      const auto once = 4 * static_cast<double>(others_elements(units, rank, c.ranks));
      const auto most = 4 * static_cast<double>(most_handed_on(units, c.ranks));
      const char* rule = "each pass gathers every unit twice and reduces it once, together 3Ψ(p − 1)/p";
      if (seen[0] != kPasses * 2 * once)
        return fmt::format("rank {} received {} bytes of values in {} passes, expected {}: {}", rank, seen[0], kPasses,
                           kPasses * 2 * once, rule);
      if (seen[1] != kPasses * once)
        return fmt::format("rank {} sent {} bytes of gradients in {} passes, expected {}: {}", rank, seen[1], kPasses,
                           kPasses * once, rule);
      if (seen[2] != 0)
        return fmt::format("rank {} sent {} bytes neither to gather values nor to reduce gradients: {}", rank, seen[2],
                           rule);
      if (seen[3] != 0)
        return fmt::format("rank {} sent {} bytes in the step: each rank updates its share, and nothing need be sent",
                           rank, seen[3]);
      if (seen[4] > kPasses * 2 * most)
        return fmt::format(
            "rank {} sent {} bytes of values, more than p − 1 chunks of each unit and gathering ({}): "
            "all ranks send equally much",
            rank, seen[4], kPasses * 2 * most);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "tensor", .cause = wrong_fsdp_a});
}

TEST(Lab22_4b, AveragesItsOwnChunkAlone) {
  averages_its_own_chunk_alone([](Rank dp) {
    TimedModel model(dp);
    const auto fsdp =
        make_fsdp(dp, {model.table(), model.units(), model.usage_order(), [](Rank, std::size_t, std::size_t, Slice) {}},
                  kOnMain, [](std::size_t, Slice, Slice) {});
    model.measure([&] {
      for (std::size_t v = kTimedLayers; v-- > 0;) fsdp->before(Pass::backward, v);
      fsdp->end(Pass::backward);
    });
  });
}

TEST(Lab22_4b, EveryStepObeysItsArguments) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    return take_steps(
        dp, model.fsdp().gradient_shares(),
        first_of_shares(scripted_units(scripted_table(c.size)), dp.rank(), dp.size()),
        [&](const Slice& factor, const Slice& skip, const Slice& skipped) {
          model.fsdp().step(kRate, factor, skip, skipped);
        },
        [&] { return joined(dp, model.fsdp().value_shares()); });
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::vector<std::size_t> mine = elements_of_shares(units, rank, c.ranks);
      const std::string wrong =
          wrong_steps(outcome.values[rank], rank, c.size, mine.size(), [&](std::size_t i) { return mine[i]; });
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({5}), .unit = "tensor", .cause = wrong_fsdp_a});
}

TEST(Lab22_4b, TheWeightsAreThoseOfDdpBitForBit) {
  equals_ddp(kOnMain, 1);
  if (!HasFailure()) equals_ddp(kOnMain, 2);
}

/// Gathers are prefetched, but no unit is gathered ahead: collectives overlap with main, on the queue "comm".
TEST(Lab22_4b, OnAQueueOfItsOwn) { shares_are_averages(kPrefetch); }

/// Turning types into each other is not 22.4's: here it makes zeros, which are added to the share all the same.
TEST(Lab22_4b, AnAverageIsAddedInTheTypeOfItsShare) {
  const auto program = [](Rank dp, const Case& c) {
    FsdpOptions options{.prefetch = 0, .precision = {.reduce = DType::bf16}, .adamw = kAdamW};
    options.policies.in_type = [](Rank queue, const Slice& values, DType type) {
      Slice zeros = queue.allocate(values.size(), type, Category::buffer);
      fill(queue, zeros, 0);
      return zeros;
    };
    ScriptedFsdp model(dp, c.size, options);
    model.forward();
    model.backward(0, 0);
    const RankLedger ledger = ledger_of(dp);
    return Values{static_cast<double>(
        testing::required_visits_to(ledger, "reduce_scatter", "where a unit's gradients are reduced")
            .traffic.bytes_sent)};
  };
  run_cases(program, two_bytes_an_element("computed in fp32, reduced in bf16: sent", "to reduce gradients"),
            {.ranks = {2, 3}, .sizes = sizes_of({1, 5}), .unit = "tensor", .cause = wrong_fsdp_a});
}

}  // namespace
}  // namespace lockstep::week22
