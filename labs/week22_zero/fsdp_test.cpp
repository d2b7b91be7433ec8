// Tests of exercise 22.4, ZeRO stage 3: parts a, b and d. Part c is in fsdp_wrapping_test.cpp, e in
// fsdp_precision_test.cpp.
#include "labs/week22_zero/fsdp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "labs/week22_zero/fsdp_testing.hpp"
#include "labs/week22_zero/zero_timing.hpp"

namespace lockstep::week22 {
namespace {

constexpr int kPasses = 3;

// Part a -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4a, ValuesAreThereWhenTheyAreUsed) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    for (int pass = 0; pass < 2; ++pass) model.forward();
    Values seen;
    for (const Slice& share : model.fsdp().value_shares())
      for (float value : to_host(dp, share)) seen.push_back(value);
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.values[rank].size() != share_elements(units, rank, c.ranks))
        return fmt::format("rank {} keeps {} elements, expected {}: its chunk of each unit", rank,
                           outcome.values[rank].size(), share_elements(units, rank, c.ranks));
    return "";
  };
  run_cases(program, judge, scripted_plan(kOnMain));
}

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
            "share. Whatever was gathered must be gone",
            rank, seen[0], seen[1], share);
      if (seen[2] != share + most)
        return fmt::format(
            "rank {} held up to {} bytes of values, expected {}: its share and the units that one "
            "piece uses",
            rank, seen[2], share + most);
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(kOnMain));
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
    const std::uint64_t between = sent();
    model.fsdp().step(kRate);
    return Values{static_cast<double>(between - before), static_cast<double>(sent() - between)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto gather = 4 * static_cast<double>(all_gather_elements(units, rank, c.ranks));
      const auto reduce = 4 * static_cast<double>(reduce_scatter_elements(units, rank, c.ranks));
      if (outcome.values[rank][0] != kPasses * (2 * gather + reduce))
        return fmt::format(
            "rank {} sent {} bytes in {} passes, expected {}: each gathers every unit twice ({}) and "
            "reduces it once ({}), together 3Ψ(p − 1)/p",
            rank, outcome.values[rank][0], kPasses, kPasses * (2 * gather + reduce), 2 * gather, reduce);
      if (outcome.values[rank][1] != 0)
        return fmt::format("rank {} sent {} bytes in the step: everybody updates a share, and nobody needs more", rank,
                           outcome.values[rank][1]);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "tensor"});
}

TEST(Lab22_4b, TheWeightsAreThoseOfDdpBitForBit) {
  equals_ddp(kOnMain, 1);
  if (!HasFailure()) equals_ddp(kOnMain, 2);
}

// Part d -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4d, TheSameWithPrefetch) {
  for (int prefetch : {1, 2}) {
    FsdpOptions options = kPrefetch;
    options.prefetch = prefetch;
    shares_are_averages(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, NoMoreUnitsAheadThanAskedFor) {
  for (int prefetch : {1, 2, 100}) {
    FsdpOptions options = kPrefetch;
    options.prefetch = prefetch;
    memory_is_bounded(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, GatheringHidesBehindTheModel) {
  for (int prefetch : {1, 2}) {
    const auto program = [=](Rank dp, const Case&) {
      TimedModel model(dp);
      FsdpOptions options = kPrefetch;
      options.prefetch = prefetch;
      const auto fsdp = make_fsdp(
          dp, {model.table(), model.units(), model.usage_order(), [](Rank, std::size_t, std::size_t, Slice) {}},
          options, [](std::size_t, Slice, Slice) {});
      return model.measure([&] {
        for (std::size_t v = 0; v < kTimedLayers; ++v) {
          fsdp->before(Pass::forward, v);
          model.work(1);
        }
        fsdp->end(Pass::forward);
        for (std::size_t v = kTimedLayers; v-- > 0;) {
          fsdp->before(Pass::backward, v);
          model.work(2);
        }
        fsdp->end(Pass::backward);
      });
    };
    run_timed(program, [](const Case&, const Timed& t) -> std::string {
      if (t.waiting <= 0.2 * t.communication) return "";
      return fmt::format(
          "{:.2f} ms of communication, and main waited for {:.2f} ms of it: the first gathering of each "
          "pass and the last reduction should show, 3 of {}. Is the next unit gathered before this one "
          "is waited for?",
          t.communication * 1e3, t.waiting * 1e3, 3 * kTimedLayers);
    });
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, TheWeightsAreThoseOfDdpBitForBit) { equals_ddp(kPrefetch, 2); }

}  // namespace
}  // namespace lockstep::week22
