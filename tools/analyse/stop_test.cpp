// Tests a run that stopped: how, in which step, and what can be said of the steps before.
#include <gtest/gtest.h>

#include "common/analysis/diff.hpp"
#include "common/analysis/graph.hpp"
#include "common/analysis/shares.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/analyse/ring_run_testing.hpp"
#include "tools/analyse/view/page.hpp"

namespace lockstep::analysis {
namespace {

/// Three ranks take `steps` steps; in step `bad`, from 1, rank 1 leaves without its exchange, or throws. Before their
/// steps they compute `more` operations.
Trace steps(int steps, int bad, bool throws = false, int more = 0) {
  const RunOptions options{.ranks = 3, .trace = true};
  const Outcome outcome = run(options, [=](Rank me) {
    Slice work = me.allocate(1000, DType::f32, Category::buffer), in = me.allocate(1000, DType::f32, Category::buffer);
    for (int i = 0; i < more; ++i) fill(me, work, 0);
    for (int step = 1; step <= steps; ++step) {
      auto phase = me.region("step");
      fill(me, work, 1);
      if (step == bad && me.rank() == 1 && throws) throw Error(Verdict::fail, "a loss of 42");
      if (step == bad && me.rank() == 1) return;
      me.exchange({send((me.rank() + 1) % 3, work), receive((me.rank() + 2) % 3, in)});
    }
  });
  return view::read_back(outcome.trace);
}

TEST(Stop, ATraceSaysHowAndInWhichStep) {
  EXPECT_EQ(stop_of(steps(4, 0)), std::nullopt);
  const Stop deadlock = stop_of(steps(4, 4)).value();
  EXPECT_EQ(deadlock.finished, 3);
  EXPECT_EQ(deadlock.words.substr(0, 19), "in step 4: DEADLOCK") << "once: " << deadlock.words;
  EXPECT_EQ(deadlock.words.find("DEADLOCK", 19), deadlock.words.npos) << deadlock.words;
  EXPECT_EQ(stop_of(steps(4, 2, true)).value().words, "in step 2: FAIL: rank 1: a loss of 42");
  EXPECT_EQ(stop_of(steps(4, 1, true)).value().finished, 0);
}

TEST(Stop, WhyIsOfTheStepsBefore) {
  const Trace whole = steps(4, 0), stopped = steps(4, 4);
  EXPECT_EQ(why(stopped).steps_in_run, 3);
  EXPECT_NEAR(why(stopped).seconds, why(whole).seconds, 1e-9);
}

TEST(Stop, DiffComparesTheStepsThatBothHaveEnded) {
  const Trace whole = steps(4, 0), stopped = steps(4, 3);
  const Diff d = diff(whole, stopped);
  EXPECT_EQ(d.steps, 2);
  for (const Difference& each : d.differences) {
    EXPECT_EQ(each.only_a + each.only_b, 0) << each.name << " of a step that one of them has not ended";
    EXPECT_NEAR(each.seconds(), 0, 1e-9) << each.name;
  }
  EXPECT_NEAR(d.seconds_a, d.seconds_b, 1e-9);
  EXPECT_EQ(refusal([&] { diff(whole, steps(4, 1)); }),
            "B stopped before all ranks had completed a step, so there is nothing to compare");
}

TEST(Diff, ComparesStepsWithStepsWhateverIsBesideThem) {
  const Trace a = steps(3, 0, false, 100), b = steps(3, 0);
  const Diff d = diff(a, b);
  EXPECT_EQ(d.steps, 3);
  EXPECT_NEAR(d.seconds_a, d.seconds_b, 1e-8);
  EXPECT_GT(d.rest_a, d.rest_b + 1e-7);
  for (const Difference& each : d.differences) EXPECT_EQ(each.only_a, 0) << each.name;
  const Steps in = steps_of(a);
  const TimeShare share = share_of_steps(a, in, shares_of(a)), other = share_of_steps(b, steps_of(b), shares_of(b));
  EXPECT_NEAR(share.computing, other.computing, 1e-8);
  EXPECT_GT(shares_of(a).all.computing, shares_of(b).all.computing + 1e-7);
  EXPECT_NEAR(share.computing + share.waiting() + share.other, share.seconds, 1e-9);
}

TEST(Stop, APageSaysItFirst) {
  const std::string page = view::page({{"stopped", steps(4, 3)}}, {});
  EXPECT_NE(page.find(R"("stopped":"in step 3: DEADLOCK)"), page.npos);
  EXPECT_NE(page.find(R"("why":{"sentence":"Until it stopped, )"), page.npos);
}

}  // namespace
}  // namespace lockstep::analysis
