// Tests of exercise 24.4: the order of interleaved steps, its bubble in a run, and its messages.
#include "labs/week24_pipeline/interleaved.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "labs/week24_pipeline/published_rates.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

void expect_order(const PipelineShape& shape, Step (*number)(const PipelineShape&, int k),
                  const std::string& expected) {
  StageSchedule steps;
  for (int k = 0; k < shape.chunks * shape.microbatches; ++k) steps.push_back(number(shape, k));
  const std::string seen = words(steps, shape.chunks);
  if (seen != expected)
    FAIL() << where(shape) << seen << "; expected " << expected << ": groups of p microbatches, through all chunks";
}

TEST(Lab24_4a, GroupsOfPMicrobatchesGoThroughAllChunks) {
  expect_order({2, 4, 2}, forward_number, "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1");
  expect_order({2, 4, 2}, backward_number, "B0.1 B1.1 B0.0 B1.0 B2.1 B3.1 B2.0 B3.0");
  // As many chunks as stages would hide which of the two a formula divides by.
  expect_order({3, 3, 2}, forward_number, "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1");
  expect_order({2, 2, 3}, backward_number, "B0.2 B1.2 B0.1 B1.1 B0.0 B1.0");
}

TEST(Lab24_4b, CanBeRun) {
  for (int v : {1, 2, 3})
    for (const PipelineShape& shape : shapes(v, /*multiples=*/true)) {
      const std::string wrong = check_schedule(all_stages(interleaved, shape), shape);
      if (!wrong.empty()) FAIL() << where(shape) << wrong;
    }
}

TEST(Lab24_4b, WarmsUpOnlyAsLongAsItMust) {
  for (int v : {1, 2, 3})
    for (const PipelineShape& shape : shapes(v, true))
      for (int s = 0; s < shape.stages; ++s) {
        const int warm_up = 2 * (shape.stages - 1 - s) + (v - 1) * shape.stages;
        const int expected = std::min(warm_up + 1, v * shape.microbatches),
                  held = peak_in_flight(interleaved(shape, s));
        if (held != expected)
          FAIL() << where(shape) << "stage " << s << " holds " << held
                 << " microbatches × chunks at its peak, expected " << expected
                 << ": a warm-up of 2(p − 1 − s) + (v − 1)·p = " << warm_up << " forwards, and one more";
      }
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
