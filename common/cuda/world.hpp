// The CUDA backend: ranks, their queues and groups, and the scheduler of their host code.
//
// One OS thread does everything: each queue of each rank is a fiber, which runs until it needs what another one has not
// given yet. It gives work to the GPU and never waits for it, but at the doors (read, to_host, now). A queue is a
// stream. Each rank's end of a communicator, a (group, queue), has a stream of its own too, on which what it receives
// is copied.
//
// The GPU never waits for what is not on it already: a copy is given to it when both halves of its message are posted,
// and a queue's stream waits for events that were recorded before. So whatever the host does, the GPU comes to an end.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/cuda/memory.hpp"
#include "common/cuda/range.hpp"
#include "common/cuda/stream.hpp"
#include "common/cuda/timeline.hpp"
#include "common/device/cuda/cuda_device.hpp"
#include "common/ledger/recorder.hpp"
#include "common/one_process/complaints.hpp"
#include "common/one_process/fiber.hpp"
#include "common/one_process/groups.hpp"
#include "common/run.hpp"

namespace lockstep::cuda {

class World;
class RankState;
struct Lane;
struct Queue;

/// Transfers that were started together.
struct Batch {
  Lane* lane = nullptr;
  std::uint64_t number = 0;
  std::vector<Transfer> transfers;
  std::vector<bool> issued;   // by transfer: it is with the GPU
  std::size_t pending = 0;    // of those that are not
  Event posted;               // where its queue was at the start
  bool follows_wait = false;  // …and there it had waited for all batches before it on this lane
  Event begin;                // when its memory may be touched; empty until all batches before it are with the GPU
  Event received;             // its last receive is done
  std::vector<Event> sent;    // each send is done
  Location where{};
  const char* collective = nullptr;
};

/// One half of a message that waits for the other.
struct Posted {
  Batch* batch = nullptr;  // null: a send that was set aside, whose batch may be over
  std::size_t index = 0;   // of the transfer in its batch
  Half half;
  std::size_t bytes = 0;
  void* aside = nullptr;  // a copy of what is sent
  Event begin;            // when the data may be read
};

/// What a lane knows of one peer.
struct Peer {
  int world = -1;               // its rank there; −1: never met
  std::deque<Posted> sends;     // by it to me, not received yet
  std::deque<Posted> receives;  // of mine from it, not sent yet
  Traffic traffic;
};

/// One rank's end of one communicator: a (group, queue). Batches are numbered from 1.
struct Lane {
  RankState* owner = nullptr;
  int group = 0;
  int queue = 0;
  int rank = 0;  // of the owner, in the group
  Stream stream;
  std::deque<std::unique_ptr<Batch>> batches;  // not yet waited for, in the order started
  std::uint64_t started = 0;
  std::uint64_t issued = 0;  // batches that are with the GPU
  std::uint64_t waited = 0;
  Queue* waiter = nullptr;
  std::uint64_t waiter_number = 0;
  std::vector<Peer> peers;  // by rank in the group

  Batch* batch(std::uint64_t number) const {
    const std::uint64_t index = number - waited - 1;
    return index < batches.size() ? batches[index].get() : nullptr;
  }
};

/// Why a fiber does not run.
struct Blocked {
  enum class On : std::uint8_t { nothing, batch, closure, setup, work, door };
  On on = On::nothing;
  Lane* lane = nullptr;
  std::uint64_t number = 0;
  int queue = 0;
  int group = 0;
  Location where{};
};

/// How far each queue of a rank had come: what a point of one queue is known to be after.
using Progress = std::vector<std::uint64_t>;

struct Closure {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank as;
  Location where{};
  Event issued, finished;
  Progress at_issue, at_finish;
};

/// One ordered queue of one rank; queue 0 is main.
struct Queue {
  RankState* owner = nullptr;
  int index = 0;
  Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  std::unique_ptr<Fiber> fiber;
  Blocked blocked;
  bool ended = false;
  std::deque<std::unique_ptr<Closure>> closures;  // not yet waited for by main
  std::size_t next_closure = 0;
  std::uint64_t closures_run = 0, closures_waited = 0;
  Closure* current = nullptr;

  // Order and time.
  Event last;           // recorded on the stream, and nothing given to it since; else empty
  Event stretch;        // begin of the arithmetic since the last wait; empty: none yet
  bool worked = false;  // since `stretch`
  Progress known;       // of all queues of the rank, of itself: uses of memory so far
  std::vector<OpenRegion> regions;
};

/// Memory, with the queues that used it beside the one that allocated it, and when.
struct GpuBlock : Block {
  struct Use {
    int queue;
    std::uint64_t position;
  };
  std::vector<Use> elsewhere;
};

/// The backend's side of one rank.
class RankState final : public Backend, public BlockOwner {
 public:
  RankState(World& world, int rank);
  ~RankState() override;

  Ticket start(Channel channel, std::span<const Transfer> batch, Location where) override;
  void wait(Channel channel, Ticket ticket, Location where) override;
  Rank split(Channel channel, int color, int key, Location where) override;
  Rank stream(Channel channel, std::string_view name, Location where) override;
  Ticket run(Channel main, Rank queue, std::function<void(Rank)> f, Location where) override;
  Slice allocate(Channel channel, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(Channel channel, const Operation& operation, Kernel kernel, Location where) override;
  void open_region(Channel channel, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(Channel channel, const Slice& slice, const void* values, Location where) override;
  bool download(Channel channel, const Slice& slice, void* bytes, Location where) override;
  bool peek(Channel channel, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;
  int world_rank() const override { return rank_; }
  void release(Block& block) override;

  Queue& queue(int index) { return *queues_[index]; }
  const std::vector<std::unique_ptr<Queue>>& queues() const { return queues_; }
  const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }
  Lane& lane(int group, int queue);
  void join_group(int group, int rank);
  void add_queues_up_to(int index);
  void play(const Program& program, Values& values);  // main's fiber
  /// Something lasted from `begin` to the last of `ends`; told to the ledgers when the GPU has passed it.
  void span(Event begin, std::vector<Event> ends, Timeline::Tell tell);
  void note_end();  // of the program; the GPU has passed it
  Timeline& timeline() { return timeline_; }
  Recorder& recorder() { return recorder_; }

 private:
  friend class World;
  struct Member {
    int group;
    int rank;
    std::vector<Lane*> lanes;  // by queue
  };
  const Member& member(int group) const;
  Queue& calling(int queue, Location where) const;  // checks that this queue's fiber is the one running
  int set_up(Queue& queue, int group, const Groups::Call& call);
  void wait_batch(Queue& queue, const Ticket& ticket, Location where);
  void wait_closure(Queue& main, const Ticket& ticket, Location where);
  void serve(Queue& queue);  // a queue's fiber: closures in order
  void call(Queue& queue, Closure& closure);
  void check_finished() const;

  Event here(Queue& queue) const;  // where its stream is
  void end_stretch(Queue& queue, const Event& end);
  void waited(Queue& queue, const Event& before, Location where);  // its stream waits for something since `before`
  void use(Queue& queue, const Slice& slice);                      // by work that is given to its stream
  void copy_out(Queue& queue, const Slice& slice, void* bytes, Location where);
  void free(GpuBlock& block);

  World& world_;
  int rank_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::uint64_t allocations_ = 0;
  std::uint64_t live_blocks_ = 0;
  Event ended_;             // main's program
  double end_seconds_ = 0;  // of it, once known
  Recorder recorder_;
  Timeline timeline_;
};

class World {
 public:
  World(const RunOptions& options, const Program& program, int gpu);
  ~World();
  Outcome run();
  bool has_outliving_slices() const;
  void drop_fibers();  // after the run: their stacks, or threads

  // Used by ranks -------------------------------------------------------------------------------------------------
  const RunOptions& options() const { return options_; }
  Queue* running() const { return running_; }
  Groups& groups() { return groups_; }
  RankState& rank(int index) { return *ranks_[index]; }
  EventPool& events() { return events_; }
  EventClock& clock() { return *clock_; }
  DeviceMemory& memory() { return memory_; }
  Staging& staging() { return staging_; }
  int queue_id(std::string_view name);
  const std::string& queue_name(int index) const { return queue_names_[index]; }

  void block(Queue& queue, Blocked why);  // suspends the running fiber until woken
  void wake(Queue& queue);
  void pass(const Event& event);  // a door: suspends the running fiber until the GPU has passed it
  void start_fiber(Queue& queue, std::function<void()> body);
  bool stopped() const;  // the run has failed: throws Unwind; returns true while an exception unwinds this fiber
  bool failing() const { return failing_; }
  void record_failure(const Queue& queue);  // of the exception that is being handled
  void join_new_groups();
  void post(Batch* batch);  // begins now, or after the one before it on its lane
  Peer& peer(Lane& lane, int rank);
  void tell_times();  // to the ledgers, as far as the GPU has come

 private:
  struct Door {
    Queue* queue;
    Event event;
  };
  void loop();
  void resume(Queue& queue);
  void body_of(Queue& queue, const std::function<void()>& body);
  bool open_doors(bool wait);
  void begin_all();
  void begin(Batch& batch);
  void meet(Posted send, Posted receive, Lane& receiver);
  void issued(Batch& batch, std::size_t index);
  bool set_sends_aside();  // those that need no receive to be over; false: there was none
  void set_aside(Posted& send);
  void drop_messages();
  void judge_end();
  void finish_gpu();
  void unwind_all();
  void fill(Outcome& outcome);
  std::string deadlock();  // explain.cpp
  std::string unread();

  RunOptions options_;
  const Program& program_;
  EventPool events_;
  std::unique_ptr<EventClock> clock_;
  DeviceMemory memory_;
  Staging staging_;
  Groups groups_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  int joined_groups_ = 0;
  std::vector<std::string> queue_names_{"main"};
  std::vector<Values> values_;
  std::deque<Queue*> runnable_;
  std::deque<Door> doors_;
  std::deque<Batch*> beginning_;  // whose turn has come
  Queue* running_ = nullptr;
  std::uint64_t messages_ = 0;
  bool failing_ = false;
  Failure failure_;
};

}  // namespace lockstep::cuda
