// Where the time of a PyTorch run goes: traces written here with the fields of Kineto's, with known times, and two that
// torch.profiler wrote (PyTorch 2.15, DDP over Gloo on 2 ranks; rank 1 sleeps 0.2 s before each step).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "tools/analyse/pytorch/run.hpp"

namespace lockstep::pytorch {
namespace {

/// A trace of one rank, in microseconds.
class Kineto {
 public:
  explicit Kineto(int rank, int ranks = 2) : rank_(rank), ranks_(ranks) {}

  Kineto& step(int number, double begin, double end) {
    return add("user_annotation", fmt::format("ProfilerStep#{}", number), begin, end, "{}");
  }
  Kineto& kernel(double begin, double end) { return add("kernel", "sm80_gemm", begin, end, R"({"stream": 7})"); }
  Kineto& nccl(const std::string& name, int elements, double begin, double end, const std::string& group = "0") {
    return add("kernel", "ncclDevKernel_" + name + "_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", begin, end,
               fmt::format(R"({{"Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "dtype": "Float",
                            "Group size": {}, "Process Group Name": "{}"}})",
                           name, elements, elements, ranks_, group));
  }

  std::string text() const {
    return fmt::format(R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}},
                           "traceEvents": [{}]}})",
                       rank_, ranks_, events_);
  }
  RankTrace read() const {
    const std::string path = fmt::format("{}/kineto{}.json", testing::TempDir(), rank_);
    std::ofstream(path) << text();
    EXPECT_TRUE(is_pytorch_trace(path));
    return read_trace(path);
  }

 private:
  Kineto& add(const char* kind, const std::string& name, double begin, double end, const std::string& arguments) {
    events_ += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}, "args": {}}})",
        events_.empty() ? "" : ",\n", kind, name, begin, end - begin, arguments);
    return *this;
  }

  int rank_, ranks_;
  std::string events_;
};

constexpr double kMicro = 1e-6;

TEST(PyTorch, TimesOfEachRank) {
  // Rank 1's clock is 5 s ahead, and it arrives 300 µs later; the array then moves for 200 µs, of which rank 0 hides
  // none and rank 1 half.
  const double ahead = 5e6;
  Kineto zero(0), one(1);
  zero.step(1, 0, 1000).kernel(0, 400).nccl("AllReduce", 1 << 20, 400, 900);
  one.step(1, ahead, ahead + 1000).kernel(ahead, ahead + 800).nccl("AllReduce", 1 << 20, ahead + 700, ahead + 900);
  const auto run = analyse({one.read(), zero.read()});
  EXPECT_TRUE(run.gpu);
  EXPECT_EQ(run.steps, 1);
  EXPECT_EQ(run.matched, 1);
  EXPECT_TRUE(run.mismatches.empty());
  ASSERT_EQ(run.ranks.size(), 2u);
  const RankTime &a = run.ranks[0], &b = run.ranks[1];
  EXPECT_NEAR(a.computing, 400 * kMicro, 1e-9);
  EXPECT_NEAR(a.waiting, 300 * kMicro, 1e-8);
  EXPECT_NEAR(a.moving, 200 * kMicro, 1e-8);
  EXPECT_NEAR(a.idle, 100 * kMicro, 1e-8);
  EXPECT_NEAR(b.computing, 800 * kMicro, 1e-8);
  EXPECT_NEAR(b.hidden, 100 * kMicro, 1e-8);
  EXPECT_NEAR(b.moving, 100 * kMicro, 1e-8);
  EXPECT_NEAR(b.waiting, 0, 1e-8);
  EXPECT_EQ(b.last, 1);
  ASSERT_EQ(run.collectives.size(), 1u);
  const CollectiveTime& c = run.collectives[0];
  EXPECT_EQ(c.name, "all_reduce");
  EXPECT_DOUBLE_EQ(c.bytes, 4 << 20);
  EXPECT_NEAR(c.moving, 200 * kMicro, 1e-8);
  EXPECT_NEAR(c.waiting, 300 * kMicro, 1e-8);
  EXPECT_EQ(run.limit, "straggler");
  EXPECT_NE(run.sentence.find("Rank 1 holds the others up"), run.sentence.npos) << run.sentence;
  EXPECT_NE(run.sentence.find("computes 400 µs longer"), run.sentence.npos) << run.sentence;
}

TEST(PyTorch, EachLimitIsNamed) {
  const auto limit = [](double computing, double moving, double end) {
    std::vector<RankTrace> traces;
    for (int rank : {0, 1})
      traces.push_back(Kineto(rank)
                           .step(1, 0, end)
                           .kernel(0, computing)
                           .nccl("AllGather", 1024, computing, computing + moving)
                           .read());
    return analyse(std::move(traces)).limit;
  };
  EXPECT_EQ(limit(960, 20, 1000), "computing");
  EXPECT_EQ(limit(500, 450, 1000), "communication");
  EXPECT_EQ(limit(300, 200, 1000), "idle");
}

TEST(PyTorch, CollectivesThatDoNotMatchAreNamed) {
  Kineto zero(0), one(1), two(1);
  zero.kernel(0, 10).nccl("AllReduce", 256, 10, 20).nccl("AllReduce", 512, 20, 30);
  one.kernel(0, 10).nccl("AllReduce", 256, 10, 20).nccl("AllGather", 512, 20, 30);
  two.kernel(0, 10).nccl("AllReduce", 256, 10, 20);
  const auto other = analyse({zero.read(), one.read()});
  EXPECT_EQ(other.matched, 1);
  ASSERT_EQ(other.mismatches.size(), 1u);
  EXPECT_EQ(other.mismatches[0],
            "collective 2 of process group 0: rank 0 runs all_reduce of 2 KiB, rank 1 all_gather of 2 KiB");
  const auto missing = analyse({zero.read(), two.read()});
  ASSERT_EQ(missing.mismatches.size(), 1u);
  EXPECT_EQ(missing.mismatches[0], "collective 2 of process group 0: rank 0 runs all_reduce of 2 KiB, rank 1 does not");
}

TEST(PyTorch, ClocksOfRanksThatNeverMeet) {
  // Groups {0, 1} and {1, 2}: rank 2 meets rank 0's clock through rank 1's.
  Kineto zero(0, 3), one(1, 3), two(2, 3);
  zero.kernel(0, 10).nccl("AllReduce", 256, 10, 20, "a");
  one.kernel(1000, 1010).nccl("AllReduce", 256, 1012, 1020, "a").nccl("AllReduce", 256, 1020, 1040, "b");
  two.kernel(5000, 5010).nccl("AllReduce", 256, 5030, 5040, "b");
  const auto run = analyse({zero.read(), one.read(), two.read()});
  EXPECT_EQ(run.matched, 2);
  EXPECT_NEAR(run.ranks[0].waiting, 2 * kMicro, 1e-9);
  EXPECT_NEAR(run.ranks[1].waiting, 10 * kMicro, 1e-9);
  EXPECT_NEAR(run.ranks[2].waiting, 0, 1e-9);
}

TEST(PyTorch, WhatTorchProfilerWrote) {
  std::vector<RankTrace> traces;
  for (const char* rank : {"0", "1"})
    traces.push_back(
        read_trace(fmt::format("{}/tools/analyse/pytorch/samples/rank{}.json", LOCKSTEP_SOURCE_DIR, rank)));
  const auto run = analyse(std::move(traces));
  EXPECT_FALSE(run.gpu);
  EXPECT_EQ(run.backend, "gloo");
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.matched, 2);
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(run.collectives[0].bytes, 4 * 2 * (256 * 256 + 256)) << "the gradients of two layers";
  EXPECT_EQ(run.limit, "straggler");
  EXPECT_NEAR(run.ranks[0].waiting, 0.2, 0.02);
  EXPECT_GT(run.ranks[1].idle, 0.2);
  EXPECT_NE(run.sentence.find("Rank 1 holds the others up"), run.sentence.npos) << run.sentence;
  EXPECT_NE(run.sentence.find("idle"), run.sentence.npos) << run.sentence;
  for (const RankTime& t : run.ranks) EXPECT_NEAR(t.computing + t.moving + t.waiting + t.idle, t.step, 1e-9);
  EXPECT_NE(read_file(LOCKSTEP_SOURCE_DIR "/docs/use/pytorch.md").find(format(run)), std::string::npos) << format(run);
}

std::string refusal(const std::vector<std::string>& texts) {
  try {
    std::vector<RankTrace> traces;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string path = fmt::format("{}/refused{}.json", testing::TempDir(), i);
      std::ofstream(path) << texts[i];
      traces.push_back(read_trace(path));
    }
    analyse(std::move(traces));
  } catch (const Error& error) {
    EXPECT_EQ(error.verdict(), Verdict::usage);
    return error.what();
  }
  return "";
}

TEST(PyTorch, WhatCannotBeReadIsRefused) {
  const std::string good = Kineto(0).kernel(0, 10).text();
  EXPECT_EQ(refusal({good}), "");
  EXPECT_NE(refusal({good.substr(0, good.size() / 2)}).find("cut short"), std::string::npos);
  EXPECT_NE(refusal({R"({"schemaVersion": 1, "traceEvents": []})"}).find("distributedInfo"), std::string::npos);
  EXPECT_NE(refusal({Kineto(0).text()}).find("no operation"), std::string::npos);
  EXPECT_NE(refusal({good, good}).find("both of rank 0"), std::string::npos);
  EXPECT_NE(refusal({good, Kineto(1, 4).kernel(0, 1).text()}).find("with 2 ranks"), std::string::npos);
  EXPECT_NE(refusal({good, Kineto(1).step(1, 0, 1).step(2, 1, 2).kernel(0, 1).text()}).find("the same steps"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::pytorch
