// The twelve lines of docs/learn/api.md, on every backend.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

void sum_of_four(Rank me, Slice mine, Slice other_work) {
  Scope scope = me.region("sum_of_four", mine.bytes());                                             //  1
  Rank pair = me.split(me.rank() / 2, me.rank());                                                   //  2
  Rank across = me.split(me.rank() % 2, me.rank());                                                 //  3
  Rank comm = me.stream("comm");                                                                    //  4
  Slice theirs = me.allocate(mine.size(), mine.dtype(), Category::buffer);                          //  5
  pair.exchange({send(1 - pair.rank(), mine), receive(1 - pair.rank(), theirs)});                   //  6
  add(me, mine, theirs);                                                                            //  7
  Ticket swap = across.start({send(1 - across.rank(), mine), receive(1 - across.rank(), theirs)});  //  8
  Ticket work = me.run(comm, [=](Rank stream) { scale(stream, other_work, 2); });                   //  9
  across.wait(swap);                                                                                // 10
  me.wait(work);                                                                                    // 11
  add(me, mine, theirs);                                                                            // 12
}

TEST(ApiPage, TwelveLinesSumFourRanks) {
  NEED_RANKS(4);
  const Outcome outcome = run_on(4, [](Rank me) {
    Slice mine = filled(me, 3, static_cast<float>(1 << me.rank())), other_work = filled(me, 1, 21);
    sum_of_four(me, mine, other_work);
    return Values{first(me, mine), first(me, other_work)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, (Values{15, 42}));
}

}  // namespace
}  // namespace lockstep
