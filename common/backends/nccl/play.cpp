// A rank from the program's first line to the moment when all ranks know how the run ended.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <sstream>

#include "common/backends/nccl/rank.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

Values NcclRank::play(const Program& program) {
  Values values;
  auto stop = [this] { return job_->failed.load(); };
  try {
    open_world();
    // The clocks of all ranks begin together.
    if (all_gather(job_->control, {.run = job_->run, .key = key_of({}, "begin")}, job_->everyone, "", stop).empty())
      throw Unwind{};
    job_->clock = processes::Clock(processes::monotonic_ns(), 1);
    job_->gpu_clock = std::make_unique<cuda::EventClock>(job_->events.record(queues_[0]->stream.get()));
    queues_[0]->set_doing({.kind = Doing::Kind::own_code});
    values = program(handle(0, 0));
    check_all_waited();
  } catch (const Unwind&) {
  } catch (...) {
    const Caught error = caught();
    job_->fail(error.verdict, fmt::format("rank {} on {}: {}", job_->rank, job_->host, error.what));
  }
  end_program();
  return values;
}

void NcclRank::end_program() {
  try {
    if (!job_->failed) {
      end_stretch(*queues_[0]);
      ended_ = job_->events.record(queues_[0]->stream.get());
    }
  } catch (const Error& error) {
    job_->fail(error.verdict(), fmt::format("rank {}: {}", job_->rank, error.what()));
  }
  queues_[0]->set_doing({.kind = Doing::Kind::finished});
  job_->working.fetch_sub(1);
  for (int queue = 1; queue < queue_count_; ++queue) queues_[queue]->stop();
}

void NcclRank::check_all_waited() {
  if (job_->failed) throw Unwind{};
  for (int queue = 1; queue < queue_count_; ++queue)
    if (const Closure* closure = queues_[queue]->unwaited())
      usage_error(closure_not_waited_for(queues_[queue]->name), closure->where);
  std::lock_guard gate(job_->gate);
  for (Endpoint* each : all_endpoints_)
    if (const Batch* batch = each->unwaited()) usage_error(kTransfersNotWaitedFor, batch->where);
}

void NcclRank::finish() {
  // Until the last rank has played, any may still fail, or be found to wait for ever.
  agree_on_failure("played");
  if (!job_->failed) {
    find_unread();
    agree_on_failure("read");
  }
  if (!job_->failed) {
    drain();
    agree_on_failure("drained");
  }
  over_ = true;
  clean_up();
}

/// The earliest failure, on every rank.
void NcclRank::agree_on_failure(const char* when) {
  const processes::Failure mine = job_->failure();
  std::string text;
  if (mine.origin == job_->rank)
    text = fmt::format("{} {} {:.9f} {}", static_cast<int>(mine.verdict), mine.rank, mine.when, mine.message);
  const auto all = all_gather(job_->control, {.run = job_->run, .key = key_of({}, when)}, job_->everyone, text);
  processes::Failure first;
  for (int rank = 0; rank < job_->ranks; ++rank) {
    if (all[rank].empty()) continue;
    std::istringstream in(all[rank]);
    int verdict = 0;
    processes::Failure failure{.origin = rank};
    in >> verdict >> failure.rank >> failure.when;
    in.get();
    failure.verdict = static_cast<Verdict>(verdict);
    failure.message.assign(std::istreambuf_iterator<char>(in), {});
    if (first.origin < 0 || failure.when < first.when) first = failure;
  }
  if (first.origin >= 0) job_->settle(first);
}

/// Messages sent to this rank that it never received, and messages it receives that nobody sent. The GPU would wait for
/// them for ever.
void NcclRank::find_unread() {
  std::string counts;  // "endpoint peer sent": of each (group, queue) to each member
  {
    std::lock_guard gate(job_->gate);
    for (const Endpoint* each : all_endpoints_)
      for (std::size_t member = 0; member < each->members().size(); ++member)
        counts +=
            fmt::format("{} {} {}\n", each->key(), each->members()[member], each->traffic()[member].messages_sent);
  }
  const auto all = all_gather(job_->control, {.run = job_->run, .key = key_of({}, "counts")}, job_->everyone, counts,
                              [this] { return job_->failed.load(); });
  if (all.empty()) return;
  std::vector<std::map<std::uint64_t, std::uint64_t>> sent(job_->ranks);  // to me, by sender and endpoint
  for (int rank = 0; rank < job_->ranks; ++rank) {
    std::istringstream in(all[rank]);
    std::uint64_t key = 0, messages = 0;
    for (int peer = 0; in >> key >> peer >> messages;)
      if (peer == job_->rank) sent[rank][key] += messages;
  }
  std::uint64_t unread = 0;
  std::string first;
  std::lock_guard gate(job_->gate);
  for (Endpoint* each : all_endpoints_)
    for (std::size_t member = 0; member < each->members().size(); ++member) {
      const int peer = each->members()[member];
      const std::uint64_t received = each->traffic()[member].messages_received, expected = sent[peer][each->key()];
      if (received > expected)
        return job_->fail(Verdict::deadlock,
                          fmt::format("DEADLOCK: rank {} waits for rank {}, which has ended: it receives {} messages "
                                      "that were never sent",
                                      job_->rank, peer, received - expected));
      unread += expected - received;
      if (expected > received && first.empty()) {
        first = each->take_unread(static_cast<int>(member));
        if (first.empty()) first = fmt::format("rank {} sends", peer);
      }
    }
  if (unread > 0)
    job_->fail(Verdict::unread,
               fmt::format("UNREAD: {}, to rank {}, which ended without receiving it{}.", first, job_->rank,
                           unread > 1 ? fmt::format(" (and {} more messages like it)", unread - 1) : ""));
}

/// The GPU comes to its end. What is matched, but in an order that cannot be, never does: then the table says so.
void NcclRank::drain() {
  try {
    const Doing doing{.kind = Doing::Kind::waits_for_gpu, .operation = "the end of the program"};
    job_->working.fetch_add(1);
    wait_until(*queues_[0], doing, [&] {
      std::lock_guard gate(job_->gate);
      for (Endpoint* each : all_endpoints_)
        if (!each->idle()) return false;
      return ended_.done();
    });
    for (int queue = 0; queue < queue_count_; ++queue)
      if (queues_[queue]->device) queues_[queue]->device->check_indices(Location::current());
    job_->tell_times();
  } catch (const Unwind&) {
  } catch (const Error& error) {
    job_->fail(error.verdict(), fmt::format("rank {}: {}", job_->rank, error.what()));
  }
  job_->working.fetch_sub(1);
  queues_[0]->set_doing({.kind = Doing::Kind::finished});
}

/// False: it hangs. Its errors were said by whoever saw them first.
bool NcclRank::gpu_comes_to_an_end() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(job_->options.timeout_seconds + 10);
  try {
    while (!gpu_is_idle()) {
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  } catch (const Error&) {
  }
  return true;
}

/// After a failure nothing of this run is left in NCCL's hands, so that another may follow.
void NcclRank::clean_up() {
  for (int queue = 0; queue < queue_count_; ++queue) queues_[queue]->clear();
  if (!job_->failed) return;
  std::unique_lock gate(job_->gate);
  for (Endpoint* each : all_endpoints_) each->drop();
  if (!communicators_.abort(job_->ranks, job_->options.timeout_seconds + 10))
    end_job_(job_->failure().message + "\nNCCL does not come back from ncclCommAbort; the job ends.");
  gate.unlock();
  if (!gpu_comes_to_an_end())
    end_job_(job_->failure().message + "\nThe GPU does not come to an end either; the job ends.");
  for (Block* block : std::exchange(parked_, {})) {
    memory_.free(block->data, queues_[block->queue]->stream.get());
    delete block;
  }
}

}  // namespace lockstep::nccl
