// The watching thread: gives NCCL what may go while nobody waits, answers the other ranks, and says what hangs.
#include <fmt/format.h>

#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

void NcclRank::keep_watch() {
  using namespace std::chrono_literals;
  (void)cudaSetDevice(job_->gpu);  // each thread has its own
  while (!stop_watching_) {
    const std::uint64_t seen = job_->control.news();
    try {
      if (!job_->failed && !over_) {
        std::lock_guard gate(job_->gate);
        advance_endpoints();
        for (Endpoint* each : all_endpoints_) {
          (void)each->completed();
          each->look_for_errors();
        }
      }
      if (!job_->failed && !over_) job_->tell_times();
    } catch (const Unwind&) {
    } catch (const Error& error) {
      job_->fail(error.verdict(), fmt::format("rank {} on {}: {}", job_->rank, job_->host, error.what()));
    }
    if (over_)
      watch_.tell_failure();
    else
      watch_.look();
    job_->control.wait_for_news(seen, 1ms);
  }
}

namespace {
std::string at(const char* verb, Location where) { return fmt::format("{} at {}", verb, describe(where)); }

std::string in_words(const Endpoint& endpoint, const Endpoint::Outstanding& outstanding) {
  std::string text = fmt::format(", batch {}", outstanding.number);
  if (endpoint.group() != 0) text += fmt::format(" of a group of {}", endpoint.members().size());
  if (outstanding.region) text += fmt::format(" in region \"{}\"", outstanding.region);
  return text + ": " + (outstanding.words.empty() ? "nothing is outstanding" : outstanding.words);
}
}  // namespace

/// Which transfers the GPU is stuck in, if it is; gate held.
void NcclRank::describe_gpu(Row& row) {
  row.state = Row::State::working;
  for (Endpoint* each : all_endpoints_) {
    const Endpoint::Outstanding outstanding = each->outstanding();
    if (outstanding.number == 0 || outstanding.computing) continue;
    row.words +=
        fmt::format("{}queue \"{}\" {}{}", row.state == Row::State::waiting ? "; " : ": ", queues_[each->queue()]->name,
                    at("transfers since", outstanding.where), in_words(*each, outstanding));
    row.state = Row::State::waiting;
    if (row.peer < 0) row.peer = outstanding.peer;
  }
  if (row.state == Row::State::working) row.words += unfinished_arithmetic();
}

/// What of this rank's operations the GPU has not done, as the end of "waits for the GPU".
std::string NcclRank::unfinished_arithmetic() {
  std::string text;
  for (int index = 0; index < queue_count_; ++index) {
    Queue& queue = *queues_[index];
    std::lock_guard lock(queue.backlog_mutex);
    (void)queue.backlog.look(job_->events, queue.stream.get());
    const std::string left = queue.backlog.words();
    if (left.empty()) continue;
    text += fmt::format("{} on queue \"{}\" is not done with {}", text.empty() ? ", which" : ", and", queue.name, left);
  }
  return text.empty() ? ", which has no arithmetic left and copies still" : text;
}

/// Of one queue; gate held.
Row NcclRank::describe_queue(Queue& queue) {
  const Doing doing = queue.doing();
  Row row;
  row.state = Row::State::working;
  switch (doing.kind) {
    case Doing::Kind::nothing: row.words = "has nothing to do"; break;
    case Doing::Kind::own_code:
      row.words = doing.where.line() == 0 ? "runs code of its own since it began"
                                          : at("runs code of its own since its call", doing.where);
      break;
    case Doing::Kind::finished:
      row.state = Row::State::finished;
      row.words = "has ended";
      break;
    case Doing::Kind::sets_up:
      row.state = Row::State::waiting;
      row.words = at("waits", doing.where) + fmt::format(": for the others to call {}", doing.operation);
      break;
    case Doing::Kind::waits_for_closure:
      row.state = Row::State::waiting;
      row.words =
          at("waits", doing.where) + fmt::format(": for its closure on queue \"{}\"", queues_[doing.queue]->name);
      break;
    case Doing::Kind::waits_for_gpu:
      row.words = doing.where.line() == 0 ? fmt::format("waits at {} for the GPU", doing.operation)
                                          : at("waits", doing.where) + " for the GPU";
      describe_gpu(row);
      break;
    case Doing::Kind::waits_for_memory:
      row.words =
          at("waits", doing.where) + fmt::format(" for the GPU, which is full, to free memory ({} bytes for {})",
                                                 doing.bytes, to_string(doing.category));
      describe_gpu(row);
      break;
    case Doing::Kind::waits_for_batch: {
      row.state = Row::State::waiting;
      row.words = at("waits", doing.where);
      if (queue.index != 0)
        row.words += fmt::format(" on queue \"{}\", in the closure run at {}", queue.name, describe(queue.running()));
      const Endpoint::Outstanding outstanding = doing.endpoint->outstanding();
      row.words += in_words(*doing.endpoint, outstanding);
      row.peer = outstanding.peer;
      break;
    }
  }
  return row;
}

/// All queues of this rank.
Row NcclRank::describe_me() {
  std::lock_guard gate(job_->gate);
  Row row = describe_queue(*queues_[0]);
  const Doing doing = queues_[0]->doing();
  for (int queue = 1; queue < queue_count_; ++queue) {
    const Row other = describe_queue(*queues_[queue]);
    if (queues_[queue]->running().line() == 0) continue;
    row.words += fmt::format("; queue \"{}\" {}", queues_[queue]->name, other.words);
    if (other.state == Row::State::working) row.state = Row::State::working;
    if (doing.kind == Doing::Kind::waits_for_closure && doing.queue == queue) row.peer = other.peer;
  }
  row.activity = job_->activity.load();
  row.idle_seconds = job_->idle_seconds();
  return row;
}

}  // namespace lockstep::nccl
