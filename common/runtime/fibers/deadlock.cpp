#include "common/runtime/fibers/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/runtime/wait_chain.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep {

namespace {

std::vector<Waiting> waiting(const std::vector<StuckQueue>& queues) {
  std::vector<Waiting> all;
  for (const StuckQueue& queue : queues)
    all.push_back({queue.rank, queue.needs, queue.needs_rank, queue.queue == 0 && !queue.ended});
  return all;
}

class Explanation {
 public:
  explicit Explanation(const std::vector<StuckQueue>& queues) : queues_(queues) {}

  std::string text() const {
    const std::vector<Waiting> all = waiting(queues_);
    const std::vector<int> chain = find_chain(all);
    const std::string who = who_waits(all, chain);
    std::string text = "DEADLOCK: " + (who.empty() ? "no rank can make progress." : who);
    for (std::size_t i = 0; i < chain.size() && i < kMostLinks; ++i) text += "\n  " + line(queues_[chain[i]]);
    return text + others(chain);
  }

 private:
  static std::string line(const StuckQueue& queue) {
    return fmt::format("rank {} waits at {}{}: {}", queue.rank, describe(queue.where), queue.inside,
                       queue.reason.empty() ? "waits" : queue.reason);
  }

  /// All other queues, with equal ones grouped.
  std::string others(const std::vector<int>& chain) const {
    const std::set<int> told(chain.begin(), chain.begin() + std::min(chain.size(), kMostLinks));
    std::map<std::string, std::vector<int>> alike;
    for (int i = 0; i < static_cast<int>(queues_.size()); ++i) {
      const StuckQueue& queue = queues_[i];
      if (told.count(i)) continue;
      if (queue.ended && queue.queue == 0)
        alike["ended"].push_back(queue.rank);
      else if (queue.on != StuckQueue::On::nothing && queue.on != StuckQueue::On::work)
        alike[fmt::format("at {}", describe(queue.where))].push_back(queue.rank);
    }
    std::string text;
    for (const auto& [what, ranks] : alike) {
      const bool one = ranks.size() == 1;
      const char* verb = what == "ended" ? (one ? "has" : "have") : (one ? "waits" : "wait");
      text += fmt::format("\n  {} other{} {} {}: rank{} ", ranks.size(), one ? "" : "s", verb, what, one ? "" : "s");
      for (std::size_t i = 0; i < ranks.size() && i < kMostLinks; ++i)
        text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
      if (ranks.size() > kMostLinks) text += ", …";
    }
    return text;
  }

  const std::vector<StuckQueue>& queues_;
};

}  // namespace

std::string explain_deadlock(const std::vector<StuckQueue>& queues) { return Explanation(queues).text(); }

std::vector<TraceStuck> trace_of(const std::vector<StuckQueue>& queues) {
  const std::vector<int> chain = find_chain(waiting(queues));
  std::vector<TraceStuck> stuck;
  for (int i = 0; i < static_cast<int>(queues.size()); ++i) {
    const StuckQueue& q = queues[static_cast<std::size_t>(i)];
    if (q.ended || q.on == StuckQueue::On::nothing || q.on == StuckQueue::On::work) continue;
    const auto link = std::find(chain.begin(), chain.end(), i);
    stuck.push_back({.rank = q.rank,
                     .queue = q.queue,
                     .needs_rank = q.needs_rank,
                     .needs_queue = q.needs < 0 ? -1 : queues[static_cast<std::size_t>(q.needs)].queue,
                     .link = link == chain.end() ? -1 : static_cast<int>(link - chain.begin()),
                     .where = describe(q.where),
                     .reason = q.reason});
  }
  return stuck;
}

std::string unread_messages(const std::vector<UnmatchedHalf>& unread) {
  const UnmatchedHalf& first = unread.front();
  const std::size_t more = unread.size() - 1;
  return fmt::format("UNREAD: rank {} sent {} to rank {}, which ended without receiving it (sent at {}){}.", first.from,
                     counted(first.bytes, "byte"), first.to, describe(first.where),
                     more > 0 ? fmt::format(" (and {} like it)", counted(more, "more message")) : "");
}

std::string inside_queue(const std::string& queue, const Location* closure) {
  std::string text = fmt::format(" on queue \"{}\"", queue);
  if (closure) text += fmt::format(", in the closure run at {}", describe(*closure));
  return text;
}

std::string waits_for_transfer(const Transfer& transfer, int peer, Location started, Location waited,
                               const UnmatchedHalf* astray, const std::string& queue) {
  const bool sends = transfer.kind == Transfer::Kind::send;
  const char* other = sends ? "receive" : "send";
  std::string text = fmt::format("{} {} {} rank {}, which has ", sends ? "sends" : "receives",
                                 counted(transfer.slice.bytes(), "byte"), sends ? "to" : "from", peer);
  text += astray ? fmt::format("started the {} on another queue, \"{}\", at {}: only halves on one queue match", other,
                               queue, describe(astray->where))
                 : fmt::format("not started the {}", other);
  if (started.line() != waited.line()) text += fmt::format(" (started at {})", describe(started));
  return text;
}

}  // namespace lockstep
