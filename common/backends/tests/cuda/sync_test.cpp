// Explicit synchronisation with the GPU, and messages about memory or options that make no sense.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

TEST(ExplicitSync, ReadAfterWhatWasQueuedOnEveryRankAtOnce) {
  const Outcome outcome = run(options_for(4), Program([](Rank me) {
                                Slice x = filled(me, 1, 1);
                                Values seen;
                                for (int step = 0; step < 5; ++step) {
                                  add(me, x, x);
                                  seen.push_back(read(me, x, 0));
                                }
                                return seen;
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, (Values{2, 4, 8, 16, 32}));
  EXPECT_EQ(outcome.ledgers[3].reads, 5u);
}

TEST(ExplicitSync, UploadsOfManyPieces) {
  constexpr std::size_t kElements = 3'000'000;  // 12 MB: more than one piece of pinned memory
  const Outcome outcome = run(options_for(1), Program([](Rank me) {
                                Slice x = empty_of(me, kElements);
                                std::vector<float> values(kElements);
                                for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 1009);
                                upload(me, x, values);
                                std::vector<float> sent = values;
                                std::fill(values.begin(), values.end(), -1.f);  // the upload has copied them
                                return Values{to_host(me, x) == sent ? 1.0 : 0.0};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{1});
}

TEST(ExplicitSync, TimeGoesOn) {
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Slice x = filled(me, 1000, 1);
                                Values seen{me.now()};
                                for (int i = 0; i < 3; ++i) {
                                  add(me, x, x);
                                  seen.push_back(me.now());
                                }
                                return seen;
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) {
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    EXPECT_GT(values.back(), 0);
    EXPECT_LE(values.back(), outcome.seconds);
  }
}

TEST(Memory, ThatIsNotThereIsNamed) {
  for (int time = 0; time < 2; ++time) {
    const Outcome outcome = run(options_for(2), [](Rank me) {
      Slice a = filled(me, 10, 1);
      if (me.rank() == 1) (void)me.allocate(std::size_t{1} << 50, DType::f32, Category::gradient);
    });
    EXPECT_EQ(to_string(outcome.verdict), "FAIL");
    EXPECT_EQ(outcome.failed_rank, 1);
    for (const char* words :
         {"rank 1", "out of memory", "4503599627370496 bytes", "gradients", "sync_test.cpp:", "GPU 0"})
      EXPECT_NE(outcome.message.find(words), std::string::npos) << outcome.message;
  }
}

TEST(Options, ThatMakeNoSense) {
  EXPECT_THROW(run(options_for(100'000), [](Rank) {}), Error);
  RunOptions phantom = options_for(1);
  phantom.phantom = true;
  EXPECT_THROW(run(phantom, [](Rank) {}), Error);
}

}  // namespace
}  // namespace lockstep
