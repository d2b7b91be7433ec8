// A GPU that hangs under NCCL's ranks, in words: on the fake GPU, which can be made to.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/backends/nccl/rank.hpp"
#include "common/backends/tests/support.hpp"
#include "common/testing/fakes/tests/spin.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

/// Its GPU spins until the run has failed and this goes: then the next run finds it at rest.
class Spins {
 public:
  explicit Spins(Rank me) {
    static_cast<nccl::NcclRank&>(me.backend()).with_world([this](ncclComm_t, cudaStream_t stream) {
      spin_.on(stream);
    });
  }
  ~Spins() { spin_.end(); }

 private:
  Spin spin_;
};

RunOptions impatient() {
  RunOptions options = options_for(2);
  options.timeout_seconds = 0.3;
  return options;
}

void expect_good_run() {
  const Outcome outcome = run_on(2, [](Rank me) { (void)first(me, filled(me, 8, 1)); });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
}

TEST(NcclTrouble, WhatTheGpuIsNotDoneWithIsNamed) {
  NEED_RANKS(2);
  const Outcome outcome = run(impatient(), [](Rank me) {
    Slice x = filled(me, 4, 1);
    (void)first(me, x);  // what came before is done
    const Spins spins(me);
    scale(me, x, 2);
    add(me, x, x);
    (void)first(me, x);
  });
  expect_failure(outcome, Verdict::timeout,
                 {"rank 1: waits at support.hpp", "for the GPU, which on queue \"main\" is not done with",
                  "the last 2 operations, from scale at trouble_test.cpp"});
  expect_good_run();
}

TEST(NcclTrouble, MemoryThatIsNotFreedIsNamedWithItsCategory) {
  NEED_RANKS(2);
  const std::size_t bytes = fake::settings_of_environment().memory_bytes;
  if (bytes > 64 << 20) GTEST_SKIP() << "needs LOCKSTEP_FAKE_MEMORY of at most 64 MiB";
  const Outcome outcome = run(impatient(), [bytes](Rank me) {
    Slice most = me.allocate(bytes / 6, DType::f32, Category::activation);
    const Spins spins(me);
    most = {};
    most = me.allocate(bytes / 3, DType::bf16, Category::gradient);
  });
  const std::string words = std::to_string(bytes / 3 * 2) + " bytes for gradients)";
  expect_failure(outcome, Verdict::timeout,
                 {"waits at trouble_test.cpp", "for the GPU, which is full, to free memory (", words.c_str()});
  expect_good_run();
}

/// A setting of the fake NCCL's, for a while.
class Fake {
 public:
  Fake(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Fake(const Fake&) = delete;
  ~Fake() { unsetenv(name_); }

 private:
  const char* name_;
};

/// Nothing says to NCCL's ranks that they do not reach each other: only that it takes long.
TEST(NcclTrouble, ASetUpThatNeverEndsIsSaid) {
  NEED_RANKS(3);
  if (std::getenv("NCCL_COMM_BLOCKING")) GTEST_SKIP() << "nobody asks a call that blocks";
  RunOptions options = options_for(3);
  options.timeout_seconds = 0.2;
  const Fake deaf("LOCKSTEP_FAKE_NCCL_DEAF", "1");
  const Outcome outcome = run(options, [](Rank me) { (void)me.stream("never made"); });
  expect_failure(outcome, Verdict::timeout, {"TIMEOUT: ncclComm", "in progress for 1 s", "NCCL_DEBUG=INFO"});
}

TEST(NcclTrouble, GpusThatDoNotReachEachOtherAreSaid) {
  NEED_RANKS(2);
  {
    RunOptions options = impatient();
    const Fake lost("LOCKSTEP_FAKE_NCCL_LOST", "1");
    const Outcome outcome = run(options, [](Rank me) { (void)me.stream("nobody's"); });
    expect_failure(outcome, Verdict::timeout, {"TIMEOUT: ranks 0, 1 are connected", "1.5 s", "NCCL_P2P_DISABLE=1"});
  }
  expect_good_run();
}

/// A rank fails while others are in ncclCommSplit, whose handle comes when nobody waits for it any more.
TEST(NcclTrouble, AFailureDuringASplitEndsIt) {
  NEED_RANKS(3);
  for (const char* slow : {"20", "200"}) {
    const Outcome outcome = run(options_for(3), [slow](Rank me) {
      const Rank pair = me.split(me.rank() / 2, 0);
      if (me.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        throw std::runtime_error("in the middle");
      }
      const Fake takes_long("LOCKSTEP_FAKE_NCCL_SLOW", slow);
      (void)pair.stream("new");
    });
    expect_failure(outcome, Verdict::fail, {"rank 2", "in the middle"});
    expect_good_run();
  }
}

}  // namespace
}  // namespace lockstep
