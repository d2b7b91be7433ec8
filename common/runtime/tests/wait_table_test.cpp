// Deadlock detection from what each rank has begun.
#include "common/runtime/processes/wait_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep::processes {
namespace {

constexpr std::uint64_t kLane = 1, kOther = 2;

Row waits(std::vector<Unfinished> unfinished, std::vector<Begun> begun) {
  return {.state = Row::State::waiting, .counted = true, .begun = begun, .unfinished = unfinished};
}
Unfinished receives(int peer, std::uint64_t number = 1, std::uint64_t endpoint = kLane) {
  return {endpoint, peer, Unfinished::Kind::receive, number, /*before=*/0};
}
/// A rank that has begun one receive from `peer` and waits for it.
Row receives_first(int peer) { return waits({receives(peer)}, {{kLane, peer, 0, 1}}); }
Row in_state(Row::State state) { return {.state = state, .counted = true}; }

using Ranks = std::vector<int>;

TEST(WaitTable, ACycleOfReceivesIsStuck) {
  std::vector<Row> rows{receives_first(1), receives_first(2), receives_first(0)};
  const Ranks stuck = deadlocked(rows);
  EXPECT_EQ(stuck, (Ranks{0, 1, 2}));
  explain_deadlock(rows, stuck);
  EXPECT_EQ(who_waits(rows), "3 ranks wait for each other in a cycle: 0 → 1 → 2 → 0.");
  EXPECT_NE(rows[2].words.find("rank 0 has not started the send"), std::string::npos);
}

TEST(WaitTable, ALongCycleIsNamedByItsFirstRanks) {
  std::vector<Row> rows{receives_first(2), in_state(Row::State::working)};  // rank 0 waits for the cycle of 2 to 11
  for (int rank = 2; rank < 12; ++rank) rows.push_back(receives_first(rank == 11 ? 2 : rank + 1));
  const Ranks stuck = deadlocked(rows);
  explain_deadlock(rows, stuck);
  EXPECT_EQ(who_waits(rows),
            "10 ranks wait for each other in a cycle: 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → … 2 more … → 2.");
}

TEST(WaitTable, WhoWaitsForABusyRankIsNotNamed) {
  std::vector<Row> rows{receives_first(1), in_state(Row::State::working)};
  rows[0].peer = 1;
  EXPECT_EQ(who_waits(rows), "");
}

TEST(WaitTable, AMessageOnItsWayFreesAll) {
  std::vector<Row> rows{receives_first(1), receives_first(2), receives_first(0)};
  rows[0].begun.push_back({kLane, 2, 1, 0});  // rank 0 has sent what rank 2 waits for; no other rank sends
  EXPECT_EQ(deadlocked(rows), Ranks{});
  rows[2].unfinished[0].number = rows[2].begun[0].receives = 2;  // rank 2 has received it, and waits for another
  EXPECT_EQ(deadlocked(rows), (Ranks{0, 1, 2}));
}

TEST(WaitTable, WhoWaitsForABusyRankIsNotStuck) {
  for (const Row::State state : {Row::State::working, Row::State::no_answer})
    EXPECT_EQ(deadlocked(std::vector{receives_first(1), receives_first(2), in_state(state)}), Ranks{});
  Row uncounted = receives_first(0);
  uncounted.counted = false;
  EXPECT_EQ(deadlocked(std::vector{receives_first(1), uncounted}), Ranks{});
}

TEST(WaitTable, TwoOfThreeMayBeStuck) {
  EXPECT_EQ(
      deadlocked(std::vector{receives_first(2), receives_first(0), receives_first(0), in_state(Row::State::working)}),
      (Ranks{0, 1, 2}));
}

TEST(WaitTable, ARankThatHasFinishedSendsNoMore) {
  std::vector<Row> rows{receives_first(1), in_state(Row::State::finished)};
  const Ranks stuck = deadlocked(rows);
  EXPECT_EQ(stuck, Ranks{0});
  explain_deadlock(rows, stuck);
  EXPECT_EQ(who_waits(rows), "rank 0 waits for rank 1, whose program has ended.");
  rows[1].begun = {{kLane, 0, 1, 0}};  // unless it sent before it finished
  EXPECT_EQ(deadlocked(rows), Ranks{});
}

TEST(WaitTable, ALaneThatMovesMayFreeItsRank) {
  // Rank 0 waits on one endpoint. On the other, its transfer has met its other half, and rank 1 may need the next
  // batch.
  Row two_lanes = waits({receives(1), receives(2, 1, kOther)}, {{kLane, 1, 0, 1}, {kOther, 2, 0, 1}});
  Row sender = in_state(Row::State::working);
  sender.begun = {{kOther, 0, 1, 0}};
  EXPECT_EQ(deadlocked(std::vector{two_lanes, receives_first(0), sender}), Ranks{});
  sender.state = Row::State::finished;
  sender.begun.clear();
  EXPECT_EQ(deadlocked(std::vector{two_lanes, receives_first(0), sender}), (Ranks{0, 1}));
}

TEST(WaitTable, SaysWhichMessageOfABatchIsMissing) {
  // Rank 1 has received the first of two messages from rank 0, which waits for rank 1 before it sends the second.
  Unfinished second = receives(0, 2);
  second.before = 1;
  std::vector<Row> rows{waits({receives(1)}, {{kLane, 1, 1, 1}}), waits({second}, {{kLane, 0, 0, 2}})};
  const Ranks stuck = deadlocked(rows);
  EXPECT_EQ(stuck, (Ranks{0, 1}));
  explain_deadlock(rows, stuck);
  EXPECT_EQ(rows[0].words, " (rank 1 has not started the send)");
  EXPECT_EQ(rows[1].words, " (rank 0 has not started the send: message 2 of this batch from it)");
}

TEST(WaitTable, HalvesOnTwoQueuesDoNotMatch) {
  const Unfinished send{kOther, 0, Unfinished::Kind::send, 1, /*before=*/0};
  std::vector<Row> rows{receives_first(1), waits({send}, {{kOther, 0, 1, 0}})};
  const Ranks stuck = deadlocked(rows);
  EXPECT_EQ(stuck, (Ranks{0, 1}));
  explain_deadlock(rows, stuck);
  const std::string end = " on another queue or in another group: only halves on one queue match)";
  EXPECT_EQ(rows[0].words, " (rank 1 has started the send" + end);
  EXPECT_EQ(rows[1].words, " (rank 0 has started the receive" + end);
  std::vector<Row> buffered{receives_first(1), in_state(Row::State::finished)};
  buffered[1].begun = {{kOther, 0, 1, 0}};
  explain_deadlock(buffered, deadlocked(buffered));
  EXPECT_EQ(buffered[0].words, " (rank 1 has started the send" + end) << "MPI has buffered it";
  rows[0].words.clear();
  rows[1].unfinished.push_back(receives(0, 1, /*endpoint=*/3));  // rank 1 may send once that has arrived
  explain_deadlock(rows, stuck);
  EXPECT_EQ(rows[0].words, " (rank 1 has not started the send)");
}

TEST(WaitTable, ASetUpCallThatARankNeverMakes) {
  const Unfinished call{kLane, 1, Unfinished::Kind::set_up, 2, /*before=*/0};
  Row calls = waits({call}, {{kLane, -1, 2, 2}}), other = receives_first(0);
  other.begun.push_back({kLane, -1, 1, 1});
  other.begun[0].endpoint = other.unfinished[0].endpoint = kOther;
  EXPECT_EQ(deadlocked(std::vector{calls, other}), (Ranks{0, 1}));
  other.begun[1] = {kLane, -1, 2, 2};
  EXPECT_EQ(deadlocked(std::vector{calls, other}), Ranks{});
}

}  // namespace
}  // namespace lockstep::processes
