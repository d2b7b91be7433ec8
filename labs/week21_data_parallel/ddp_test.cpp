// Tests of exercise 21.7, parts a to c: averages, buckets, overlap. Most run a scripted model, whose gradients are
// known integers. The other parts are in ddp_windows_test.cpp.
#include "labs/week21_data_parallel/ddp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/testing/regions.hpp"
#include "common/testing/scripted_model.hpp"
#include "common/testing/values.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ddp_testing.hpp"

namespace lockstep::week21 {
namespace {

// Part a -------------------------------------------------------------------------------------------------------------

/// Every rank but 0 receives `elements` values once, and rank 0 nothing?
std::string not_received_once(const Case& c, std::size_t elements, const std::function<double(int rank)>& received) {
  for (int rank = 0; rank < c.ranks; ++rank)
    if (const double expected = rank == 0 ? 0 : 4 * static_cast<double>(elements); received(rank) != expected)
      return fmt::format("rank {} received {} bytes, expected {}: {}", rank, received(rank), expected,
                         rank == 0 ? "it has the values already"
                                   : fmt::format("rank 0's {} values, once, and nothing else", elements));
  return "";
}

TEST(Lab21_7a, BroadcastGivesEveryRankTheValuesOfRankZero) {
  run_cases(
      [](Rank me, const Case& c) {
        Slice values = me.allocate(c.size, DType::f32, Category::parameter);
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = static_cast<float>(1000 * me.rank() + static_cast<int>(i));
        upload(me, values, mine);
        broadcast_values(me, values);
        const auto received = static_cast<double>(ledger_of(me).traffic.bytes_received);
        const auto seen = to_host(me, values);
        Values result(seen.begin(), seen.end());
        result.push_back(received);
        return result;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (int rank = 0; rank < c.ranks; ++rank)
          for (std::size_t i = 0; i < c.size; ++i)
            if (outcome.values[rank][i] != static_cast<double>(i))
              return fmt::format("rank {} has {} in element {}, rank 0 has {}: the replicas do not start equal{}", rank,
                                 outcome.values[rank][i], i, i,
                                 outcome.values[rank][i] == 1000.0 * rank + i ? "; it still has its own values" : "");
        return not_received_once(c, c.size, [&](int rank) { return outcome.values[rank][c.size]; });
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
          if (!(std::abs(outcome.values[rank][0] - mean) <= 1e-5 * mean))
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
            by_now < static_cast<double>(complete) ? "a bucket waits longer than it needs to"
                                                   : "a bucket was averaged before all its gradients were final");
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
              {.sizes = sizes_of({1, 2, 5, 12}), .unit = "parameter"});
}

TEST(Lab21_7b, SetUpSendsTheValuesOnceAndNothingElse) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = scripted_parameters(dp, c.size);
    fill(dp, parameters.gradients, static_cast<float>(dp.rank()));
    make_ddp(dp, parameters, kOnMain, ring_all_reduce);
    Values seen{static_cast<double>(ledger_of(dp).traffic.bytes_received)};
    testing::append(dp, parameters.values, seen);
    testing::append(dp, parameters.gradients, seen);
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::size_t all = Expected(c.size, kOnMain).offsets.back();
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < all; ++i) {
        const Values& seen = outcome.values[rank];
        if (const double first = static_cast<double>(i) + 1; seen.at(1 + i) != first)
          return fmt::format("rank {} begins with {} in element {}, rank 0 with {}: the replicas do not start equal",
                             rank, seen[1 + i], i, first);
        if (seen.at(1 + all + i) != rank)
          return fmt::format("set-up changed element {} of rank {}'s gradients: it was {} and is {}", i, rank, rank,
                             seen[1 + all + i]);
      }
    return not_received_once(c, all, [&](int rank) { return outcome.values[rank][0]; });
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 8}, .sizes = sizes_of({1, 5}), .unit = "parameter"});
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
              {.sizes = sizes_of({tensors}), .unit = "parameter", .cause = wrong_average});
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
    {
      Scope scope = dp.region("set-up");  // the broadcast left the ranks at different times
      ring_all_reduce(dp, parameters.gradients.cut(0, 1));
    }
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
    const Values& last = outcome.values.back();
    testing::note(fmt::format("{} ranks: {:.1f} ms of communication in a step of {:.1f} ms, {:.2f} ms of it exposed",
                              c.ranks, last[1] * 1e3, last[2] * 1e3, last[0] * 1e3));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double exposed = outcome.values[rank][0], total = outcome.values[rank][1], step = outcome.values[rank][2];
      const double one = total / kLayers;
      if (exposed <= 1.05 * one && step <= (1.25 * kLayers + 1.1) * one) continue;
      return fmt::format(
          "rank {}: {:.2f} ms of communication in a step of {:.2f} ms, and main waited for {:.2f} ms of it: too little "
          "is hidden. One bucket of {} should show. Is each bucket launched on comm as soon as it is complete, the "
          "last layers' first, and does main wait only in finish()?",
          rank, total * 1e3, step * 1e3, exposed * 1e3, kLayers);
    }
    return "";
  };
  CasePlan plan{.ranks = {2, 4, 8}, .sizes = sizes_of({kLayers}), .unit = "layer"};
  plan.simulator_only = "overlap is measured in virtual time";
  plan.adjust = [&](const Case& c, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();  // its delays would be measured
    options.machine = Machine::uniform(1e-6, 1e-9, 1e-12);
    options.machine.peak_flop_per_second.fill(kFlop / (1.25 * ring_seconds(c.ranks)));  // a layer takes 1.25 buckets
  };
  run_cases(program, judge, plan);
}

}  // namespace
}  // namespace lockstep::week21
