// One rank where every rank is a process: the verbs and the bookkeeping that are the same whatever moves the messages.
// What a backend supplies is pure here, and for its endpoints and queues in the concepts.
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
    std::derived_from<Endpoint, EndpointCore<typename Endpoint::Batch>> &&
    requires(Endpoint endpoint, std::span<const Transfer> transfers, Location where, const char* region,
             typename Endpoint::Queue::Moment issued, std::uint64_t number, int member) {
  // Adds a batch that begins after `issued`; its number.
  { endpoint.start(transfers, where, region, issued) } -> std::same_as<std::uint64_t>;
  // Who waits for batch `number` goes on.
  { endpoint.ready(number) } -> std::same_as<bool>;
  { endpoint.outstanding() } -> std::same_as<Outstanding>;
  // A message of a member's that nobody received: its sender's side in words, or empty where that is not known.
  { endpoint.take_unread(member) } -> std::same_as<std::string>;
};

struct Group {
  int index = 0;              // 0: the world
  std::vector<int> members;   // world ranks
  int rank = -1;              // mine; −1: this rank is no member
  std::uint64_t set_ups = 0;  // calls so far; under the gate
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

  /// The program on this rank, from beginning to end; failures are left in the job.
  Values play(const Program& program);
  /// How the run ended, complete on rank 0. Collective, after the backend's finish().
  Outcome outcome(const Values& values);
  bool has_outliving_slices() const { return live_blocks_ > 0; }

 protected:
  explicit RankCore(std::unique_ptr<Job> job);

  // What a backend supplies -------------------------------------------------------------------------------------------

  /// Before and after the program, on main. What the first throws is the program's; the second tells the job.
  virtual void begin_program() = 0;
  virtual void end_program() = 0;
  /// Closures run on threads of their queues; else on main's, at once.
  virtual bool closures_have_threads() const = 0;
  /// Memory is taken and given back when the host says so, and not in the order of a GPU's stream.
  virtual bool memory_has_times() const = 0;
  /// Later work of the queue runs after the batch; the endpoint forgets those up to it.
  virtual void wait_for_batch(Queue& queue, Endpoint& endpoint, Ticket ticket, Location where) = 0;
  /// Later work of main runs after `closure` of `queue`, which has ended. Main has waited since `began` (job's
  /// seconds).
  virtual void go_on_after(Queue& queue, Ticket closure, double began, Location where) = 0;
  /// Collective over the group: the set-up calls of all members, in their order.
  virtual std::vector<SetUp> all_calls(const Group& group, const SetUp& mine, Location where) = 0;
  /// Collective over the group: its endpoint on a queue that is not main.
  virtual std::unique_ptr<Endpoint> connect(const Group& group, int queue, Location where) = 0;
  /// Collective over the parent: main's endpoint of the group that this rank's colour made; null without one.
  virtual std::unique_ptr<Endpoint> connect_split(const Group& parent, const SetUp& mine, const Group* made,
                                                  Location where) = 0;
  /// Memory in the queue's order; filled with NaN patterns if options.poison.
  virtual void* take_memory(Queue& queue, std::size_t bytes, Category category, Location where) = 0;
  virtual void give_memory(const Block& block) = 0;
  /// Collective over the run: every rank's bytes, for rank 0 or for all. `what` names the collective.
  virtual std::vector<std::string> gather(const char* what, const std::string& mine, bool for_all) = 0;
  /// Of a queue that waits for its GPU: what the GPU is at. Gate held.
  virtual void describe_gpu(Row&) const {}

  // What it builds on -------------------------------------------------------------------------------------------------

  /// The queue a verb is called on, or null while an exception unwinds its thread. Throws Unwind when the run has
  /// failed, and Error(usage) when the calling thread does not run that queue's work.
  Queue* enter(int queue, Location where) const;
  /// Where a wait ends because the run has failed: throws Unwind, unless an exception unwinds the thread already.
  static void unwind() {
    if (std::uncaught_exceptions() == 0) throw Unwind{};
  }
  Group& group(int index, Location where = Location::current()) const;
  Rank handle(int group, int queue);
  Endpoint& endpoint(int group, int queue) const { return *endpoints_[queue][group]; }  // gate held
  bool has_endpoint(int group, int queue) const;
  void add_endpoint(std::unique_ptr<Endpoint> fresh);

  RankLedger ledger_without_seconds() const;
  void stop_queues();    ///< but main's
  void drop_closures();  ///< of stopped queues, and with them their hold on memory
  /// Collective: the earliest failure is everybody's. True if there is one. `what` names the collective.
  bool agree_on_failure(const char* what);
  /// Collective: messages sent to this rank that it never received, and those it receives that nobody sent.
  void find_unread();

  /// This rank's line of the wait table: it waits if all of its queues do. Gate held.
  Row describe_queues() const;
  static std::string at(const std::string& verb, Location where) { return verb + " at " + describe(where); }
  static std::string format_outstanding(const Endpoint& endpoint, const Outstanding& outstanding);

  const std::unique_ptr<Job> owned_job_;
  Job& job_ = *owned_job_;
  static constexpr int kQueues = 64;
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
  std::atomic<int> queue_count_{0};
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Endpoint*> all_endpoints_;  // in order of creation; under the gate

 private:
  Row describe_queue(const Queue& queue) const;
  int running_queue() const;  // whose work the calling thread does; −1: no queue's
  void wait_for_closure(Queue& main, Ticket ticket, Location where);
  std::vector<SetUp> agree(Group& group, SetUp mine, Location where);
  int groups_of(const Group& parent, const std::vector<SetUp>& calls);
  int make_group(const std::vector<int>& members);
  int queue_named(std::string_view name);
  void check_all_waited() const;

  const std::thread::id main_thread_ = std::this_thread::get_id();
  int inline_queue_ = 0;  // whose closure runs on main's thread; 0: none
  std::map<std::vector<int>, int> group_of_members_;
  std::array<std::vector<std::unique_ptr<Endpoint>>, kQueues> endpoints_;  // [queue][group]; under the gate
  std::atomic<std::uint64_t> blocks_{0};                                   // allocated so far
  std::atomic<std::uint64_t> live_blocks_{0};
};

}  // namespace lockstep::processes

#include "common/runtime/processes/rank_core_end.hpp"
#include "common/runtime/processes/rank_core_table.hpp"
#include "common/runtime/processes/rank_core_verbs.hpp"
