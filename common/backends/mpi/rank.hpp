// One rank over MPI: the verbs of common/runtime/backend.hpp for one process.
//
// Main is the thread that called run(). Each other queue has a thread, and one more makes progress while all of them
// compute. Batches move on endpoints (endpoint.hpp), failures and wait tables separately (control.hpp).
#pragma once

#include <condition_variable>
#include <memory>
#include <thread>

#include "common/backends/mpi/control.hpp"
#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/job.hpp"
#include "common/backends/mpi/memory.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/runtime/device.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/processes/rank_core.hpp"

namespace lockstep::mpi {

using processes::Doing;
using processes::Group;
using processes::SetUp;

class MpiRank final : public processes::RankCore<Endpoint> {
 public:
  explicit MpiRank(std::unique_ptr<Job> job);
  ~MpiRank() override;
  /// Call after the outcome: ends the threads and frees this rank's part of the job. Slices may still return memory.
  void shut_down();

  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;

  /// Passes the communicator of this run's ranks to `f`, which has MPI to itself meanwhile, for uses outside the
  /// contract, such as a library's own collective. Main only. Throws Error(usage) if a batch of this rank is in flight,
  /// since none moves until `f` returns. A collective in `f` cannot be cancelled: if a rank fails before it joins, the
  /// job ends after options.timeout_seconds with that rank's message.
  template <class F>
  void with_world(F f, Location where = Location::current()) {
    if (!enter(0, where)) return;
    std::lock_guard gate(job_.gate);
    if (job_.outstanding.load() > 0) usage_error("with_world: wait for every batch first", where);
    f(job_.comm);
  }

  /// Collective, after every rank's program: agrees on failures, finds unread messages and cleans up communicators.
  void finish();

 private:
  void begin_program() override;
  void end_program() override { end_seconds_ = job_.clock.now(); }
  bool closures_have_threads() const override { return true; }
  bool memory_has_times() const override { return true; }
  void wait_for_batch(Queue& queue, Endpoint& endpoint, Ticket ticket, Location where) override;
  void go_on_after(Queue& queue, Ticket closure, double began, Location where) override;
  std::vector<SetUp> all_calls(const Group& group, const SetUp& mine, Location where) override;
  std::unique_ptr<Endpoint> connect(const Group& group, int queue, Location where) override;
  std::unique_ptr<Endpoint> connect_split(const Group& parent, const SetUp& mine, const Group* made,
                                          Location where) override;
  void* take_memory(Queue& queue, std::size_t bytes, Category category, Location where) override;
  void give_memory(const Block& block) override;
  std::vector<std::string> gather(const char* what, const std::string& mine, bool for_all) override;

  // Waiting.
  /// Advances all endpoints until done(), called with the gate held. False if the run has failed and the caller is
  /// already unwinding. `not_before` is the earliest time at which it can happen (modelled seconds), or 0.
  template <class Done, class NotBefore>
  bool poll_until(Queue& queue, const Doing& doing, Done done, NotBefore not_before);
  void advance_endpoints();
  bool sleep_for_link(double until);
  /// Begin, for the ledgers, of a verb called at `now`. While emulating, this is the modelled time from which its
  /// modelled duration counts, unless the host was still busy with the verb before.
  double begin_of(const Queue& queue, double now) const {
    return job_.emulate() ? std::min(now, std::max(queue.clock, queue.last_end)) : now;
  }
  double end_of(Queue& queue) const { return queue.last_end = job_.clock.now(); }

  /// Call before an operation: lets messages move while it runs or, if it is short, moves them now.
  void keep_messages_moving(const Operation& operation);

  // Emulation.
  void pass_modelled_time(Queue& queue, double seconds);

  // Set-up.
  void withdraw_set_up();
  /// Adds the set-up calls, and those that other ranks have not made yet, to `row`; true if there are any. Gate held.
  bool count_set_ups(Row& row);
  bool set_up_abandoned();
  MPI_Comm comm_of(const Group& group) const { return endpoint(group.index, 0).comm(); }

  // The end.
  void clean_up(bool failed);
  void barrier(const std::function<bool()>& before, const std::function<void()>& meanwhile);

  // The progress thread.
  void make_progress();
  void wake_progress();
  Row describe_me();

  static constexpr std::chrono::microseconds kFirstNap{50}, kLongestNap{200};  // of the progress thread

  struct PendingSetUp;  // a set-up call of main that MPI is working on
  std::unique_ptr<PendingSetUp> set_up_;
  MPI_Comm control_comm_ = MPI_COMM_NULL;
  std::unique_ptr<Control> control_;

  std::mutex memory_mutex_;
  std::unique_ptr<Device> device_;
  Heap heap_;

  // Main's current operation, while emulating; arithmetic of other queues extends it.
  std::mutex operation_mutex_;
  double operation_begin_ = 0;
  double operation_end_ = -1;

  double end_seconds_ = 0;
  std::thread progress_;
  std::mutex progress_mutex_;
  std::condition_variable progress_wake_;
  std::atomic<bool> progress_dormant_{true};
  bool progress_stop_ = false;
  std::atomic<bool> over_{false};  // every rank has finished: no more failures
};

template <class Done, class NotBefore>
bool MpiRank::poll_until(Queue& queue, const Doing& doing, Done done, NotBefore not_before) {
  Backoff backoff;
  bool noted = false;
  bool found = false;
  job_.polling.fetch_add(1, std::memory_order_relaxed);
  while (!found && !job_.failed.load(std::memory_order_relaxed)) {
    double later = 0;
    if (job_.gate.try_lock()) {
      std::lock_guard gate(job_.gate, std::adopt_lock);
      advance_endpoints();
      found = done();
      later = not_before();
    }
    if (found) break;
    const bool slept = later > 0 ? sleep_for_link(later) : backoff.rest(job_.spin_policy());
    if (!slept || noted) continue;
    noted = true;
    queue.set_doing(doing);
    job_.working.fetch_sub(1);
  }
  job_.polling.fetch_sub(1, std::memory_order_relaxed);
  if (noted) {
    job_.working.fetch_add(1);
    queue.set_doing({.kind = Doing::Kind::own_code, .where = doing.where});
  }
  if (!found) unwind();
  return found;
}

}  // namespace lockstep::mpi
