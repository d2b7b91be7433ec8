// Tests where the time of a PyTorch run goes: traces written here with the fields of Kineto's, with known times, and
// two that torch.profiler wrote (PyTorch 2.15, DDP over Gloo on 2 ranks; rank 1 sleeps 0.2 s before each step).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/analysis/graph.hpp"
#include "common/analysis/replay.hpp"
#include "common/analysis/shares.hpp"
#include "common/error.hpp"
#include "common/runtime/machine/machine.hpp"
#include "tools/analyse/pytorch/elsewhere.hpp"
#include "tools/analyse/pytorch/pytorch_testing.hpp"
#include "tools/analyse/pytorch/run.hpp"
#include "tools/analyse/pytorch/timeline.hpp"
#include "tools/analyse/view/page.hpp"

namespace lockstep::pytorch {
namespace {

/// A trace of one rank, in microseconds.
class Kineto {
 public:
  explicit Kineto(int rank, int ranks = 2) : rank_(rank), ranks_(ranks) {}

  Kineto& step(int number, double begin, double end) {
    return add("user_annotation", fmt::format("ProfilerStep#{}", number), begin, end, "{}");
  }
  Kineto& part(const std::string& name, double begin, double end) {
    return add("user_annotation", name, begin, end, "{}");
  }
  Kineto& kernel(double begin, double end) { return add("kernel", "sm80_gemm", begin, end, R"({"stream": 7})"); }
  Kineto& nccl(const std::string& name, int elements, double begin, double end, const std::string& group = "0") {
    return add("kernel", "ncclDevKernel_" + name + "_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", begin, end,
               fmt::format(R"({{"Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "dtype": "Float",
                            "Group size": {}, "Process Group Name": "{}"}})",
                           name, elements, elements, ranks_, group));
  }

  /// On a host, whose clock shows `seconds` since 1970 at time 0.
  Kineto& on(const std::string& host, int seconds) {
    head_ = fmt::format(R"("host_name": "{}", "baseTimeNanoseconds": {}000000000,)", host, seconds);
    return *this;
  }

  std::string text() const {
    return fmt::format(
        R"({{"schemaVersion": 1, {} "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}},
                           "traceEvents": [{}]}})",
        head_, rank_, ranks_, events_);
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
  std::string head_, events_;
};

constexpr double kMicro = 1e-6;

/// Rank 1's clock is 5 s ahead, and it arrives 300 µs later; the array moves for 200 µs, half of it behind its kernel.
Matched late_rank() {
  const double ahead = 5e6;
  Kineto zero(0), one(1);
  zero.step(1, 0, 1000).kernel(0, 400).nccl("AllReduce", 1 << 20, 400, 900);
  one.step(1, ahead, ahead + 1000).kernel(ahead, ahead + 800).nccl("AllReduce", 1 << 20, ahead + 700, ahead + 900);
  return match({one.read(), zero.read()});
}

TEST(PyTorch, TimesOfEachRank) {
  const auto run = analyse(late_rank());
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

TEST(PyTorch, StepsOfRanksThatDifferAreARange) {
  const auto head = [](double end) {
    return format(analyse(match({Kineto(0).step(1, 0, 1000).kernel(0, 900).read(),  //
                                 Kineto(1).step(1, 0, end).kernel(0, 900).read()})));
  };
  EXPECT_NE(head(1005).find("1 step of 1.00 ms each"), std::string::npos) << head(1005);
  EXPECT_NE(head(1050).find("1 step of 1.00 ms to 1.05 ms"), std::string::npos) << head(1050);
}

TEST(PyTorch, IdleTimeHasTheNameOfThePartItIsIn) {
  const auto late_by = [](const auto& mark) {
    Kineto zero(0), one(1);
    zero.step(1, 0, 1000).kernel(0, 100).nccl("AllReduce", 1 << 20, 100, 900).kernel(900, 1000);
    one.step(1, 0, 1000).kernel(0, 100).nccl("AllReduce", 1 << 20, 800, 900).kernel(900, 1000);
    mark(one);
    return analyse(match({zero.read(), one.read()}));
  };
  const auto named = late_by([](Kineto& one) {
    one.part("epoch", 0, 1000).part("decode", 120, 720).part("augment", 120, 150).part("nccl:all_reduce", 120, 710);
  });
  EXPECT_EQ(named.ranks[1].part, "decode") << "the smallest that holds half of it";
  EXPECT_NEAR(named.ranks[1].in_part, 600 * kMicro, 1e-8);
  EXPECT_EQ(named.ranks[0].part, "");
  EXPECT_NE(named.sentence.find("look at 'decode', in which it is idle for 600 µs of a step"), std::string::npos)
      << named.sentence;
  const auto unnamed = late_by([](Kineto& one) { one.part("decode", 300, 600); });
  EXPECT_EQ(unnamed.ranks[1].part, "") << "less than half";
  EXPECT_NE(unnamed.sentence.find("look at its data loading and its host"), std::string::npos) << unnamed.sentence;
  // All ranks idle: where the one is that idles most.
  const auto host = analyse(match({Kineto(0).step(1, 0, 1000).kernel(0, 100).part("item", 200, 900).read(),
                                   Kineto(1).step(1, 0, 1000).kernel(0, 200).read()}));
  EXPECT_EQ(host.limit, "idle");
  EXPECT_NE(host.sentence.find("Look at rank 0's 'item', in which it is idle for 700 µs"), std::string::npos)
      << host.sentence;
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

// Rank 2 is the late one: without its file, what the others wait looks like moving.
TEST(PyTorch, ARankThatIsNotGivenIsNotTakenForTheNetwork) {
  std::vector<Kineto> all;
  for (int rank : {0, 1, 2, 3}) {
    const double arrives = rank == 2 ? 800 : 100;
    all.push_back(Kineto(rank, 4).step(1, 0, 900).kernel(0, arrives).nccl("AllReduce", 1 << 20, arrives, 900));
  }
  EXPECT_EQ(analyse({all[0].read(), all[1].read(), all[2].read(), all[3].read()}).limit, "straggler");
  for (const auto& run : {analyse({all[0].read(), all[1].read(), all[3].read()}), analyse({all[0].read()})}) {
    EXPECT_TRUE(run.partial);
    EXPECT_EQ(run.limit, "collectives") << run.sentence;
    EXPECT_NE(run.sentence.find(fmt::format("With {} of 4 ranks given", run.ranks.size())), std::string::npos);
    EXPECT_EQ(run.sentence.find("Communication limits"), std::string::npos);
    const std::string text = format(run);
    EXPECT_NE(text.find(fmt::format("PyTorch, {} of 4 ranks of nccl", run.ranks.size())), std::string::npos) << text;
    EXPECT_NE(text.find("moving?"), std::string::npos) << text;
  }
  const Elsewhere there = elsewhere(match({all[0].read(), all[1].read()}), Machine::uniform(1e-6, 1e-9, 0), {});
  EXPECT_NE(format(there).find("2 ranks not given may be later"), std::string::npos) << format(there);
}

// By turns: rank 1 is last at 5 of 9 collectives, as often as chance makes one of four ranks be.
TEST(PyTorch, NobodyIsNamedWhoIsLateByChance) {
  const auto run = [](const std::vector<int>& late) {
    std::vector<RankTrace> traces;
    for (int rank : {0, 1, 2, 3}) {
      Kineto one(rank, 4);
      double at = 0;
      for (std::size_t k = 0; k < late.size(); ++k, at += 300) {
        one.step(static_cast<int>(k), at, at + 300);
        const double arrives = at + (late[k] == rank ? 200 : 100 + rank);
        one.kernel(at, arrives).nccl("AllReduce", 1 << 10, arrives, at + 250);
      }
      traces.push_back(one.read());
    }
    return analyse(std::move(traces));
  };
  const auto chance = run({1, 3, 1, 1, 2, 1, 3, 1, 3});
  EXPECT_EQ(chance.ranks[1].last, 5);
  EXPECT_EQ(chance.limit, "imbalance") << chance.sentence;
  EXPECT_NE(chance.sentence.find("now for one, now for another"), std::string::npos);
  EXPECT_EQ(run({1, 1, 1, 1, 2, 1, 1, 1, 3}).limit, "straggler");
}

// Half of the ranks, but all of each group that they communicate in.
TEST(PyTorch, GroupsThatAreWholeAreNotDoubted) {
  std::vector<RankTrace> traces;
  for (int rank : {0, 1}) {
    Kineto one(rank, 2);
    one.step(1, 0, 900).kernel(0, 100).nccl("AllReduce", 1 << 20, 100, 900);
    traces.push_back(one.read());
    traces.back().ranks = 4;
  }
  const auto run = analyse(std::move(traces));
  EXPECT_FALSE(run.partial);
  EXPECT_EQ(run.limit, "communication");
  EXPECT_NE(format(run).find("2 of 4 ranks"), std::string::npos);
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

TEST(PyTorch, TheTimelineHasTheSameTimes) {
  const Matched matched = late_rank();
  const auto run = analyse(matched);
  for (Needed needed : {Needed::late, Needed::at_once}) {
    const Timeline timeline = pytorch::timeline(matched, needed);
    const analysis::Shares shares = analysis::shares_of(timeline.trace);
    ASSERT_EQ(shares.ranks.size(), 2u);
    for (int rank : {0, 1}) {
      EXPECT_NEAR(shares.ranks[rank].computing, run.ranks[rank].computing, 1e-8);
      EXPECT_NEAR(shares.ranks[rank].exposed, run.ranks[rank].moving, 1e-8);
      EXPECT_NEAR(shares.ranks[rank].bubble, run.ranks[rank].waiting, 1e-8);
    }
    const analysis::Graph graph = analysis::make_graph(timeline.trace);
    EXPECT_EQ(graph.steps, 1);
    EXPECT_NEAR(analysis::replay(graph).seconds, 900 * kMicro, 1e-8);
  }
}

// Two groups: one moves while rank 1 is late at the other.
TEST(PyTorch, WaitingWinsOverMovingInBothPictures) {
  Kineto zero(0), one(1);
  zero.step(1, 0, 1000).kernel(0, 100).nccl("AllReduce", 256, 100, 600, "a").nccl("AllReduce", 512, 100, 900, "b");
  one.step(1, 0, 1000).kernel(0, 100).nccl("AllReduce", 256, 100, 600, "a").kernel(100, 800);
  one.nccl("AllReduce", 512, 800, 900, "b");
  const Matched matched = match({zero.read(), one.read()});
  const auto run = analyse(matched);
  EXPECT_NEAR(run.ranks[0].waiting, 700 * kMicro, 1e-8);
  const analysis::Shares shares = analysis::shares_of(timeline(matched).trace);
  EXPECT_NEAR(shares.ranks[0].bubble, run.ranks[0].waiting, 1e-8);
  EXPECT_NEAR(shares.ranks[0].exposed, run.ranks[0].moving, 1e-8);
}

TEST(PyTorch, ThePageSaysWhatWhySays) {
  const Matched matched = late_rank();
  const std::string said = analyse(matched).sentence;
  const std::string html = view::page({{"PyTorch", timeline(matched).trace}}, {.limit = said});
  EXPECT_NE(html.find(R"("why":{"sentence":"Rank 1 holds the others up: it arrives last at 1 of 1)"), html.npos);
}

TEST(PyTorch, NobodyGoesOnBeforeTheLastOfFourRanks) {
  // Rank 2 is the last to arrive. Replayed twice as fast at arithmetic, it still is.
  std::vector<RankTrace> traces;
  for (int rank : {0, 1, 2, 3}) {
    const double arrives = rank == 2 ? 800 : 100;
    Kineto one(rank, 4);
    one.step(1, 0, 1100).kernel(0, arrives).nccl("AllReduce", 1 << 20, arrives, 900).kernel(900, 1100);
    traces.push_back(one.read());
  }
  const Matched matched = match(std::move(traces));
  analysis::Graph graph = analysis::make_graph(timeline(matched).trace);
  EXPECT_NEAR(analysis::replay(graph).seconds, 1100 * kMicro, 1e-8);
  for (analysis::Activity& work : graph.works) work.seconds /= 2;
  EXPECT_NEAR(analysis::replay(graph).seconds, (400 + 100 + 100) * kMicro, 1e-8);
}

TEST(PyTorch, AStepElsewhereHasThatMachinesCollectives) {
  const Matched matched = late_rank();
  const Machine machine = Machine::uniform(10e-6, 1e-9, 0);
  const double array = 4 << 20, two = 2 * 10e-6 + array * 1e-9;  // a ring of two ranks
  const Elsewhere same = elsewhere(matched, machine, {});
  EXPECT_NEAR(same.recorded, 1e-3, 1e-8);
  EXPECT_NEAR(same.replayed, 900 * kMicro, 1e-8);
  EXPECT_NEAR(same.seconds, 700 * kMicro + two, 1e-8) << "from rank 1's arrival";
  EXPECT_DOUBLE_EQ(same.at_most, same.seconds);
  ASSERT_EQ(same.collectives.size(), 1u);
  EXPECT_NEAR(same.collectives[0].here, 200 * kMicro, 1e-8);
  EXPECT_NEAR(same.collectives[0].there, two, 1e-12);
  EXPECT_DOUBLE_EQ(same.collectives[0].each_step, 1);
  // Eight ranks that compute seven times as fast.
  const double eight = std::min(14 * 10e-6 + 1.75 * array * 1e-9, 14 * 10e-6 + 2 * array * 1e-9);
  const Elsewhere more = elsewhere(matched, machine, {.ranks = 8, .speed = 7});
  EXPECT_NEAR(more.seconds, 100 * kMicro + eight, 1e-8);
  EXPECT_EQ(more.collectives[0].ranks, 8);
  const std::string text = format(more);
  EXPECT_NE(text.find("On uniform with 8 ranks, a step would take 7.58 ms instead of 1.00 ms"), text.npos) << text;
  EXPECT_NE(text.find("7 times as fast"), text.npos) << text;
  EXPECT_NEAR(more.floor, eight, 1e-8);
  EXPECT_NE(text.find("At any --speed"), text.npos) << text;
  EXPECT_EQ(text.find("./lab plan"), text.npos) << "it is a GPU's trace";
}

TEST(PyTorch, TheStepsThatAreReplayedAreNamed) {
  // Three steps, the first of which is slower; between them the host idles, as it does in the replay.
  std::vector<RankTrace> traces;
  for (int rank : {0, 1}) {
    Kineto one(rank);
    for (int step = 0; step < 3; ++step) {
      const double begin = step == 0 ? 0 : 1000 + 800 * (step - 1), end = step == 0 ? 1000 : begin + 800;
      one.step(step, begin, end).kernel(begin, end - 100).nccl("AllReduce", 1 << 20, end - 100, end);
    }
    traces.push_back(one.read());
  }
  const Matched matched = match(std::move(traces));
  Elsewhere there = elsewhere(matched, Machine::uniform(0, 1e-12, 0), {});
  EXPECT_NEAR(there.recorded, 800 * kMicro, 1e-8);
  EXPECT_NE(format(there).find("first of 3 steps, as in this table)"), std::string::npos) << format(there);
  EXPECT_EQ(format(there).find("errs"), std::string::npos) << format(there);
  there.replayed = there.recorded + 2 * std::abs(there.seconds - there.recorded);
  EXPECT_NE(format(there).find("more than the machines differ"), std::string::npos) << format(there);
}

TEST(PyTorch, WhatStaysHiddenOnASlowerNetwork) {
  // 400 µs of communication behind 600 µs of kernels, and the optimizer: on a network that is ten times as slow, the
  // second kernel may or may not need it.
  std::vector<RankTrace> traces;
  for (int rank : {0, 1})
    traces.push_back(Kineto(rank)
                         .step(1, 0, 1000)
                         .kernel(0, 100)
                         .nccl("AllReduce", 100'000, 100, 500)
                         .kernel(100, 600)
                         .kernel(600, 900)
                         .kernel(900, 1000)
                         .read());
  const Elsewhere slow = elsewhere(match(std::move(traces)), Machine::uniform(0, 1e-8, 0), {});
  const double moving = 4e5 * 1e-8;
  EXPECT_NEAR(slow.seconds, 100 * kMicro + moving + 100 * kMicro, 1e-8) << "only the last kernel waits";
  EXPECT_NEAR(slow.at_most, 100 * kMicro + moving + 400 * kMicro, 1e-8);
  EXPECT_NE(format(slow).find("if each operation needs"), std::string::npos);
}

Matched read_samples(const std::string& name, int ranks) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < ranks; ++rank) traces.push_back(read_trace(sample(fmt::format("{}{}.json", name, rank))));
  return match(std::move(traces));
}

TEST(PyTorch, WhatFsdpWrote) {
  const Matched matched = read_samples("fsdp-rank", 4);
  EXPECT_TRUE(matched.mismatches.empty());
  const auto run = analyse(matched);
  EXPECT_EQ(run.matched, 18) << "of 3 blocks 3 collectives in each of 2 steps";
  ASSERT_EQ(run.collectives.size(), 2u);
  for (const CollectiveTime& c : run.collectives) {
    EXPECT_DOUBLE_EQ(c.bytes, 4 * (256 * 256 + 256)) << "the whole block, of " << c.name;
    EXPECT_EQ(c.each_step, c.name == "all_gather" ? 6 : 3);
  }
  const Timeline timeline = pytorch::timeline(matched);
  const analysis::Graph graph = analysis::make_graph(timeline.trace);
  EXPECT_NEAR(analysis::replay(graph).seconds / graph.recorded, 1, 0.05);
  const Elsewhere there = elsewhere(matched, find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines"), {});
  EXPECT_LT(there.seconds, 0.8 * there.recorded);
  EXPECT_GT(there.seconds, run.ranks[0].computing);
}

TEST(PyTorch, WhatTorchProfilerWrote) {
  const Matched matched = read_samples("ddp-rank", 2);
  const auto run = analyse(matched);
  EXPECT_FALSE(run.gpu);
  EXPECT_EQ(run.backend, "gloo");
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.matched, 2);
  ASSERT_EQ(run.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(run.collectives[0].bytes, 4 * 3 * (256 * 256 + 256)) << "the gradients of three layers";
  EXPECT_EQ(run.limit, "straggler");
  EXPECT_NEAR(run.ranks[0].waiting, 0.2, 0.02);
  EXPECT_GT(run.ranks[1].idle, 0.2);
  EXPECT_NE(run.sentence.find("Rank 1 holds the others up"), run.sentence.npos) << run.sentence;
  EXPECT_NE(run.sentence.find("idle"), run.sentence.npos) << run.sentence;
  for (const RankTime& t : run.ranks) EXPECT_NEAR(t.computing + t.moving + t.waiting + t.idle, t.step, 1e-9);
  EXPECT_NE(page_of("pytorch.md").find(format(run)), std::string::npos) << format(run);
  const Machine machine = find_machine("dgx-a100", LOCKSTEP_SOURCE_DIR "/bench/machines");
  const std::string there = format(elsewhere(matched, machine, {.ranks = 8}));
  EXPECT_NE(page_of("pytorch.md").find(there), std::string::npos) << there;
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
  const auto on = [](int rank, int step, const char* host, int seconds) {
    return Kineto(rank).step(step, 0, 1e6).kernel(0, 1e6).on(host, seconds).text();
  };
  const std::string first = on(0, 5, "a", 1'790'000'000);
  EXPECT_EQ(refusal({first, on(1, 5, "a", 1'790'000'000)}), "");
  EXPECT_EQ(refusal({first, on(1, 5, "b", 1'790'000'005)}), "") << "clocks of two hosts may differ";
  EXPECT_NE(refusal({first, on(1, 5, "a", 1'790'000'005)}).find("not of the same run: 4.00 s lie"), std::string::npos);
  EXPECT_NE(refusal({on(0, 5, "a", 1'790'000'700), on(1, 5, "b", 1'790'000'000)}).find("not of the same run"),
            std::string::npos);
  EXPECT_NE(refusal({first, on(1, 7, "a", 1'790'000'000)}).find("begins with step 5"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::pytorch
