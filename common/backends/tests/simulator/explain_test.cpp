// The simulator's explanations of deadlocks, mismatches, unread messages and misuse.
#include <algorithm>
#include <limits>

#include "common/backends/tests/simulator/expect.hpp"

namespace lockstep {
namespace {

using namespace simulator_tests;

// Deadlocks -----------------------------------------------------------------------------------------------------------

TEST(Deadlock, NamesTheCycle) {
  expect(ranks(3), receive_first, Verdict::deadlock,
         {"3 ranks wait for each other in a cycle: 0 → 1 → 2 → 0", "rank 0 waits at expect.hpp:", "(receive_first)",
          "receives 64 bytes from rank 1, which has not started the send"});
}

TEST(Deadlock, CountsTheMessagesOfABatchThatHaveTheSamePeer) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me), y = buffer(me);
           if (me.rank() == 0) {
             me.exchange({send(1, x)});
             me.exchange({receive(1, x)});
           } else {
             me.exchange({receive(0, x), receive(0, y)});
           }
         },
         Verdict::deadlock,
         {"receives 64 bytes from rank 0, which has not started the send (message 2 of this batch from it)"});
}

TEST(Deadlock, OfAThousandRanksIsShort) {
  const Outcome outcome = run(ranks(1024), receive_first);
  EXPECT_EQ(outcome.verdict, Verdict::deadlock);
  EXPECT_EQ(outcome.message.rfind("DEADLOCK: 1024 ranks wait for each other in a cycle: 0 → 1 → 2", 0), 0u)
      << outcome.message;
  EXPECT_LT(std::count(outcome.message.begin(), outcome.message.end(), '\n'), 20) << outcome.message;
}

TEST(Deadlock, NamesAMissingPartner) {
  expect(ranks(4),
         [](Rank me) {
           Slice x = buffer(me);
           if (me.rank() == 2) return;
           if (me.rank() == 3) me.exchange({receive(2, x)});
           if (me.rank() < 2) me.exchange({receive(3, x)});
         },
         Verdict::deadlock,
         {"rank 3 waits for rank 2, whose program has ended", "\n  1 other has ended: rank 2",
          "\n  2 others wait at explain_test.cpp:"});
}

TEST(Deadlock, SaysWhoElseHasEnded) {
  expect(ranks(3),
         [](Rank me) {
           if (me.rank() == 0) me.exchange({receive(1, buffer(me))});
         },
         Verdict::deadlock, {"rank 0 waits for rank 1", "\n  2 others have ended: ranks 1, 2"});
}

TEST(Deadlock, InAClosureNamesItsQueueAndItsRun) {
  expect(ranks(2),
         [](Rank me) {
           Rank comm = me.stream("comm");
           Slice x = buffer(me);
           Ticket t = me.run(comm, [x](Rank queue) { queue.exchange({receive(1 - queue.rank(), x)}); });
           me.wait(t);
         },
         Verdict::deadlock, {"cycle", "on queue \"comm\", in the closure run at explain_test.cpp:"});
}

/// Rank 0 uses main where rank 1 uses "comm"; `half` is the transfer of a rank.
void on_two_queues(Rank me, const std::function<Transfer(Rank)>& half) {
  Rank comm = me.stream("comm");
  if (me.rank() == 0) return me.exchange({half(me)});
  me.wait(me.run(comm, [half](Rank queue) { queue.exchange({half(queue)}); }));
}

TEST(Deadlock, ASendAndItsReceiveOnTwoQueuesAreNamedAsThat) {
  RunOptions options = ranks(2);
  options.machine.eager_bytes = 0;
  const auto from = [](int sender) {
    return [sender](Rank me) {
      on_two_queues(me, [sender](Rank queue) {
        return queue.rank() == sender ? send(1 - sender, buffer(queue)) : receive(sender, buffer(queue));
      });
    };
  };
  expect(options, from(0), Verdict::deadlock,
         {"sends 64 bytes to rank 1, which has started the receive on another queue, \"comm\", at explain_test.cpp:",
          "receives 64 bytes from rank 0, which has started the send on another queue, \"main\", at explain_test.cpp:",
          "only halves on one queue match"});
  expect(options, from(1), Verdict::deadlock,
         {"receives 64 bytes from rank 1, which has started the send on another queue, \"comm\", at explain_test.cpp:",
          "sends 64 bytes to rank 0, which has started the receive on another queue, \"main\", at explain_test.cpp:"});
}

TEST(Deadlock, ABufferedSendOnAnotherQueueIsNamed) {
  expect(ranks(2),
         [](Rank me) {
           on_two_queues(
               me, [](Rank queue) { return queue.rank() == 0 ? send(1, buffer(queue)) : receive(0, buffer(queue)); });
         },
         Verdict::deadlock, {"receives 64 bytes from rank 0, which has started the send on another queue, \"main\""});
}

TEST(Deadlock, AHalfForAnotherMessageIsNotTakenForTheMissingOne) {
  RunOptions options = ranks(2);
  options.machine.eager_bytes = 0;
  const auto program = [](Rank me) {  // each waits for its own send, while a receive for later is posted
    const Rank down = me.stream("down"), up = me.stream("up"), later = me.stream("later");
    const Rank there = me.rank() == 0 ? down : up, back = me.rank() == 0 ? up : down;
    const int other = 1 - me.rank();
    Slice x = buffer(me), y = buffer(me), z = buffer(me);
    Ticket early = me.run(later, [=](Rank queue) { queue.exchange({receive(other, y)}); });
    me.wait(me.run(there, [=](Rank queue) { queue.exchange({send(other, x)}); }));
    me.wait(me.run(back, [=](Rank queue) { queue.exchange({receive(other, z)}); }));
    me.wait(early);
  };
  const Outcome outcome = run(options, program);
  EXPECT_NE(outcome.message.find("sends 64 bytes to rank 1, which has not started the receive"), std::string::npos)
      << outcome.message;
  EXPECT_EQ(outcome.message.find("another queue"), std::string::npos) << outcome.message;
}

TEST(Deadlock, OfSetUpNamesTheCall) {
  expect(ranks(3),
         [](Rank me) {
           if (me.rank() != 1) (void)me.stream("comm");
         },
         Verdict::deadlock, {"waits for rank 1, whose program has ended", "set-up call 1 (stream(\"comm\"))"});
}

TEST(Deadlock, NamesTheRegion) {
  expect(ranks(2),
         [](Rank me) {
           Scope scope = me.region("my_collective", 64);
           me.exchange({receive(1 - me.rank(), buffer(me))});
         },
         Verdict::deadlock, {"in region \"my_collective\""});
}

TEST(Deadlock, AnEarlierEagerMessageDoesNotHideTheSendThatWaits) {
  // The small message has left and is unread; the large one reuses the same TransferBatch.
  RunOptions options = ranks(2);
  options.machine.eager_bytes = 64;
  expect(options,
         [](Rank me) {
           if (me.rank() == 0) {
             me.exchange({send(1, buffer(me, 16))});
             me.exchange({send(1, buffer(me, 17))});
           } else {
             me.exchange({send(0, buffer(me, 17))});
           }
         },
         Verdict::deadlock, {"cycle: 0 → 1 → 0", "sends 68 bytes to rank 1, which has not started the receive"});
}

TEST(Deadlock, OfARingThatReceivesFromTheNextRankSaysWhatTheNextOneDoes) {
  RunOptions options = ranks(3);
  options.machine.eager_bytes = 0;
  expect(options,
         [](Rank me) {
           const int next = (me.rank() + 1) % 3;
           me.exchange({send(next, buffer(me)), receive(next, buffer(me))});
         },
         Verdict::deadlock, {"receive; there it sends to rank 2 and receives from rank 2: is a peer wrong?"});
}

// Mismatches and unread messages --------------------------------------------------------------------------------------

TEST(Mismatch, OfSizesNamesBothSides) {
  expect(ranks(2),
         [](Rank me) {
           if (me.rank() == 0) me.exchange({send(1, buffer(me, 12))});
           if (me.rank() == 1) me.exchange({receive(0, buffer(me, 8))});
         },
         Verdict::mismatch,
         {"the size", "rank 0 sends 12 fp32", "rank 1 receives 8 fp32", "explain_test.cpp",
          "different parts of the array"});
}

TEST(Mismatch, OfSizesSaysWhichWayTheMessageGoes) {
  const auto shift = [](int by) {
    return [by](Rank me) {
      const int p = me.size(), r = me.rank();
      me.exchange({send((r + by + p) % p, buffer(me, 12)), receive((r - by + p) % p, buffer(me, r == 0 ? 8 : 12))});
    };
  };
  expect(ranks(4), shift(1), Verdict::mismatch, {"rank 3 sends 12 fp32", "It goes from a rank to its next one"});
  expect(ranks(4), shift(-1), Verdict::mismatch,
         {"rank 1 sends 12 fp32", "It goes from a rank to its previous one", "next and previous are swapped"});
}

TEST(Mismatch, NamesTheRegionsAroundTheMessageAndWhereTheyWereOpened) {
  expect(ranks(2),
         [](Rank me) {
           Scope all = me.region("my_collective", 64);
           Scope part =
               me.region(me.rank() == 0 ? "bucket 1 of 2" : "bucket 2 of 2", kPhase, Location());  // another file
           if (me.rank() == 0) me.exchange({send(1, buffer(me, 12))});
           if (me.rank() == 1) me.exchange({receive(0, buffer(me, 8))});
         },
         Verdict::mismatch,
         {"in region \"bucket 1 of 2\", opened at", "in region \"bucket 2 of 2\", opened at",
          "in region \"my_collective\", opened at explain_test.cpp:"});
}

TEST(Mismatch, OfElementTypes) {
  expect(ranks(2),
         [](Rank me) {
           if (me.rank() == 0) me.exchange({send(1, buffer(me, 8))});
           if (me.rank() == 1) me.exchange({receive(0, me.allocate(8, DType::i32, Category::buffer))});
         },
         Verdict::mismatch, {"the element type", "sends 8 fp32", "receives 8 int32"});
}

TEST(Mismatch, OfCollectives) {
  expect(ranks(2),
         [](Rank me) {
           Scope scope = me.region(me.rank() == 0 ? "broadcast" : "all_reduce", 64);
           if (me.rank() == 0) me.exchange({send(1, buffer(me))});
           if (me.rank() == 1) me.exchange({receive(0, buffer(me))});
         },
         Verdict::mismatch, {"the collective", "\"broadcast\"", "\"all_reduce\""});
}

TEST(Mismatch, FoundWhileMessagesAreGranted) {
  // The empty message takes no time, so the second batch begins, and mismatches, at the same instant.
  expect(ranks(2),
         [](Rank me) {
           if (me.rank() == 0) {
             me.start({send(1, buffer(me, 0))});
             me.wait(me.start({send(1, buffer(me, 12))}));
           } else {
             me.exchange({receive(0, buffer(me, 0)), receive(0, buffer(me, 8))});
           }
         },
         Verdict::mismatch, {"the size", "rank 0 sends 12 fp32", "rank 1 receives 8 fp32"});
}

TEST(Mismatch, PhasesMayDiffer) {
  expect(ranks(2),
         [](Rank me) {
           Scope scope = me.region(me.rank() == 0 ? "forward" : "backward");
           if (me.rank() == 0) me.exchange({send(1, buffer(me))});
           if (me.rank() == 1) me.exchange({receive(0, buffer(me))});
         },
         Verdict::pass, {});
}

TEST(Mismatch, OfSetUpCalls) {
  expect(ranks(2),
         [](Rank me) {
           if (me.rank() == 0) (void)me.stream("comm");
           if (me.rank() == 1) (void)me.split(0, 0);
         },
         Verdict::mismatch, {"set-up call 1", "stream(\"comm\")", "split", "rank 0", "rank 1"});
}

TEST(Unread, IsNamed) {
  expect(ranks(3),
         [](Rank me) {
           if (me.rank() != 2) me.exchange({send(2, buffer(me))});
         },
         Verdict::unread, {"rank 0 sent 64 bytes to rank 2, which ended without receiving", "1 more"});
}

// Misuse --------------------------------------------------------------------------------------------------------------

TEST(Usage, ForgottenTransfersAndClosures) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           if (me.rank() == 0) me.start({send(1, x)});
           if (me.rank() == 1) me.exchange({receive(0, x)});
         },
         Verdict::usage, {"rank 0: USAGE", "without waiting for the transfers started here"});
  expect(ranks(1), [](Rank me) { me.run(me.stream("other"), [](Rank) {}); }, Verdict::usage,
         {"without waiting for the closure"});
}

TEST(Usage, RanksOfTheWrongQueue) {
  expect(ranks(1),
         [](Rank me) {
           Rank other = me.stream("other");
           fill(other, buffer(me), 1);
         },
         Verdict::usage, {"the Rank of queue \"other\" was used outside its closure"});
  expect(ranks(1),
         [](Rank me) {
           Rank other = me.stream("other");
           Slice x = buffer(me);
           me.wait(me.run(other, [me, x](Rank) { fill(me, x, 1); }));
         },
         Verdict::usage, {"main's Rank was used inside a closure on queue \"other\""});
}

TEST(Usage, ARegionOfTheWrongQueue) {
  expect(ranks(1),
         [](Rank me) {
           Rank other = me.stream("other");
           me.wait(me.run(other, [me](Rank) mutable { Scope scope = me.region("all_reduce", 64); }));
         },
         Verdict::usage, {"main's Rank was used inside a closure on queue \"other\""});
}

TEST(Usage, PeersAndSlices) {
  expect(ranks(2), [](Rank me) { me.exchange({send(2, buffer(me))}); }, Verdict::usage,
         {"send to rank 2, but the ranks of this group are 0 to 1"});
  expect(ranks(2), [](Rank me) { me.exchange({receive(-1, buffer(me))}); }, Verdict::usage,
         {"receive from rank -1", "add p first"});
  expect(ranks(2), [](Rank me) { me.exchange({send(me.rank(), buffer(me))}); }, Verdict::usage,
         {"leave that transfer out, or use copy. Or is the peer wrong?"});
  expect(ranks(1), [](Rank me) { (void)buffer(me).cut(10, 7); }, Verdict::usage, {"cut(10, 7)", "16 elements"});
}

TEST(Usage, APeerInAClosureMayBeAVariableThatIsGone) {
  expect(ranks(2),
         [](Rank me) {
           me.wait(me.run(me.stream("comm"), [](Rank queue) { queue.exchange({receive(-1, buffer(queue))}); }));
         },
         Verdict::usage,
         {"the ranks of this group are 0 to 1 (in C++", "add p first). −1 is no rank", "Does this closure capture by"});
}

TEST(Usage, TheEndsOfAPipelineHaveNoNeighbourOnOneSide) {
  expect(ranks(1),
         [](Rank me) {
           me.wait(me.run(me.stream("comm"), [](Rank queue) { queue.exchange({send(-1, buffer(queue))}); }));
         },
         Verdict::usage, {"−1 is no rank: the ends of a pipeline have no neighbour on one side. Does this closure"});
}

TEST(Usage, AGroupWithoutRanksSaysSo) {
  for (const bool is_set : {false, true})
    expect(ranks(2),
           [is_set](Rank me) {
             Rank none = is_set ? me.split(-1, 0) : Rank();
             none.exchange({send(1, buffer(me))});
           },
           Verdict::usage,
           {is_set ? "send to rank 1, but this group has no ranks: it was split off with a negative colour"
                   : "send to rank 1, but this group has no ranks: it was never set"});
}

TEST(Usage, ARankThatWasNeverSetSaysSo) {
  const std::function<void(Rank)> uses[] = {
      [](Rank none) { (void)none.split(0, 0); }, [](Rank none) { (void)none.stream("comm"); },
      [](Rank none) { (void)buffer(none); }, [](Rank none) { Scope scope = none.region("all_reduce", 64); }};
  for (const auto& use : uses)
    expect(ranks(2), [use](Rank) { use(Rank()); }, Verdict::usage, {"this Rank was never set"});
}

TEST(Usage, APeerThatNoRemainderGivesHasNoHintOnRemainders) {
  for (const int peer : {-2, std::numeric_limits<int>::min()}) {
    const Outcome outcome = run(ranks(2), [peer](Rank me) { me.exchange({receive(peer, buffer(me))}); });
    EXPECT_NE(outcome.message.find("the ranks of this group are 0 to 1"), std::string::npos) << outcome.message;
    EXPECT_EQ(outcome.message.find("add p first"), std::string::npos) << outcome.message;
  }
}

TEST(Usage, ScratchOfAClosureDiesInside) {
  Slice kept;
  expect(ranks(1),
         [&](Rank me) {
           Rank other = me.stream("other");
           me.wait(me.run(other, [&kept](Rank queue) { kept = queue.allocate(4, DType::f32, Category::buffer); }));
         },
         Verdict::usage, {"16 bytes of scratch still allocated"});
  kept = {};
}

}  // namespace
}  // namespace lockstep
