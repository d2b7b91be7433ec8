// Messages when a GPU of NCCL's ranks hangs; the fake GPU can be made to.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/backends/nccl/rank.hpp"
#include "common/backends/tests/support.hpp"
#include "common/testing/fakes/tests/spin.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

/// Makes its GPU spin until the run has failed and this object is destroyed, so that the next run finds the GPU idle.
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
    (void)first(me, x);  // all earlier work is done
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

/// Changes a setting of the fake NCCL during its lifetime.
class Fake {
 public:
  Fake(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Fake(const Fake&) = delete;
  ~Fake() { unsetenv(name_); }

 private:
  const char* name_;
};

/// NCCL's ranks get no error when they cannot reach each other; it only takes long.
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

/// NCCL does not return from a group of calls on rank 0. Rank 0 must learn of rank 1's failure nevertheless: otherwise
/// rank 1 would end the job, and this test, three seconds after the timeout, while rank 0 would poll NCCL five times as
/// long.
TEST(NcclTrouble, AFailureIsHeardWhileNcclIsInProgress) {
  NEED_RANKS(2);
  if (std::getenv("NCCL_COMM_BLOCKING")) GTEST_SKIP() << "a call that blocks is not in progress";
  for (const bool checked : {true, false}) {
    RunOptions options = options_for(2);
    options.timeout_seconds = 2;
    options.check_races = checked;
    const Outcome outcome = run(options, [](Rank me) {
      Slice x = filled(me, 4, 1);
      if (me.rank() == 1) {
        (void)me.start({send(0, x)});
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        throw std::runtime_error("no more");
      }
      const Fake stuck("LOCKSTEP_FAKE_NCCL_STUCK", "1");
      me.exchange({receive(1, x)});
    });
    expect_failure(outcome, Verdict::fail, {"rank 1", "no more"});
    expect_good_run();
  }
}

TEST(NcclTrouble, AWaitWithTheGateHeldIsFound) {
  NEED_RANKS(2);
  const auto held = [](const std::function<void(Rank)>& waits) {
    return run_on(2, [&](Rank me) {
      std::unique_lock gate(static_cast<nccl::NcclRank&>(me.backend()).gate(), std::defer_lock);
      if (me.rank() == 0) gate.lock();
      if (me.rank() == 0) waits(me);
    });
  };
  for (const Outcome& outcome : {held([](Rank me) { (void)me.now(); }), held([](Rank me) {
                                   const Slice x = me.allocate(1, DType::f32, kBuffer);
                                   (void)read(me, x, 0);
                                 })})
    expect_failure(outcome, Verdict::fail, {"rank 0", "waits while it holds the gate"});
  expect_good_run();
}

/// While rank 0's GPU spins for a message, every resource that `between` uses must be available at once.
std::vector<std::string> while_the_gpu_spins(const std::function<void(Rank)>& between) {
  RunOptions options = options_for(2);
  options.check_races = false;
  std::vector<std::string> found;
  const Outcome outcome = run(options, [&](Rank me) {
    Rank lane = me.stream("lane");
    Slice x = filled(me, 1, 0);
    Ticket ticket;
    if (me.rank() == 0) {
      ticket = me.run(lane, [=](Rank r) { r.exchange({receive(1, x)}); });
      while (fake::spinning_kernels() == 0) (void)cudaStreamQuery(nullptr);
      between(me);
      found = fake::take_problems();
    }
    me.exchange({me.rank() == 0 ? send(1, filled(me, 1, 1)) : receive(0, filled(me, 1, 1))});
    if (me.rank() == 1) ticket = me.run(lane, [=](Rank r) { r.exchange({send(0, x)}); });
    me.wait(ticket);
  });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
  return found;
}

TEST(NcclTrouble, NothingOfTheRuntimesWaitsForAGpuThatSpins) {
  NEED_RANKS(2);
  const auto found = while_the_gpu_spins([](Rank me) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Slice a = me.allocate(16 * 16, dtype, kBuffer), c = me.allocate(16 * 16, dtype, kBuffer);
      fill(me, a, 1);
      fill(me, c, 0);
      matmul(me, {c, 16, 16}, {a, 16, 16}, {a, 16, 16});
      Slice wide = filled(me, c.size(), 0);
      cast(me, wide, c);
      EXPECT_EQ(first(me, wide), 16);
    }
    std::vector<float> many(3 << 20, 2);
    Slice x = me.allocate(many.size(), DType::f32, kBuffer);
    for (int turn = 0; turn < 20; ++turn) upload(me, x, many);
    EXPECT_EQ(first(me, x), 2);
  });
  EXPECT_EQ(found, std::vector<std::string>{});
}

TEST(NcclTrouble, APinnedAllocationWhileTheGpuSpinsIsFound) {
  NEED_RANKS(2);
  void* pinned = nullptr;
  const auto found = while_the_gpu_spins([&](Rank) {
    EXPECT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
    (void)cuda::open_product_library();
    fake::load_code("never used before");
  });
  (void)cudaFreeHost(pinned);
  if (!is_judge()) return;  // only rank 0 checks
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(found[0].find("4096 bytes of pinned memory are allocated while"), std::string::npos) << found[0];
  EXPECT_NE(found[1].find("library of products is opened while"), std::string::npos) << found[1];
  EXPECT_NE(found[2].find("never used before"), std::string::npos) << found[2];
}

/// Rank 0's GPU spins for messages on five queues. Rank 1 sends none of them before it has the result of rank 0's
/// arithmetic.
Outcome lanes_that_wait_for_arithmetic(const std::string& name) {
  RunOptions options = options_for(2);
  options.check_races = false;  // messages go to the GPU at once, matched or not
  return run(options, Program([&](Rank me) {
               std::vector<Rank> lanes;
               for (int lane = 0; lane < 5; ++lane) lanes.push_back(me.stream(name + std::to_string(lane)));
               Slice on_lanes = filled(me, 5, 0), on_main = filled(me, 1, 0);
               if (me.rank() == 1) me.exchange({receive(0, on_main)});
               std::vector<Ticket> tickets;
               for (int lane = 0; lane < 5; ++lane)
                 tickets.push_back(me.run(lanes[lane], [=](Rank r) {
                   const Slice mine = on_lanes.cut(lane, 1);
                   r.exchange({r.rank() == 0 ? receive(1, mine) : send(0, mine)});
                 }));
               if (me.rank() == 0) {
                 fill(me, on_main, 3);
                 me.exchange({send(1, on_main)});
               }
               for (const Ticket& ticket : tickets) me.wait(ticket);
               return Values{first(me, on_main), first(me, on_lanes)};
             }));
}

TEST(NcclTrouble, CommunicatorsLeaveMultiprocessorsToArithmetic) {
  NEED_RANKS(2);
  const Outcome bounded = lanes_that_wait_for_arithmetic("narrow");
  ASSERT_TRUE(bounded.passed()) << bounded.message;
  EXPECT_EQ(bounded.values, (std::vector<Values>{{3, 0}, {3, 0}}));
}

TEST(NcclTrouble, UnboundedCommunicatorsFillTheGpu) {
  NEED_RANKS(2);
  {
    const Fake unbounded("NCCL_MAX_CTAS", "32");
    expect_failure(lanes_that_wait_for_arithmetic("wide"), Verdict::deadlock,
                   {"for the GPU: queue \"wide0\" transfers", "queue \"wide4\" transfers"});
  }
  expect_good_run();
}

/// A rank fails while others are in ncclCommSplit, which writes its handle when nothing waits for it any more.
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
