// The table of what every rank does when nothing moves, and what it means.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace lockstep::processes {

/// Where messages keep their order: a group's, on one queue. The same number on every rank, if the program is the same.
std::uint64_t endpoint_id(std::span<const int> members, const std::string& queue);

/// What a rank has begun to exchange with a peer on a endpoint. The k-th send of one meets the k-th receive of the
/// other.
struct Begun {
  std::uint64_t endpoint = 0;
  int peer = -1;  // in the world; −1: each of the endpoint's
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
  bool operator==(const Begun&) const = default;
};

/// A transfer that has begun and not ended: the `number`-th of its kind. No later batch of its endpoint begins before
/// it has ended.
struct Unfinished {
  std::uint64_t endpoint = 0;
  int peer = -1;
  enum class Kind : int { send, receive, set_up } kind = Kind::send;
  std::uint64_t number = 0;
  std::uint64_t before = 0;  // transfers of its batch before it that are of the same kind and peer
  bool operator==(const Unfinished&) const = default;
};

/// One rank's line of the wait table.
struct Row {
  enum class State : int { no_answer, working, waiting, finished };
  State state = State::no_answer;
  int peer = -1;            // whom it waits for (in the world), if that is known
  double idle_seconds = 0;  // since anything completed
  std::uint64_t activity = 0;
  bool counted = false;                // the next two are known
  std::vector<Begun> begun;            // endpoints and peers that are left out: nothing
  std::vector<Unfinished> unfinished;  // of every endpoint that has batches
  std::string words;
};

/// The ranks that can never go on, whatever the others do: each of their endpoints waits for a transfer whose other
/// half one of them, or a rank that has finished, would have to begin. `rows` are of one moment; those that are not
/// `counted` can always go on. Empty where no rank is stuck.
std::vector<int> deadlocked(std::span<const Row> rows);

/// The rank has not moved from one row to the other.
bool same(const Row& before, const Row& now);

/// Names, in the rows of the `stuck` ranks alone, whom each waits for, and what that rank has not started.
void explain_deadlock(std::vector<Row>& rows, std::span<const int> stuck);

/// "2 ranks wait for each other in a cycle: 0 → 1 → 0.", or "rank 0 waits for rank 1, whose program has ended."; empty
/// where neither is so.
std::string who_waits(std::span<const Row> rows);

/// The headline, then a line for each rank.
std::string wait_table(const std::string& headline, std::span<const Row> rows);

/// What the rows mean when nothing has moved for `timeout_seconds`. `last_activity`, by rank, is what each counted the
/// time before.
struct Finding {
  bool silent = false;              // a rank does not answer
  Verdict verdict = Verdict::pass;  // deadlock: all wait or have ended, and nobody counts transfers, which would show
                                    // it; timeout: one is at the same thing as before, or a message does not arrive
};
Finding judge(std::span<const Row> rows, std::span<const std::uint64_t> last_activity, double timeout_seconds);

}  // namespace lockstep::processes
