// Tests of exercise 24.4: the order of interleaved steps, its bubble in a run, and its messages.
#include "labs/week24_pipeline/interleaved.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/testing/answered.hpp"
#include "labs/week24_pipeline/published_rates_testing.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::interleaved_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto forward_number = testing::answer<week24::forward_number>;
constexpr auto backward_number = testing::answer<week24::backward_number>;
constexpr auto interleaved = testing::answer<week24::interleaved>;

/// Groups of p microbatches, each through all chunks, counted.
StageSchedule in_groups(const PipelineShape& shape, Work work) {
  StageSchedule steps;
  for (int group = 0; group < shape.microbatches; group += shape.stages)
    for (int c = 0; c < shape.chunks; ++c)
      for (int m = group; m < group + shape.stages; ++m)
        steps.push_back({work, m, work == Work::forward ? c : shape.chunks - 1 - c});
  return steps;
}

/// Describes the mistake in the order of forwards, or of backwards; "" when there is none.
std::string wrong_order(const PipelineShape& shape, Work work) {
  const auto number = work == Work::forward ? forward_number : backward_number;
  const StageSchedule exact = in_groups(shape, work);
  StageSchedule seen;
  for (int k = 0; k < shape.chunks * shape.microbatches; ++k) seen.push_back(number(shape, k));
  if (seen == exact) return "";
  return where(shape) + words(seen, shape.chunks) + "; expected " + words(exact, shape.chunks) +
         ": groups of p microbatches, through all chunks";
}
std::string wrong_orders() {
  for (int v : {2, 3, 4})
    for (const PipelineShape& shape : shapes(v, /*multiples=*/true))
      for (Work work : {Work::forward, Work::backward})
        if (std::string wrong = wrong_order(shape, work); !wrong.empty()) return wrong;
  return "";
}

TEST(Lab24_4a, GroupsOfPMicrobatchesGoThroughAllChunks) {
  if (const std::string wrong = wrong_orders(); !wrong.empty()) FAIL() << wrong;
}

/// Part b calls part a.
Schedule runnable_interleaved(const PipelineShape& shape) {
  static const std::string wrong = wrong_orders();
  if (!wrong.empty()) throw Error(Verdict::fail, "24.4a first: " + wrong);
  return runnable(interleaved, shape);
}

TEST(Lab24_4b, CanBeRun) {
  for (int v : {1, 2, 3})
    for (const PipelineShape& shape : shapes(v, /*multiples=*/true)) runnable_interleaved(shape);
}

/// The k-th forward and the k-th backward are those of part a, and `before(k)` forwards come before a backward.
std::string wrong_numbers(const PipelineShape& shape, int stage, const std::function<int(int)>& before) {
  int forwards = 0, backwards = 0;
  for (const Step& step : interleaved(shape, stage)) {
    const bool forward = step.work == Work::forward;
    const Step next = forward ? forward_number(shape, forwards) : backward_number(shape, backwards);
    const auto name = [&](const Step& named) { return to_string(named, shape.chunks); };
    if (step != next) return fmt::format("does {} where {} is next", name(step), name(next));
    if (!forward && forwards != before(backwards))
      return fmt::format("has done {} before {}, expected {}", counted(forwards, "forward"), name(step),
                         before(backwards));
    ++(forward ? forwards : backwards);
  }
  return "";
}

TEST(Lab24_4b, WarmsUpOnlyAsLongAsItMust) {
  for (int v : {1, 2, 3})
    for (const PipelineShape& shape : shapes(v, true)) {
      runnable_interleaved(shape);
      for (int s = 0; s < shape.stages; ++s) {
        const int warm_up = 2 * (shape.stages - 1 - s) + (v - 1) * shape.stages;
        const std::string wrong =
            wrong_numbers(shape, s, [&](int k) { return std::min(warm_up + 1 + k, v * shape.microbatches); });
        if (!wrong.empty())
          FAIL() << where(shape) << "stage " << s << " " << wrong
                 << ": a warm-up of 2(p − 1 − s) + (v − 1)·p = " << counted(warm_up, "forward")
                 << ", then a forward and a backward in turn";
      }
    }
}

TEST(Lab24_4b, TheBubbleIsAVth) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};
  for (int v : {1, 2, 4})
    for (const PipelineShape& shape : shapes(v, true)) {
      const double expected = 3e-3 * (shape.microbatches + (shape.stages - 1.0) / v);
      const double seconds = makespan(runnable_interleaved(shape), shape, times);
      if (!near(seconds, expected))
        FAIL() << where(shape) << "the run takes " << ms(seconds) << ", expected " << ms(expected)
               << ": m turns of 3 ms and (p − 1)/v for the bubble";
    }
}

/// Within 5 %: the paper's program leaves out p hops that this order has to wait for (tools/plan/bubbles_test.cpp).
TEST(Lab24_4b, PublishedRates) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const PublishedRates& p : kPublishedRates) {
    const PipelineShape shape{p.stages, p.microbatches, p.chunks};
    const double rate = spans(runnable_interleaved(shape), shape, p.times()).rate();
    if (!(std::abs(rate / p.interleaved - 1) <= 0.05))
      FAIL() << where(shape) << fmt::format("a bubble rate of {:.4f}, published {:.4f}", rate, p.interleaved);
  }
}

TEST(Lab24_4b, SendsVTimesTheMessagesAndOneRoundLess) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const auto messages = [](const PipelineShape& shape) {
    return run_timed(runnable_interleaved(shape), shape, {1e-3, 1e-3, 1e-3, 0}).outcome.messages;
  };
  // Each microbatch crosses p·v − 1 boundaries in each direction.
  EXPECT_EQ(messages({4, 8, 1}), 2u * 8 * 3) << "8 microbatches cross 3 boundaries in each direction";
  EXPECT_EQ(messages({4, 8, 2}), 2u * 8 * 7) << "8 microbatches cross 4·2 − 1 boundaries in each direction";
}

TEST(Lab24_4b, MicrobatchesThatDoNotDivideAreRefused) {
  interleaved({2, 4, 2}, 0);
  try {
    interleaved({4, 6, 2}, 0);
    ADD_FAILURE() << "6 microbatches on 4 stages were accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(error.verdict() == Verdict::usage && text.find("6 microbatches") != text.npos &&
                text.find("4 stages") != text.npos)
        << "the refusal is a USAGE error that names \"6 microbatches\" and \"4 stages\". It says: "
        << text.substr(text.find("): ") + 3);
  }
}

}  // namespace
}  // namespace lockstep::week24::interleaved_test
