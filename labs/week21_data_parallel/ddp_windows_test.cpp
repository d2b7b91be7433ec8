// Tests of exercise 21.7, parts d and e, and of all together: windows, unused parameters, and the training of a GPT.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/support/text/counted.hpp"
#include "common/testing/options.hpp"
#include "common/testing/scripted_model.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ddp_gpt_testing.hpp"
#include "labs/week21_data_parallel/ddp_testing.hpp"

namespace lockstep::week21 {
namespace {

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
        return fmt::format("rank {} ran {} of a window of {}", rank, counted(seen.size() - 1, "pass"), c.size);
      for (std::size_t pass = 0; pass < c.size; ++pass) {
        const bool quiet = pass + 1 < c.size;
        if (seen[pass] == 10.0 * static_cast<double>(pass) + quiet) continue;
        return fmt::format("pass {} of {} must {} inside no_sync", pass, c.size, quiet ? "be" : "not be");
      }
      if (seen.back() != 0) return "no_sync is still active after the window: its scope must end";
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({1, 2, 4}), .unit = "microbatch"});
}

/// Notes of each finish() whether it came inside no_sync.
class FinishRecorder final : public Ddp {
 public:
  void gradient_ready(std::size_t) override {}
  void finish() override { inside.push_back(paused() ? 1 : 0); }
  bool used(std::size_t) const override { return true; }
  const std::vector<Bucket>& buckets() const override { return none_; }
  Values inside;

 private:
  std::vector<Bucket> none_;
};

TEST(Lab21_7d, FinishComesInTheBlockOfItsPass) {
  const auto program = [](Rank, const Case& c) {
    FinishRecorder ddp;
    run_window(ddp, static_cast<int>(c.size), [](int) {});
    return ddp.inside;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (const Values& inside : outcome.values) {
      if (inside.size() != c.size)
        return fmt::format("finish() was called {} in a window of {}: it belongs after each",
                           counted(inside.size(), "time"), counted(c.size, "pass"));
      for (std::size_t pass = 0; pass + 1 < c.size; ++pass)
        if (inside[pass] == 0)
          return fmt::format(
              "finish() of pass {} of {} was called outside no_sync, which ends the window. Call it in the same block "
              "as the pass",
              pass, c.size);
      if (inside.back() != 0) return "the last finish() was called inside no_sync, so nothing is averaged";
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({1, 2, 4}), .unit = "microbatch"});
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
  run_cases(program, judge, {.ranks = {1, 2, 4}, .sizes = sizes_of({5}), .unit = "parameter"});
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
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({1, 7, 8}), .unit = "sample", .cause = wrong_average});
}

TEST(Lab21_7, EqualsTheSameShardsAddedSeriallyBitForBit) {
  // With two ranks there is only one order in which their gradients can be added.
  const auto program = [](Rank me, const Case& c) { return train_gpt(me, c.size, {.overlap = true}); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome serial = run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, c.size, c.ranks); }));
    return wrong_parameters(outcome.values[0], serial.check().values[0], 0);
  };
  run_cases(program, judge,
            {.ranks = {1, 2}, .sizes = sizes_of({2, 7}), .queues = true, .unit = "sample", .cause = wrong_average});
}

TEST(Lab21_7, AccumulatesMicrobatchesInAWindow) {
  const auto program = [](Rank me, const Case& c) { return train_gpt(me, c.size, {.overlap = true, .passes = 2}); };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome serial = run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, c.size, 1); }));
    return wrong_parameters(outcome.values[0], serial.check().values[0], 2e-6);
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({6, 8}), .unit = "sample", .cause = wrong_average});
}

}  // namespace
}  // namespace lockstep::week21
