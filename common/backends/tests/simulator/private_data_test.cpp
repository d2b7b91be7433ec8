// Variables in the section lockstep_private are private to each rank, and to the caller of a run.
#include "common/runtime/private_data.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <vector>

#include "common/runtime/run.hpp"

namespace lockstep {
namespace {

struct Counter {
  int calls;
  int* address;
};
[[gnu::section("lockstep_private")]] Counter counter = {7, nullptr};
int shared_calls = 0;

std::vector<std::unique_ptr<int>> allocated;  // the runtime never frees memory that a rank's initialisers allocate

void initialise(int, char**, char**) { counter.address = allocated.emplace_back(std::make_unique<int>(100)).get(); }
[[gnu::section("lockstep_private_init"), gnu::used]] void (*const kInitialise)(int, char**, char**) = initialise;

/// Ranks alternate: a message each way, `rounds` times.
Outcome ping_pong(int rounds) {
  return run({.ranks = 2}, [rounds](Rank me) -> Values {
    Slice box = me.allocate(1, DType::f32, Category::buffer);
    for (int round = 0; round < rounds; ++round) {
      ++counter.calls, ++*counter.address, ++shared_calls;
      if (me.rank() == 0 && round == 0) ++counter.calls;
      me.exchange({send(1 - me.rank(), box), receive(1 - me.rank(), me.allocate(1, DType::f32, Category::buffer))});
    }
    me.wait(me.run(me.stream("side"), [](Rank) { ++counter.calls; }));
    return {double(counter.calls), double(*counter.address), double(shared_calls)};
  });
}

TEST(PrivateData, EachRankCountsItsOwn) {
  counter.calls = 7;
  start_private_data();
  ++counter.calls;
  for (int run = 1; run <= 2; ++run) {  // the second run starts afresh
    shared_calls = 0;
    const Outcome outcome = ping_pong(5);
    ASSERT_EQ(outcome.verdict, Verdict::pass) << outcome.message;
    EXPECT_EQ(outcome.values[0][0], 14);
    EXPECT_EQ(outcome.values[0][1], 105);
    EXPECT_EQ(outcome.values[1][1], 105) << "memory that an initialiser has allocated is shared";
    EXPECT_EQ(outcome.values[0][0], outcome.values[1][0] + 1);
    EXPECT_GT(std::max(outcome.values[0][2], outcome.values[1][2]), 5) << "ranks do not take turns";
    EXPECT_EQ(counter.calls, 8) << "the caller's own";
    EXPECT_EQ(*counter.address, 100);
  }
}

TEST(PrivateData, SoAreErrnoAndHowStreamsPrint) {
  const Outcome outcome = run({.ranks = 2}, [](Rank me) -> Values {
    if (me.rank() == 0) {
      errno = 7;
      std::cout.precision(11);
      std::cerr.width(5);
      std::clog.setstate(std::ios::failbit);
    }
    Slice box = me.allocate(1, DType::f32, Category::buffer);
    me.exchange({send(1 - me.rank(), box), receive(1 - me.rank(), me.allocate(1, DType::f32, Category::buffer))});
    return {double(errno), double(std::cout.precision()), double(std::cerr.width()), double(std::clog.rdstate())};
  });
  ASSERT_EQ(outcome.verdict, Verdict::pass) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{7, 11, 5, 0}));  // what a stream failed at is nobody's
  EXPECT_EQ(outcome.values[1], (Values{0, 6, 0, 0}));
  EXPECT_EQ(std::cout.precision(), 6);
}

TEST(PrivateData, AFailedRunGivesTheCallerItsOwnBack) {
  counter.calls = 7;
  start_private_data();
  const Outcome outcome = run({.ranks = 3}, [](Rank me) -> Values {
    counter.calls = 100 + me.rank();
    if (me.rank() == 1) throw Error(Verdict::usage, "stop");
    me.exchange({receive((me.rank() + 1) % 3, me.allocate(1, DType::f32, Category::buffer))});
    return {};
  });
  EXPECT_EQ(outcome.verdict, Verdict::usage);
  EXPECT_EQ(counter.calls, 7);
}

}  // namespace
}  // namespace lockstep
