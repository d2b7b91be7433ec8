// The virtual cluster: ranks, their queues and groups, and the scheduler that runs whoever is earliest.
//
// One OS thread does everything. A queue's fiber runs ahead of the global clock as long as nothing it does can be
// affected by others: a rank with one queue only stops where it must wait for a message.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/device/device.hpp"
#include "common/ledger/recorder.hpp"
#include "common/one_process/complaints.hpp"
#include "common/one_process/fiber.hpp"
#include "common/one_process/groups.hpp"
#include "common/race/race.hpp"
#include "common/run.hpp"
#include "common/sim/event_queue.hpp"
#include "common/sim/network.hpp"

namespace lockstep::sim {

class World;
class RankState;
struct Channel;
struct Queue;

/// Transfers that were started together.
struct Batch {
  Channel* channel = nullptr;
  std::uint64_t number = 0;
  std::vector<Transfer> transfers;
  double posted = 0;
  double begin = 0;
  double completion = 0;  // known when pending is 0
  int pending = 0;        // transfers whose completion is not known yet
  Batch* next = nullptr;  // in its channel
  Location where{};
  const char* collective = nullptr;
  std::unique_ptr<VectorClock> clock;  // race checks
};

/// Unmatched halves of messages from one rank to another on one (group, queue): all sends, or all receives.
struct Pair {
  Message* first = nullptr;
  Message* last = nullptr;
};

/// What a channel knows of one peer. What every message needs comes first, within one line of the cache.
struct Peer {
  int rank = 0;  // in the group
  int world = 0;
  Pair* out = nullptr;  // the other end's `in`
  Path path;
  Pair in;
  Traffic traffic;
};

/// One rank's end of one communicator: a (group, queue). Batches are numbered from 1.
struct alignas(64) Channel {
  Batch* first = nullptr;       // not yet waited for, in the order started
  Batch* incomplete = nullptr;  // the first whose completion is not known
  Batch* last = nullptr;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;  // batches whose completion is known
  std::uint64_t waited = 0;     // …that have been waited for
  double free_at = 0;           // completion of the last completed batch
  Queue* waiter = nullptr;
  std::uint64_t waiter_number = 0;
  Peer* recent_out = nullptr;  // the last sent to, and received from
  Peer* recent_in = nullptr;
  RankState* owner = nullptr;
  int group = 0;
  int queue = 0;
  int rank = 0;        // of the owner, in the group
  int component = -1;  // race checks
  bool dense = false;
  std::vector<std::unique_ptr<Peer>> peers;  // a short list, or by rank once it is long

  /// A batch that has been started and not waited for.
  const Batch* batch(std::uint64_t number) const {
    const Batch* at = first;
    while (at->number != number) at = at->next;
    return at;
  }
};

/// Why a fiber does not run.
struct Blocked {
  enum class On : std::uint8_t { nothing, batch, closure, setup, work };
  On on = On::nothing;
  Channel* channel = nullptr;
  std::uint64_t number = 0;
  int queue = 0;
  int group = 0;
  Location where{};
};

struct Closure {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank as;
  double issued = 0;
  double finished = -1;
  Location where{};
  VectorClock clock;
};

/// One ordered queue of one rank; queue 0 is main.
struct Queue {
  double clock = 0;
  RankState* owner = nullptr;
  int index = 0;
  std::unique_ptr<Fiber> fiber;
  Channel* recent = nullptr;  // the channel last used
  Blocked blocked;
  bool ended = false;
  std::deque<std::unique_ptr<Closure>> closures;  // not yet waited for by main
  std::size_t next_closure = 0;                   // index in `closures` of the next to run
  std::uint64_t closures_run = 0;                 // ever issued
  std::uint64_t closures_waited = 0;
  Closure* current = nullptr;
  bool in_operation = false;  // main: arithmetic until operation_end
  double operation_end = 0;
  int component = -1;
};

/// The simulator's side of one rank.
class RankState final : public Backend, public BlockOwner {
 public:
  RankState(World& world, int rank);
  ~RankState() override;

  Ticket start(lockstep::Channel channel, std::span<const Transfer> batch, Location where) override;
  void wait(lockstep::Channel channel, Ticket ticket, Location where) override;
  Rank split(lockstep::Channel channel, int color, int key, Location where) override;
  Rank stream(lockstep::Channel channel, std::string_view name, Location where) override;
  Ticket run(lockstep::Channel main, Rank queue, std::function<void(Rank)> f, Location where) override;
  Slice allocate(lockstep::Channel channel, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(lockstep::Channel channel, const Operation& operation, Kernel kernel, Location where) override;
  void open_region(lockstep::Channel channel, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(lockstep::Channel channel, const Slice& slice, const void* values, Location where) override;
  bool download(lockstep::Channel channel, const Slice& slice, void* bytes, Location where) override;
  bool peek(lockstep::Channel channel, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;
  int world_rank() const override { return rank_; }
  void release(Block& block) override;

  Queue& queue(int index) { return *queues_[index]; }
  const std::vector<std::unique_ptr<Queue>>& queues() const { return queues_; }
  Channel& channel(int group, int queue);
  int rank_in(int group) const;
  void join_group(int group, int rank);
  void add_queues_up_to(int index);
  void check_finished();  // at the end of the program: nothing started and forgotten

 private:
  friend class World;
  struct Member {
    int group;
    int rank;
    std::vector<Channel*> channels;  // by queue
  };
  Member& member(int group);
  Queue& calling(int queue, Location where);  // checks that this queue's fiber is the one running
  void sync(Queue& queue);                    // lets the world catch up, where others can see what this queue does
  bool watched() const { return live_closures_ > 0 || perturbed_; }  // other queues of this rank are at work
  void wait_batch(Queue& queue, const Ticket& ticket, Location where);
  void wait_closure(Queue& main, const Ticket& ticket, Location where);
  void queue_loop(Queue& queue);
  int set_up(Queue& queue, int group, const Groups::Call& call);
  double jitter();  // with --perturb: extra seconds, often none

  Channel& channel(Queue& queue, int group);

  World& world_;
  int rank_;
  int live_closures_ = 0;
  bool perturbed_ = false;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Member> members_;
  std::uint64_t allocations_ = 0;
  std::uint64_t live_blocks_ = 0;
  std::uint64_t draws_ = 0;
  Recorder recorder_;
  std::unique_ptr<RaceDetector> races_;
};

/// The ends of a group's communicators: [queue][rank].
using Channels = std::vector<std::vector<std::unique_ptr<Channel>>>;

class World {
 public:
  World(const RunOptions& options, const Program& program);
  Outcome run();
  bool has_outliving_slices() const;
  void drop_fibers();  // after the run: their stacks, or threads

  // Used by ranks ------------------------------------------------------------------------------------------------
  const RunOptions& options() const { return options_; }
  double time() const { return time_; }
  Device* device() { return device_.get(); }
  Queue* running() const { return running_; }
  Groups& groups() { return groups_; }
  Channels& channels(int group) { return *channels_[group]; }
  int queue_id(std::string_view name);
  const std::string& queue_name(int index) const { return queue_names_[index]; }
  RankState& rank(int index) { return *ranks_[index]; }

  void block(Queue& queue, Blocked why);        // suspends the running fiber until woken
  void sleep_until(Queue& queue, double time);  // suspends the running fiber until the global clock is there
  void wake(Queue& queue, double time);         // a blocked queue goes on at `time`
  void post(Batch* batch);                      // begins now, at its time, or after the one before it
  void start_fiber(Queue& queue, std::function<void()> body, double time);
  bool stopped() const;  // the run has failed: throws Unwind; returns true while an exception unwinds this fiber
  void wake_at(Queue& queue, double time);
  Batch* new_batch();
  void retire(Batch* batch);
  Peer& peer_to(Channel& channel, int rank) {
    return channel.recent_out && channel.recent_out->rank == rank ? *channel.recent_out
                                                                  : *(channel.recent_out = &peer(channel, rank));
  }
  Peer& peer_from(Channel& channel, int rank) {
    return channel.recent_in && channel.recent_in->rank == rank ? *channel.recent_in
                                                                : *(channel.recent_in = &peer(channel, rank));
  }
  Peer& peer(Channel& channel, int rank);
  void join_new_groups();  // after a set-up call, which may have made some

 private:
  enum class EventKind : std::uint8_t { wake, begin, port };
  struct Event {
    EventKind kind;
    void* what;
  };

  void loop();
  void fetch_ahead(std::size_t next) const;
  void handle(Event event);
  void resume(Queue& queue);
  void begin_at(double time, Batch* batch);
  void begin(Batch* batch);
  void post_send(Batch* batch, Transfer& transfer);
  void post_receive(Batch* batch, Transfer& transfer);
  void check_match(Message& message);
  void granted(Message* message);
  void deliver(Message* message);
  void half_done(Batch* batch, double time);
  void completed(Batch* batch);
  void body_of(Queue& queue, const std::function<void()>& body);
  void record_failure(const Queue& queue);
  void unwind_all();
  void let_go();  // what a failed run has left in batches and closures holds memory
  void judge_end();
  std::string deadlock();  // explain.cpp
  std::string unread();    // explain.cpp; empty when there is nothing
  void fill(Outcome& outcome);
  Message* new_message();
  void recycle(Message* message);

  RunOptions options_;
  const Program& program_;
  std::unique_ptr<Device> device_;
  Network network_;
  double time_ = 0;
  EventQueue<Event> events_;
  std::vector<Queue*> runnable_;
  Queue* running_ = nullptr;
  std::vector<std::unique_ptr<RankState>> ranks_;
  Groups groups_;
  std::vector<std::unique_ptr<Channels>> channels_;  // by group
  std::vector<std::string> queue_names_{"main"};
  std::vector<Values> values_;
  std::uint64_t issues_ = 0;
  std::uint64_t messages_ = 0;

  std::deque<Message> message_store_;
  std::vector<Message*> free_messages_;
  std::deque<Batch> batch_store_;
  std::vector<Batch*> free_batches_;

  bool failing_ = false;
  Failure failure_;
};

}  // namespace lockstep::sim
