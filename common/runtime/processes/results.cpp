#include "common/runtime/processes/results.hpp"

#include <algorithm>

namespace lockstep::processes {

std::string pack(const Trace& trace, const std::vector<std::string>& queues) {
  return to_bytes(queues, trace.closures, trace.events, trace.blocks);
}

void unpack_into(Trace& trace, const std::string& bytes) {
  std::vector<std::string> queues;
  Trace mine;
  from_bytes(bytes, queues, mine.closures, mine.events, mine.blocks);
  std::vector<int> index;
  for (const std::string& name : queues) {
    const auto known = std::find(trace.queues.begin(), trace.queues.end(), name);
    index.push_back(static_cast<int>(known - trace.queues.begin()));
    if (known == trace.queues.end()) trace.queues.push_back(name);
  }
  for (TraceClosure& closure : mine.closures) closure.queue = index[closure.queue];
  for (TraceEvent& event : mine.events) event.queue = index[event.queue];
  append(trace, std::move(mine));
}

}  // namespace lockstep::processes
