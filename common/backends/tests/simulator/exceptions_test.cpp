// Exceptions of a rank in the simulator: they end the run, unwind the other ranks, and leave nothing behind.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/backends/tests/simulator/expect.hpp"

namespace lockstep {
namespace {

using namespace simulator_tests;

TEST(Exception, OfOneRankEndsTheRun) {
  expect(ranks(1024),
         [](Rank me) {
           if (me.rank() == 700) throw std::runtime_error("the dog ate it");
           receive_first(me);
         },
         Verdict::fail, {"rank 700: an exception of type std::runtime_error was thrown: the dog ate it"});
}

TEST(Exception, OfTheLibraryNamesTheLastCall) {
  expect(ranks(2),
         [](Rank me) {
           if (me.rank() == 1) receive_first(me);
           if (me.rank() == 0) (void)buffer(me), throw std::bad_alloc();
         },
         Verdict::fail, {"rank 0: out of memory, after its call at expect.hpp:"});
}

TEST(Exception, OfAnyTypeIsNamed) {
  expect(ranks(1), [](Rank) { (void)std::vector<int>(3).at(3); }, Verdict::fail,
         {"rank 0: an exception of type std::out_of_range was thrown: vector::"});
  expect(ranks(1), [](Rank) { throw "no std::exception"; }, Verdict::fail,
         {"rank 0: an exception of type char const* was thrown"});
}

TEST(Exception, UnwindsTheOthers) {
  int destroyed = 0;
  struct Witness {
    int& count;
    ~Witness() { ++count; }
  };
  run(ranks(5), [&](Rank me) {
    Witness witness{destroyed};
    (void)me.split(0, 0);  // all have begun after this
    if (me.rank() == 3) throw std::runtime_error("no");
    receive_first(me);
  });
  EXPECT_EQ(destroyed, 5);
}

TEST(Exception, IsToldEvenIfADestructorWaits) {
  // The destructor waits for a message that never comes, because its rank is unwinding.
  struct Waits {
    Rank me;
    Ticket ticket;
    ~Waits() { me.wait(ticket); }
  };
  expect(ranks(2),
         [](Rank me) {
           Waits waits{me, me.start({receive(1 - me.rank(), buffer(me))})};
           if (me.rank() == 0) throw std::runtime_error("the real reason");
         },
         Verdict::fail, {"rank 0: ", "the real reason"});
}

TEST(Exception, HandlersOfTwoRanksMayInterleave) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           try {
             throw std::runtime_error("of rank " + std::to_string(me.rank()));
           } catch (const std::exception& error) {
             me.exchange({send(1 - me.rank(), x), receive(1 - me.rank(), buffer(me))});
             if (me.rank() == 1) me.exchange({receive(0, x)});  // until rank 0 has left its handler
             if (error.what() != "of rank " + std::to_string(me.rank())) throw std::logic_error("mixed up");
             try {
               throw;  // the one being handled
             } catch (const std::exception& again) {
               if (again.what() != "of rank " + std::to_string(me.rank())) throw std::logic_error("mixed up");
             }
           }
           if (me.rank() == 0) me.exchange({send(1, x)});
         },
         Verdict::pass, {});
}

TEST(Exception, LeavesNothingBehind) {
  std::weak_ptr<int> in_closure;
  run(ranks(2), [&](Rank me) {
    Rank comm = me.stream("comm");
    Slice x = buffer(me);
    auto witness = std::make_shared<int>(0);
    in_closure = witness;
    Ticket t = me.run(comm, [x, witness](Rank queue) { queue.exchange({receive(1 - queue.rank(), x)}); });
    witness = nullptr;
    me.wait(t);
  });
  EXPECT_TRUE(in_closure.expired()) << "what a deadlocked closure held is given back";
}

TEST(Exception, OfAClosureEndsItsRank) {
  expect(ranks(2),
         [](Rank me) {
           Rank comm = me.stream("comm");
           me.wait(me.run(comm, [](Rank queue) {
             if (queue.rank() == 1) throw std::runtime_error("in the closure");
           }));
           receive_first(me);
         },
         Verdict::fail, {"rank 1, in the closure run at exceptions_test.cpp", "on queue \"comm\"", "in the closure"});
}

}  // namespace
}  // namespace lockstep
