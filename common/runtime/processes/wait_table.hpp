// The wait table: what every rank is doing when nothing moves, and the conclusion from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace lockstep::processes {

/// Identifies an endpoint, that is, a group on one queue, where messages keep their order. Equal on all ranks if they
/// run the same program.
std::uint64_t endpoint_id(std::span<const int> members, const std::string& queue);

/// Transfers begun with a peer on an endpoint. The k-th send of one meets the k-th receive of the other.
struct Begun {
  std::uint64_t endpoint = 0;
  int peer = -1;  // world rank; −1: every peer of the endpoint
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
  std::uint64_t before = 0;  // earlier transfers of its batch with the same kind and peer
  bool operator==(const Unfinished&) const = default;
};

/// One rank's line of the wait table.
struct Row {
  enum class State : int { no_answer, working, waiting, finished };
  State state = State::no_answer;
  int peer = -1;            // world rank that it waits for, if known
  double idle_seconds = 0;  // since its last completion
  std::uint64_t activity = 0;
  bool counted = false;                // the next two are known
  std::vector<Begun> begun;            // missing endpoints and peers have begun nothing
  std::vector<Unfinished> unfinished;  // of every endpoint with batches
  std::string words;
};

/// Ranks that can never make progress, whatever the others do: each of their endpoints waits for a transfer whose other
/// half would have to be begun by one of them, or by a rank that has finished. `rows` must be from one moment; ranks
/// that are not `counted` never count as stuck. Empty if no rank is stuck.
std::vector<int> deadlocked(std::span<const Row> rows);

/// True if the rank has not moved between the two rows.
bool same(const Row& before, const Row& now);

/// Fills in, only for the `stuck` ranks, whom each waits for and what that rank has not started.
void explain_deadlock(std::vector<Row>& rows, std::span<const int> stuck);

/// The cause of the deadlock, as wait_chain.hpp words it; "" if no rank is stuck.
std::string who_waits(std::span<const Row> rows);

/// The headline, then a line for each rank.
std::string wait_table(const std::string& headline, std::span<const Row> rows);

/// Conclusion from the rows when nothing has moved for `timeout_seconds`. `last_activity` holds each rank's activity
/// count at the previous round.
struct Finding {
  bool silent = false;              // a rank does not answer
  Verdict verdict = Verdict::pass;  // deadlock: all wait or have ended, and none counts transfers, which would show
                                    // it; timeout: a rank does the same as before, or a message does not arrive
};
Finding judge(std::span<const Row> rows, std::span<const std::uint64_t> last_activity, double timeout_seconds);

}  // namespace lockstep::processes
