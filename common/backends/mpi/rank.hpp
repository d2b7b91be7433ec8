// One rank over MPI: the verbs of common/runtime/backend.hpp for one process.
//
// Main is the thread that called run(); each other queue has a thread; one more makes progress while all of them
// compute. Batches move on endpoints (endpoint.hpp), failures and wait tables travel beside them (control.hpp).
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include "common/backends/mpi/control.hpp"
#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/job.hpp"
#include "common/backends/mpi/memory.hpp"
#include "common/backends/mpi/queue.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/device.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/processes/set_up.hpp"

namespace lockstep::mpi {

using processes::SetUp;

struct Group {
  MPI_Comm comm = MPI_COMM_NULL;  // set-up calls, and main's endpoint; null where this rank is no member
  std::vector<int> members;       // world ranks
  int rank = -1;
  int set_ups = 0;  // calls so far
};

class MpiRank final : public Backend, public BlockOwner {
 public:
  explicit MpiRank(Job& job);
  ~MpiRank() override;

  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) override;
  void wait(CommunicatorKey at, Ticket ticket, Location where) override;
  Rank split(CommunicatorKey at, int color, int key, Location where) override;
  Rank stream(CommunicatorKey at, std::string_view name, Location where) override;
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) override;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  bool fuses_gelu() const override { return false; }
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;
  int world_rank() const override { return job_.rank; }
  void release(Block& block) override;

  /// Hands the communicator of this run's ranks to `f`, which has MPI to itself meanwhile: for what stands beside the
  /// contract, such as a library's own collective. Main only. Throws Error(usage) where a batch of this rank's is on
  /// its way, since none moves until `f` returns. Where a rank fails before it comes, a collective in `f` cannot be
  /// withdrawn: after options.timeout_seconds the job ends, with that rank's words.
  template <class F>
  void with_world(F f, Location where = Location::current()) {
    if (!enter(0, where)) return;
    std::lock_guard gate(job_.gate);
    if (job_.outstanding.load() > 0) usage_error("with_world: wait for every batch first", where);
    f(job_.comm);
  }

  /// The program on this rank, from beginning to end; failures are left in the job.
  Values play(const Program& program);
  /// Collective: every rank has played. Failures are agreed on, unread messages found, communicators left clean.
  void finish();
  bool has_outliving_slices() const { return live_blocks_ > 0; }
  double end_seconds() const { return end_seconds_; }
  /// Of its queues, by index.
  std::vector<std::string> queue_names() const;

 private:
  /// The queue a verb is called on, or null while an exception unwinds its thread. Throws Unwind when the run
  /// has failed, and Error(usage) when the calling thread does not run that queue's work.
  Queue* enter(int queue, Location where);
  Endpoint& endpoint(int group, int queue);  // gate held
  Group& group(int index, Location where = Location::current());
  Rank handle(int group, int queue);

  // Waiting.
  void wait_for_batch(Queue& queue, Ticket ticket, Location where);
  void wait_for_closure(Queue& main, Ticket ticket, Location where);
  /// Moves all endpoints on until done(), asked with the gate held; false when the run has failed and the caller
  /// unwinds already. `not_before` is when it can happen at the earliest (modelled seconds), or 0.
  template <class Done, class NotBefore>
  bool poll_until(Queue& queue, const Doing& doing, Done done, NotBefore not_before);
  void advance_endpoints();
  bool sleep_for_link(double until);
  double time_of(const Queue& queue) const { return job_.emulate() ? queue.clock : job_.clock.now(); }
  /// When a verb began, for ledgers: now; while emulating, the modelled moment that its modelled duration counts from,
  /// unless the host was still busy with the verb before.
  double begin_of(const Queue& queue) const {
    const double now = job_.clock.now();
    return job_.emulate() ? std::min(now, std::max(queue.clock, queue.last_end)) : now;
  }
  double end_of(Queue& queue) const { return queue.last_end = job_.clock.now(); }

  /// Before an operation: messages move while it lasts, or now where it is short.
  void keep_messages_moving(const Operation& operation);

  // Emulation.
  void pass_modelled_time(Queue& queue, double seconds);

  // Set-up.
  void withdraw_set_up();
  /// Adds the set-up calls, and those that others have not made yet; true where there are some. Gate held.
  bool count_set_ups(Row& row);
  bool set_up_abandoned();
  std::vector<SetUp> agree(Group& group, const SetUp& mine, Location where);
  int split_groups(Group& parent, const std::vector<SetUp>& calls);
  int make_group(const std::vector<int>& members);
  int queue_named(std::string_view name);
  void open_endpoint(int group, int queue);

  // The end.
  void check_all_waited();
  void agree_on_failure();
  void find_unread();
  void clean_up();
  void barrier(const std::function<bool()>& before, const std::function<void()>& meanwhile);

  // The progress thread.
  void make_progress();
  void wake_progress();
  Row describe_me();
  Row describe_queue(Queue& queue);

  static constexpr int kQueues = 64;
  static constexpr std::chrono::microseconds kFirstNap{50}, kLongestNap{200};  // of the progress thread

  Job& job_;
  struct PendingSetUp;  // what a set-up call of main has in MPI's hands
  std::unique_ptr<PendingSetUp> set_up_;
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
  int queue_count_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::vector<int>, int> group_of_members_;
  std::array<std::vector<std::unique_ptr<Endpoint>>, kQueues> endpoints_;  // [queue][group]; under the gate
  std::vector<Endpoint*> all_endpoints_;                                   // in order of creation
  MPI_Comm control_comm_ = MPI_COMM_NULL;
  std::unique_ptr<Control> control_;

  std::mutex memory_mutex_;
  std::unique_ptr<Device> device_;
  Heap heap_;
  std::uint64_t blocks_ = 0;  // allocated so far
  std::uint64_t live_blocks_ = 0;

  // Main's current operation, while emulating: other queues' arithmetic lengthens it.
  std::mutex operation_mutex_;
  double operation_begin_ = 0;
  double operation_end_ = -1;

  double end_seconds_ = 0;
  std::thread progress_;
  std::mutex progress_mutex_;
  std::condition_variable progress_wake_;
  std::atomic<bool> progress_dormant_{true};
  bool progress_stop_ = false;
  std::atomic<bool> over_{false};  // every rank has played: no more failures
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
  if (!found && std::uncaught_exceptions() == 0) throw Unwind{};
  return found;
}

}  // namespace lockstep::mpi
