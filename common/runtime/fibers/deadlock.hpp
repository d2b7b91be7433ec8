// Explains a deadlock in words: first the cycle or the missing partner, then what each rank does.
#pragma once

#include <string>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// State of one queue of one rank when no rank can make progress.
struct StuckQueue {
  enum class On { nothing, batch, closure, setup, work };  // work: it has no closure to run
  int rank = 0;                                            // world rank
  int queue = 0;                                           // 0: main
  bool ended = false;
  On on = On::nothing;
  Location where{};    // of the verb that it waits in
  std::string inside;  // context: " on queue \"comm\", in the closure run at …, batch 3"
  int needs = -1;      // index of the queue that it waits for; −1: that rank's program has ended
  int needs_rank = -1;
  std::string reason;  // "receives 16 bytes from rank 1, which has not started the send"
};

/// "DEADLOCK: 3 ranks wait for each other in a cycle: 0 → 2 → 1 → 0." and a line for each. Queues: by rank, main first.
std::string explain_deadlock(const std::vector<StuckQueue>& queues);
/// The same as data: every queue that has not ended; other queues than main only if they have a closure to run.
std::vector<TraceStuck> trace_of(const std::vector<StuckQueue>& queues);

/// `inside` of a queue other than main, with its running closure, if any.
std::string inside_queue(const std::string& queue, const Location* closure);

/// A send or a receive that was started and whose other half was not, with world ranks.
struct UnmatchedHalf {
  Transfer::Kind kind = Transfer::Kind::send;
  int from = 0, to = 0;
  int group = 0, queue = 0;
  std::uint64_t bytes = 0;
  Location where{};  // of its start
};
/// `reason` of a wait for a transfer whose other half is missing. `astray`: the peer's half, where it was started on
/// another queue, which is called `queue`; or null.
std::string waits_for_transfer(const Transfer& transfer, int peer, Location started, Location waited,
                               const UnmatchedHalf* astray, const std::string& queue);
/// Message of a run that left these sends unread: describes the first in full and counts the others.
std::string unread_messages(const std::vector<UnmatchedHalf>& unread);

}  // namespace lockstep
