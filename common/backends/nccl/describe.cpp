// The watching thread: gives NCCL whatever may run while no other thread does, answers the other ranks, and explains
// hangs.
#include <fmt/format.h>

#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

void NcclRank::keep_watch() {
  using namespace std::chrono_literals;
  (void)cudaSetDevice(job_.gpu);  // per thread
  while (!stop_watching_) {
    const std::uint64_t seen = job_.control.news();
    try {
      if (!job_.failed && !over_) {
        std::lock_guard gate(job_.gate);
        if (!job_.failed) advance_endpoints();  // after a failure main aborts the communicators
        for (Endpoint* each : all_endpoints_) {
          if (job_.failed) break;
          (void)each->completed();
          each->look_for_errors();
        }
      }
      if (!job_.failed && !over_) job_.tell_times();
    } catch (const Unwind&) {
    } catch (const Error& error) {
      job_.fail(error.verdict(), fmt::format("rank {} on {}: {}", job_.rank, job_.host, error.what()));
    }
    if (over_)
      watch_.tell_failure();
    else
      watch_.look();
    job_.control.wait_for_news(seen, 1ms);
  }
}

/// Adds the transfers that the GPU is stuck in, if any; gate held.
void NcclRank::describe_gpu(Row& row) const {
  row.state = Row::State::working;
  for (Endpoint* each : all_endpoints_) {
    const processes::Outstanding outstanding = each->outstanding();
    if (outstanding.number == 0 || outstanding.computing) continue;
    row.words +=
        fmt::format("{}queue \"{}\" {}{}", row.state == Row::State::waiting ? "; " : ": ", queues_[each->queue()]->name,
                    at("transfers since", outstanding.where), format_outstanding(*each, outstanding));
    row.state = Row::State::waiting;
    if (row.peer < 0) row.peer = outstanding.peer;
  }
  if (row.state == Row::State::working) row.words += unfinished_arithmetic();
}

/// Operations of this rank that the GPU has not done, as the end of "waits for the GPU".
std::string NcclRank::unfinished_arithmetic() const {
  std::string text;
  for (int index = 0; index < queue_count_; ++index) {
    Queue& queue = *queues_[index];
    std::lock_guard lock(queue.backlog_mutex);
    (void)queue.backlog.look(job_.events, queue.stream.get());
    const std::string left = queue.backlog.words();
    if (left.empty()) continue;
    text += fmt::format("{} on queue \"{}\" is not done with {}", text.empty() ? ", which" : ", and", queue.name, left);
  }
  return text.empty() ? ", which has no arithmetic left and copies still" : text;
}

}  // namespace lockstep::nccl
