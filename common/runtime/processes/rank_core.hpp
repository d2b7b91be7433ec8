// One rank of a backend whose ranks are processes: the verbs and bookkeeping that do not depend on how messages move. A
// backend implements the pure virtual functions here and the concepts for its endpoints and queues.
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include "common/runtime/backend.hpp"
#include "common/runtime/new_block.hpp"
#include "common/runtime/processes/closure_queue.hpp"
#include "common/runtime/processes/endpoint_core.hpp"
#include "common/runtime/processes/results.hpp"
#include "common/runtime/processes/set_up.hpp"
#include "common/runtime/processes/wait_table.hpp"

namespace lockstep::processes {

template <class Queue>
concept BackendQueue =
    std::derived_from<typename Queue::Job, Job> && std::derived_from<Queue, ClosureQueue<typename Queue::Moment>> &&
    std::constructible_from<Queue, typename Queue::Job&, int, std::string>;

template <class Endpoint>
concept BackendEndpoint = BackendQueue<typename Endpoint::Queue> &&
    std::derived_from<Endpoint, EndpointCore<typename Endpoint::TransferBatch>> &&
    requires(Endpoint endpoint, std::span<const Transfer> transfers, Location where, const char* region,
             typename Endpoint::Queue::Moment issued, std::uint64_t number, int member) {
  // Adds a batch that begins after `issued`; returns its number.
  { endpoint.start(transfers, where, region, issued) } -> std::same_as<std::uint64_t>;
  // True if waits for batch `number` may return.
  { endpoint.ready(number) } -> std::same_as<bool>;
  { endpoint.outstanding() } -> std::same_as<Outstanding>;
  // Removes one unreceived message from a member; returns its sender's side in words, or "" if that is unknown.
  { endpoint.take_unread(member) } -> std::same_as<std::string>;
};

struct Group {
  int index = 0;              // 0: the world
  std::vector<int> members;   // world ranks
  int rank = -1;              // this rank's index; −1: not a member
  std::uint64_t set_ups = 0;  // calls so far; protected by the gate
};

template <BackendEndpoint Endpoint>
class RankCore : public Backend, public BlockOwner {
 public:
  using Queue = typename Endpoint::Queue;
  using Job = typename Queue::Job;

  Ticket start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) final;
  void wait(CommunicatorKey at, Ticket ticket, Location where) final;
  Rank split(CommunicatorKey at, int color, int key, Location where) final;
  Rank stream(CommunicatorKey at, std::string_view name, Location where) final;
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) final;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) final;
  void release(Block& block) final;
  int world_rank() const final { return job_.rank; }

  /// Runs the program on this rank; failures are recorded in the job.
  Values play(const Program& program);
  /// The run's outcome, complete on rank 0. Collective, after the backend's finish().
  Outcome outcome(const Values& values);
  bool has_outliving_slices() const { return live_blocks_ > 0; }

 protected:
  explicit RankCore(std::unique_ptr<Job> job);

  // To be supplied by a backend
  // ------------------------------------------------------------------------------------------

  /// Called on main before and after the program. The first may throw, as the program may; the second tells the job.
  virtual void begin_program() = 0;
  virtual void end_program() = 0;
  /// True if closures run on threads of their queues; false if they run at once, on main's thread.
  virtual bool closures_have_threads() const = 0;
  /// True if memory is allocated and freed when the host says so; false if in the order of a GPU stream.
  virtual bool memory_has_times() const = 0;
  /// Orders later work of the queue after the batch; the endpoint forgets batches up to it.
  virtual void wait_for_batch(Queue& queue, Endpoint& endpoint, Ticket ticket, Location where) = 0;
  /// Orders main's later work after `closure` of `queue`, which has ended. Main has waited since `began` (job's
  /// seconds).
  virtual void go_on_after(Queue& queue, Ticket closure, double began, Location where) = 0;
  /// Collective over the group: the set-up calls of all members, in member order.
  virtual std::vector<SetUp> all_calls(const Group& group, const SetUp& mine, Location where) = 0;
  /// Collective over the group: its endpoint on a queue other than main.
  virtual std::unique_ptr<Endpoint> connect(const Group& group, int queue, Location where) = 0;
  /// Collective over the parent: main's endpoint of the group made for this rank's colour; null if it has none.
  virtual std::unique_ptr<Endpoint> connect_split(const Group& parent, const SetUp& mine, const Group* made,
                                                  Location where) = 0;
  /// Allocates memory in the queue's order, filled with NaN patterns if options.poison.
  virtual void* take_memory(Queue& queue, std::size_t bytes, Category category, Location where) = 0;
  virtual void give_memory(const Block& block) = 0;
  /// Collective over the run: every rank's bytes, on rank 0 or on all. `what` names the collective.
  virtual std::vector<std::string> gather(const char* what, const std::string& mine, bool for_all) = 0;
  /// Adds, for a queue that waits for its GPU, what the GPU is doing. Gate held.
  virtual void describe_gpu(Row&) const {}

  // For use by backends
  // -------------------------------------------------------------------------------------------------

  /// The queue that a verb is called on, or null while an exception unwinds its thread. Throws Unwind if the run has
  /// failed, and Error(usage) if the calling thread does not run that queue's work.
  Queue* enter(int queue, Location where) const;
  /// Ends a wait because the run has failed: throws Unwind, unless an exception already unwinds the thread.
  static void unwind() {
    if (std::uncaught_exceptions() == 0) throw Unwind{};
  }
  Group& group(int index, Location where = Location::current()) const;
  Rank handle(int group, int queue);
  Endpoint& endpoint(int group, int queue) const { return *endpoints_[queue][group]; }  // gate held
  bool has_endpoint(int group, int queue) const;
  void add_endpoint(std::unique_ptr<Endpoint> fresh);

  RankLedger ledger_without_seconds() const;
  void stop_queues();    ///< all but main
  void drop_closures();  ///< of stopped queues, which releases the memory they hold
  /// Collective: all ranks adopt the earliest failure. True if there is one. `what` names the collective.
  bool agree_on_failure(const char* what);
  /// Collective: finds messages sent to this rank that it never received, and receives that no rank sent to.
  void find_unread();

  /// This rank's line of the wait table; the rank waits if all of its queues do. Gate held.
  Row describe_queues() const;
  static std::string at(const std::string& verb, Location where) { return verb + " at " + describe(where); }
  static std::string format_outstanding(const Endpoint& endpoint, const Outstanding& outstanding);

  const std::unique_ptr<Job> owned_job_;
  Job& job_ = *owned_job_;
  static constexpr int kQueues = 64;
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
  std::atomic<int> queue_count_{0};
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Endpoint*> all_endpoints_;  // in order of creation; protected by the gate

 private:
  Row describe_queue(const Queue& queue) const;
  int running_queue() const;  // queue whose work the calling thread runs; −1: none
  void wait_for_closure(Queue& main, Ticket ticket, Location where);
  std::vector<SetUp> agree(Group& group, SetUp mine, Location where);
  int groups_of(const Group& parent, const std::vector<SetUp>& calls);
  int make_group(const std::vector<int>& members);
  int queue_named(std::string_view name);
  void check_all_waited() const;

  const std::thread::id main_thread_ = std::this_thread::get_id();
  int inline_queue_ = 0;  // queue whose closure runs on main's thread; 0: none
  std::map<std::vector<int>, int> group_of_members_;
  std::array<std::vector<std::unique_ptr<Endpoint>>, kQueues> endpoints_;  // [queue][group]; protected by the gate
  std::atomic<std::uint64_t> blocks_{0};                                   // allocated so far
  std::atomic<std::uint64_t> live_blocks_{0};
};

}  // namespace lockstep::processes

#include "common/runtime/processes/rank_core_end.hpp"
#include "common/runtime/processes/rank_core_table.hpp"
#include "common/runtime/processes/rank_core_verbs.hpp"
