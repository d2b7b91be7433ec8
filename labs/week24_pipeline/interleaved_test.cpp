// Tests of exercise 24.4: the order of interleaved steps, its bubble in a run, and its messages.
#include "labs/week24_pipeline/interleaved.hpp"

#include <gtest/gtest.h>

#include <set>

#include "labs/week24_pipeline/published_rates.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

TEST(Lab24_4a, GroupsOfPMicrobatchesGoThroughAllChunks) {
  const PipelineShape shape{2, 4, 2};
  StageSchedule forwards, backwards;
  for (int k = 0; k < 8; ++k) {
    forwards.push_back(forward_number(shape, k));
    backwards.push_back(backward_number(shape, k));
  }
  EXPECT_EQ(words(forwards, 2), "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1");
  EXPECT_EQ(words(backwards, 2), "B0.1 B1.1 B0.0 B1.0 B2.1 B3.1 B2.0 B3.0");
}

TEST(Lab24_4b, CanBeRun) {
  for (int v : {1, 2, 3})
    for (const PipelineShape& shape : shapes(v, /*multiples=*/true))
      ASSERT_EQ(check_schedule(all_stages(interleaved, shape), shape), "") << where(shape);
}

TEST(Lab24_4b, TheBubbleIsAVth) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};
  for (int v : {1, 2, 4})
    for (const PipelineShape& shape : shapes(v, true)) {
      const double expected = 3e-3 * (shape.microbatches + (shape.stages - 1.0) / v);
      const double seconds = makespan(all_stages(interleaved, shape), shape, times);
      ASSERT_TRUE(near(seconds, expected)) << where(shape) << seconds * 1e3 << " ms, expected " << expected * 1e3
                                           << ": m turns of 3 ms and (p − 1)/v for the bubble";
    }
}

/// The paper does not say to the last how it warms up and what its messages wait for: within 5 %.
TEST(Lab24_4b, PublishedRates) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (const PublishedRates& p : kPublishedRates) {
    const PipelineShape shape{p.stages, p.microbatches, p.chunks};
    EXPECT_NEAR(spans(all_stages(interleaved, shape), shape, p.times()).rate() / p.interleaved, 1, 0.05)
        << "p = " << p.stages << ", m = " << p.microbatches;
  }
}

TEST(Lab24_4b, SendsVTimesTheMessagesAndOneRoundLess) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const auto messages = [](const PipelineShape& shape) {
    return run_timed(all_stages(interleaved, shape), shape, {1e-3, 1e-3, 1e-3, 0}).outcome.messages;
  };
  // Each microbatch crosses p·v − 1 boundaries in each direction.
  EXPECT_EQ(messages({4, 8, 1}), 2u * 8 * 3);
  EXPECT_EQ(messages({4, 8, 2}), 2u * 8 * 7);
}

TEST(Lab24_4b, MicrobatchesThatDoNotDivideAreRefused) {
  interleaved({2, 4, 2}, 0);
  try {
    interleaved({4, 6, 2}, 0);
    ADD_FAILURE() << "6 microbatches on 4 stages were accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("6 microbatches") != text.npos && text.find("4 stages") != text.npos) << text;
  }
}

}  // namespace
}  // namespace lockstep::week24
