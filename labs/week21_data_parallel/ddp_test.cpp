// Tests of exercise 21.7: DDP. Most run a scripted model, whose gradients are known integers; the last ones train a
// GPT.
#include "labs/week21_data_parallel/ddp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/options.hpp"
#include "common/testing/regions.hpp"
#include "common/testing/scripted_model.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ddp_gpt.hpp"
#include "labs/week21_data_parallel/ddp_script.hpp"

namespace lockstep::week21 {
namespace {

using testing::CasePlan;
using testing::run_cases;
using testing::scripted_parameters;
using testing::sizes_of;

void run_script(const Script& script, CasePlan plan = {}, Location where = Location::current()) {
  if (::testing::Test::HasFailure()) return;  // one mistake, one report
  plan.unit = "parameter";
  plan.sizes = sizes_of({1, 2, 5, 12});
  plan.queues = script.options.overlap;
  run_cases([&](Rank me, const Case& c) { return train_script(me, c.size, script); },
            [&](const Case& c, const Outcome& outcome) {
              const std::string wrong = wrong_counts(c, outcome, script);
              return wrong.empty() ? wrong_values(c, outcome, script) : wrong;
            },
            plan, where);
}

// Part a -------------------------------------------------------------------------------------------------------------

TEST(Lab21_7a, BroadcastGivesEveryRankTheValuesOfRankZero) {
  run_cases(
      [](Rank me, const Case& c) {
        Slice values = me.allocate(c.size, DType::f32, Category::parameter);
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = static_cast<float>(1000 * me.rank() + static_cast<int>(i));
        upload(me, values, mine);
        broadcast_values(me, values);
        const auto seen = to_host(me, values);
        return Values(seen.begin(), seen.end());
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (int rank = 0; rank < c.ranks; ++rank)
          for (std::size_t i = 0; i < c.size; ++i)
            if (outcome.values[rank][i] != static_cast<double>(i))
              return fmt::format("rank {} has {} in element {}, rank 0 has {}: the replicas do not start alike{}", rank,
                                 outcome.values[rank][i], i, i,
                                 outcome.values[rank][i] == 1000.0 * rank + i ? "; it still has its own values" : "");
        return "";
      });
}

TEST(Lab21_7a, AverageIsOneAllReduceAndOneDivision) {
  run_cases(
      [](Rank me, const Case& c) {
        Slice gradients = me.allocate(c.size, DType::f32, Category::gradient);
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = testing::scripted_gradient(me.rank(), 0, 0, i);
        upload(me, gradients, mine);
        average(me, gradients, counted_all_reduce);
        const auto seen = to_host(me, gradients);
        return Values(seen.begin(), seen.end());
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const ScriptedWindow window{c.ranks};
        for (int rank = 0; rank < c.ranks; ++rank) {
          if (const auto calls = testing::visits_to(outcome.ledgers[rank], "bucket").visits; calls != 1)
            return fmt::format("rank {} called all_reduce {} times, expected once", rank, calls);
          for (std::size_t i = 0; i < c.size; ++i)
            if (outcome.values[rank][i] != window.average(0, i))
              return fmt::format("rank {}, element {} is {}, expected {}. It is {}.", rank, i, outcome.values[rank][i],
                                 window.average(0, i), window.explain(outcome.values[rank][i], rank, 0, i));
        }
        return "";
      });
}

TEST(Lab21_7a, AShardCountsByItsSamples) {
  // Sample s has the gradient s + 1, so the mean over all n is (n + 1)/2.
  run_cases(
      [](Rank me, const Case& c) {
        const ChunkRange shard = chunk_range(c.size, me.rank(), me.size());
        const double sum =
            static_cast<double>(shard.size) * (static_cast<double>(2 * shard.offset + shard.size) + 1) / 2;
        const double mean = shard.size == 0 ? 0 : sum / static_cast<double>(shard.size);
        Slice gradient = me.allocate(1, DType::f32, Category::gradient);
        fill(me, gradient, shard_weight(shard.size, c.size, me.size()) * static_cast<float>(mean));
        average(me, gradient, ring_all_reduce);
        return Values{to_host(me, gradient).front()};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const double mean = static_cast<double>(c.size + 1) / 2;
        for (int rank = 0; rank < c.ranks; ++rank)
          if (std::abs(outcome.values[rank][0] - mean) > 1e-5 * mean)
            return fmt::format(
                "rank {}: the average of the shards' means, each by its shard_weight, is {}, but the "
                "mean over all {} samples is {}",
                rank, outcome.values[rank][0], c.size, mean);
        return "";
      },
      {.sizes = sizes_of({1, 7, 8, 24, 101}), .unit = "sample"});
}

// Part b -------------------------------------------------------------------------------------------------------------

/// The offsets of the buckets in the order in which they were all-reduced, then, for each parameter that became ready,
/// how many had been by then.
Values launches(Rank dp, std::size_t tensors, const Script& script) {
  const Parameters parameters = scripted_parameters(dp, tensors);
  Values offsets, counts;
  const auto ddp = make_ddp(dp, parameters, script.options, [&offsets](Rank me, Slice data) {
    offsets.push_back(static_cast<double>(data.offset_bytes() / 4));
    ring_all_reduce(me, data);
  });
  fill(dp, parameters.gradients, 0);
  for (std::size_t step = 0; step < tensors; ++step) {
    ddp->gradient_ready(script.order ? script.order(dp.rank(), step) : tensors - 1 - step);
    counts.push_back(static_cast<double>(offsets.size()));
  }
  ddp->finish();
  offsets.insert(offsets.begin(), static_cast<double>(offsets.size()));
  offsets.insert(offsets.end(), counts.begin(), counts.end());
  return offsets;
}

std::string wrong_launches(const Case& c, const Outcome& outcome, const Script& script) {
  const Expected expected(c.size, script.options);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Values& seen = outcome.values[rank];
    const auto launched = static_cast<std::size_t>(seen[0]);
    for (std::size_t k = 1; k < launched; ++k)
      if (seen[k + 1] >= seen[k])
        return fmt::format(
            "rank {} averaged the bucket at element {} before the one at {}: buckets go from the last "
            "parameters to the first, in the same order on every rank",
            rank, seen[k], seen[k + 1]);
    std::vector<bool> ready(c.size, false);
    for (std::size_t step = 0; step < c.size; ++step) {
      ready[script.order ? script.order(rank, step) : c.size - 1 - step] = true;
      std::size_t complete_from = c.size;  // parameters from here on are all ready
      while (complete_from > 0 && ready[complete_from - 1]) --complete_from;
      std::size_t complete = 0;
      while (complete < launched && seen[complete + 1] >= static_cast<double>(expected.offsets[complete_from]))
        ++complete;
      const double by_now = seen[1 + launched + step];
      if (by_now != static_cast<double>(complete))
        return fmt::format(
            "rank {}: {} of {} parameters were ready, which completes the first {} buckets, but {} had "
            "been averaged: {}",
            rank, step + 1, c.size, complete, by_now,
            by_now < static_cast<double>(complete) ? "a bucket waits longer than it must"
                                                   : "a bucket went before all its gradients were final");
    }
  }
  return "";
}

TEST(Lab21_7b, ABucketGoesAsSoonAsItIsCompleteAndInOrder) {
  Script reverse{.options = kOnMain};
  Script forward{.options = kOnMain, .order = [](int, std::size_t step) { return step; }};
  for (const Script* script : {&reverse, &forward})
    run_cases([&](Rank me, const Case& c) { return launches(me, c.size, *script); },
              [&](const Case& c, const Outcome& outcome) { return wrong_launches(c, outcome, *script); },
              {.sizes = sizes_of({1, 2, 5, 12})});
}

TEST(Lab21_7b, EveryBucketIsAveragedOnceAWindow) { run_script({.options = kOnMain}); }

TEST(Lab21_7b, OneBucketForAllOrOneForEach) {
  run_script({.options = {.overlap = false}});
  run_script({.options = {.bucket_bytes = 1, .first_bucket_bytes = 1, .overlap = false}});
}

TEST(Lab21_7b, RanksMayFinishTheirGradientsInDifferentOrders) {
  for (std::size_t tensors : {5, 12}) {
    Script script{.options = kOnMain, .order = [tensors](int rank, std::size_t step) {
                    return (tensors - 1 - step + 2 * static_cast<std::size_t>(rank)) % tensors;
                  }};
    run_cases([&](Rank me, const Case& c) { return train_script(me, c.size, script); },
              [&](const Case& c, const Outcome& outcome) { return wrong_values(c, outcome, script); },
              {.sizes = sizes_of({tensors})});
  }
}

// Part c -------------------------------------------------------------------------------------------------------------

TEST(Lab21_7c, TheSameAveragesOnTheSecondQueue) { run_script({.options = kOverlap}); }

TEST(Lab21_7c, CommunicationHidesBehindTheBackward) {
  constexpr std::size_t kLayers = 8, kElements = std::size_t{1} << 18, kSide = 512;
  constexpr double kFlop = 2.0 * kSide * kSide * kSide;
  const auto ring_seconds = [](int p) { return 2 * (p - 1) * (1e-6 + kElements * 4.0 / p * 1e-9); };
  const auto program = [](Rank dp, const Case&) {
    Parameters parameters;
    for (std::size_t i = 0; i < kLayers; ++i)
      parameters.list.push_back({"layer" + std::to_string(i), i * kElements, kElements, 1, kElements});
    parameters.values = dp.allocate(kLayers * kElements, DType::f32, Category::parameter);
    parameters.gradients = dp.allocate(kLayers * kElements, DType::f32, Category::gradient);
    Slice work = dp.allocate(3 * kSide * kSide, DType::f32, Category::activation);
    const auto side = [&](std::size_t k) { return matrix(work.cut(k * kSide * kSide, kSide * kSide), kSide, kSide); };
    const DdpOptions options{.bucket_bytes = 1, .first_bucket_bytes = 1, .overlap = true};
    const auto ddp = make_ddp(dp, parameters, options, counted_all_reduce);
    ring_all_reduce(dp, parameters.gradients.cut(0, 1));  // the broadcast left the ranks at different times
    const double began = dp.now(), waited = ledger_of(dp).queues[0].waiting;
    for (std::size_t i = kLayers; i-- > 0;) {
      matmul(dp, side(0), side(1), side(2));
      ddp->gradient_ready(i);
    }
    ddp->finish();
    const RankLedger ledger = ledger_of(dp);
    return Values{ledger.queues[0].waiting - waited, testing::visits_to(ledger, "bucket").seconds, dp.now() - began};
  };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double exposed = outcome.values[rank][0], total = outcome.values[rank][1], step = outcome.values[rank][2];
      if (exposed < 0.25 * total && step < 0.75 * (1.25 + 1) * total) continue;
      return fmt::format(
          "rank {}: {:.2f} ms of communication in a step of {:.2f} ms, and main waited for {:.2f} ms of it: too little "
          "is "
          "hidden. One bucket of {} should show. Is each bucket launched on comm as soon as it is complete, the last "
          "layers' first, and does main wait only in finish()?",
          rank, total * 1e3, step * 1e3, exposed * 1e3, kLayers);
    }
    return "";
  };
  CasePlan plan{.ranks = {2, 4, 8}, .sizes = sizes_of({kLayers})};
  plan.simulator_only = "how much is hidden is measured in virtual time";
  plan.adjust = [&](const Case& c, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();  // its delays would be measured
    options.machine = Machine::uniform(1e-6, 1e-9, 1e-12);
    options.machine.peak_flop_per_second.fill(kFlop / (1.25 * ring_seconds(c.ranks)));  // a layer takes 1.25 buckets
  };
  run_cases(program, judge, plan);
}

// Part d -------------------------------------------------------------------------------------------------------------

TEST(Lab21_7d, OneAllReduceForEachBucketAndWindow) {
  for (int passes : {2, 3}) run_script({.options = kOnMain, .passes = passes});
}

TEST(Lab21_7d, PassesRunInOrderAndOnlyTheLastOneCommunicates) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = scripted_parameters(dp, 5);
    const auto ddp = make_ddp(dp, parameters, kOnMain, ring_all_reduce);
    fill(dp, parameters.gradients, 0);
    Values seen;
    run_window(*ddp, static_cast<int>(c.size), [&](int pass) {
      seen.push_back(10 * pass + (ddp->paused() ? 1 : 0));
      for (std::size_t i = 5; i-- > 0;) ddp->gradient_ready(i);
    });
    seen.push_back(ddp->paused());
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen.size() != c.size + 1)
        return fmt::format("rank {} ran {} passes of a window of {}", rank, seen.size() - 1, c.size);
      for (std::size_t pass = 0; pass < c.size; ++pass) {
        const bool quiet = pass + 1 < c.size;
        if (seen[pass] == 10.0 * static_cast<double>(pass) + quiet) continue;
        return fmt::format("pass {} of {} must {} inside no_sync", pass, c.size, quiet ? "be" : "not be");
      }
      if (seen.back() != 0) return "no_sync goes on after the window: its scope must end";
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({1, 2, 4})});
}

// Part e -------------------------------------------------------------------------------------------------------------

constexpr DdpOptions kFindUnused{.bucket_bytes = 48, .first_bucket_bytes = 16, .overlap = false, .find_unused = true};

TEST(Lab21_7e, RanksMayUseDifferentParameters) {
  // Parameter 1 is used by nobody, the others by some ranks in some windows.
  run_script({.options = kFindUnused, .uses = [](int rank, int window, int, std::size_t index) {
                return index != 1 && (static_cast<int>(index) + rank + window) % 3 != 0;
              }});
}

TEST(Lab21_7e, WhoUsedEverythingDoesNotAskTheDevice) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = scripted_parameters(dp, c.size);
    const auto ddp = make_ddp(dp, parameters, kFindUnused, ring_all_reduce);
    fill(dp, parameters.gradients, 0);
    for (std::size_t i = c.size; i-- > 0;)
      if (dp.rank() == 0 || i != 2) ddp->gradient_ready(i);
    const std::uint64_t before = ledger_of(dp).reads;
    ddp->finish();
    return Values{static_cast<double>(ledger_of(dp).reads - before)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      if (const int unused = rank == 0 ? 0 : 1; outcome.values[rank][0] > unused)
        return fmt::format(
            "rank {} left {} parameters unused, and made its host wait for the device {} times: what a rank used "
            "itself needs no question",
            rank, unused, outcome.values[rank][0]);
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 4}, .sizes = sizes_of({5})});
}

TEST(Lab21_7e, WithoutTheOptionAMissingGradientIsNamedAndNothingHangs) {
  if (testing::test_options().available_ranks == 1) GTEST_SKIP() << "needs 2 processes; there is one";
  const Script script{.options = kOnMain, .windows = 1, .uses = [](int rank, int, int, std::size_t index) {
                        return rank != 1 || index != 2;
                      }};
  const Outcome outcome = run({.ranks = 2}, Program([&](Rank me) {
                                // First with the option, so that this test begins where part e does.
                                train_script(me, 5, {.options = kFindUnused, .windows = 1, .uses = script.uses});
                                return train_script(me, 5, script);
                              }));
  const bool named =
      outcome.message.find("layer2") != std::string::npos && outcome.message.find("find_unused") != std::string::npos;
  if (outcome.verdict == Verdict::usage && named) return;
  const std::string text =
      outcome.verdict == Verdict::not_implemented
          ? outcome.message
          : fmt::format(
                "rank 1 has no gradient of layer2, and find_unused is off: expected a USAGE error in finish() "
                "that names layer2 and find_unused, got {}:\n{}",
                to_string(outcome.verdict), outcome.message);
  testing::record_verdict(outcome.verdict == Verdict::not_implemented ? outcome.verdict : Verdict::fail, text);
  ADD_FAILURE() << text;
}

// All together: windows, unused parameters and the second queue; then a GPT ------------------------------------------

TEST(Lab21_7, WindowsOnTheSecondQueue) {
  for (int passes : {2, 3}) run_script({.options = kOverlap, .passes = passes});
}

TEST(Lab21_7, WhatAnEarlierPassUsedCounts) {
  DdpOptions find_unused = kFindUnused;
  find_unused.overlap = true;
  run_script({.options = find_unused, .passes = 2, .uses = [](int rank, int, int pass, std::size_t index) {
                return static_cast<int>(index) % 2 == (pass + rank) % 2 && index != 3;
              }});
}

TEST(Lab21_7, EqualsTheSerialRunStepByStep) {
  const auto program = [](Rank me, const Case& c) { return train_gpt(me, c.size, {.overlap = true}); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome serial = run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, c.size, 1); }));
    for (int rank = 1; rank < c.ranks; ++rank)
      if (outcome.values[rank] != outcome.values[0])
        return fmt::format("ranks 0 and {} end with different parameters: replicas must stay equal bit for bit", rank);
    // Sums over the batch are cut at other places than in the serial run, so they are rounded differently.
    return wrong_parameters(outcome.values[0], serial.check().values[0], 2e-6);
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({1, 7, 8})});
}

TEST(Lab21_7, EqualsTheSameShardsAddedSeriallyBitForBit) {
  // With two ranks there is only one order in which their gradients can be added.
  const auto program = [](Rank me, const Case& c) { return train_gpt(me, c.size, {.overlap = true}); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome serial = run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, c.size, c.ranks); }));
    return wrong_parameters(outcome.values[0], serial.check().values[0], 0);
  };
  run_cases(program, judge, {.ranks = {1, 2}, .sizes = sizes_of({2, 7}), .queues = true});
}

TEST(Lab21_7, AccumulatesMicrobatchesInAWindow) {
  const auto program = [](Rank me, const Case& c) { return train_gpt(me, c.size, {.overlap = true, .passes = 2}); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome serial = run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, c.size, 1); }));
    return wrong_parameters(outcome.values[0], serial.check().values[0], 2e-6);
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({6, 8})});
}

}  // namespace
}  // namespace lockstep::week21
