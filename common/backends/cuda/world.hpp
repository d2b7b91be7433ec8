// The CUDA backend: ranks, their queues and groups, and the scheduler of their host code.
//
// One OS thread does everything: each queue of each rank is a fiber, which runs until it needs what another one has not
// given yet. It gives work to the GPU and never waits for it, but at explicit synchronisations (read, to_host, now). A
// queue is a stream. Each rank's end of a communicator, a (group, queue), has a stream of its own too, on which what it
// receives is copied.
//
// The GPU never waits for what is not on it already: a copy is given to it when both halves of its message are posted,
// and a queue's stream waits for events that were recorded before. So whatever the host does, the GPU comes to an end.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "common/devices/cuda/backlog.hpp"
#include "common/devices/cuda/cuda_device.hpp"
#include "common/devices/cuda/memory.hpp"
#include "common/devices/cuda/range.hpp"
#include "common/devices/cuda/stream.hpp"
#include "common/devices/cuda/timeline.hpp"
#include "common/runtime/fibers/rank_base.hpp"
#include "common/runtime/fibers/world_base.hpp"

namespace lockstep::cuda {

class World;
class CudaRank;
struct Endpoint;
struct Queue;

/// Transfers that were started together.
struct Batch {
  Endpoint* endpoint = nullptr;
  std::uint64_t number = 0;
  std::vector<Transfer> transfers;
  std::vector<bool> issued;   // by transfer: it is with the GPU
  std::size_t pending = 0;    // of those that are not
  Event posted;               // where its queue was at the start
  bool follows_wait = false;  // …and there it had waited for all batches before it on this endpoint
  Event begin;                // when its memory may be touched; empty until all batches before it are with the GPU
  Event received;             // its last receive is done
  std::vector<Event> sent;    // each send is done
  Location where{};
  const char* collective = nullptr;
};

/// One half of a message that waits for the other.
struct Posted {
  Batch* batch = nullptr;  // null: a send that was buffered, whose batch may be over
  std::size_t index = 0;   // of the transfer in its batch
  Half half;
  std::size_t bytes = 0;
  void* aside = nullptr;  // a copy of what is sent
  Event begin;            // when the data may be read
};

/// What a endpoint knows of one peer.
struct Peer {
  int world = -1;               // its rank there; −1: never met
  std::deque<Posted> sends;     // by it to me, not received yet
  std::deque<Posted> receives;  // of mine from it, not sent yet
  Traffic traffic;
};

/// One rank's end of one communicator: a (group, queue). Batches are numbered from 1.
struct Endpoint {
  CudaRank* owner = nullptr;
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

  const Batch* oldest() const { return batches.empty() ? nullptr : batches.front().get(); }
  template <class F>
  void each_peer(F f) const {
    for (const Peer& peer : peers) f(peer.world, peer.traffic);
  }
  Batch* batch(std::uint64_t number) const {
    const std::uint64_t index = number - waited - 1;
    return index < batches.size() ? batches[index].get() : nullptr;
  }
};

/// How far each queue of a rank had come: what a point of one queue is known to be after.
using Progress = std::vector<std::uint64_t>;

struct Closure : ClosureBase {
  Event issued, finished;
  Progress at_issue, at_finish;
};

/// What the parts that all one-process backends share need to know of this one.
struct Types {
  using World = cuda::World;
  using BackendRank = cuda::CudaRank;
  using Queue = cuda::Queue;
  using Closure = cuda::Closure;
  using Endpoint = cuda::Endpoint;
};

/// One ordered queue of one rank; queue 0 is main.
struct Queue : QueueBase<Types> {
  Stream stream;
  std::unique_ptr<CudaDevice> device;  // made by its first operation
  Closures<Closure> closures;

  // Order and time.
  Event last;           // recorded on the stream, and nothing given to it since; else empty
  Event stretch;        // begin of the arithmetic since the last wait; empty: none yet
  bool worked = false;  // since `stretch`
  Backlog backlog;      // of operations
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
class CudaRank final : public RankBase<Types> {
 public:
  CudaRank(World& world, int rank) : RankBase(world, rank, nullptr) {}
  ~CudaRank() override = default;

  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) override;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  bool fuses_gelu() const override { return cuda_fuses_gelu(); }
  bool fuses_pieces() const override { return true; }
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  double now(int queue) const override;
  void release(Block& block) override;

  /// Something lasted from `begin` to the last of `ends`; told to the ledgers when the GPU has passed it.
  void span(Event begin, std::vector<Event> ends, Timeline::Tell tell);
  void note_end();  // of the program; the GPU has passed it
  void ledger_taken() {}
  Timeline& timeline() { return timeline_; }

 private:
  friend class RankBase<Types>;
  void made(Queue&) {}
  void made(Endpoint&) {}
  void wait_batch(Queue& queue, const Ticket& ticket, Location where);
  void issued(Queue& main, Closure& closure);
  void begins(Queue& queue, Closure& closure);
  void ends(Queue& queue, Closure& closure);
  void waited_for(Queue& main, Closure& closure, Location where, std::uint64_t position);
  void program_ended(Queue& main);
  double seconds(const RankLedger& ledger) const;

  Event here(Queue& queue) const;  // where its stream is
  void end_stretch(Queue& queue, const Event& end);
  void waited(Queue& queue, const Event& before, Location where,
              std::uint64_t position);         // its stream waits for something since `before`
  void use(Queue& queue, const Slice& slice);  // by work that is given to its stream
  void copy_out(Queue& queue, const Slice& slice, void* bytes, Location where);
  void free(GpuBlock& block);

  Event ended_;             // main's program
  double end_seconds_ = 0;  // of it, once known
  Timeline timeline_;
};

class World final : public WorldBase<Types> {
 public:
  World(const RunOptions& options, const Program& program, int gpu);
  ~World();
  /// Where the GPU hangs, too: to give its memory back would be to wait for it.
  bool must_stay() const { return lost_ || has_outliving_slices(); }

  // Used by ranks -------------------------------------------------------------------------------------------------
  EventPool& events() { return events_; }
  EventClock& clock() { return *clock_; }
  /// Of the GPU, in the order of `stream`. Where it is full the host waits for what is on it.
  void* allocate(std::size_t bytes, Category category, cudaStream_t stream, Location where);
  DeviceMemory& memory() { return memory_; }
  Staging& staging() { return staging_; }

  void wake(Queue& queue);
  void wake_from_set_up(Queue& main) { wake(main); }
  void wake_for_work(Queue& queue) { wake(queue); }
  void wake_after(Queue& main, const Closure&) { wake(main); }
  /// An explicit synchronisation: suspends the running fiber until the GPU has passed it.
  void pass(const Event& event, Location where);
  void post(Batch* batch);  // begins now, or after the one before it on its endpoint
  Peer& peer(Endpoint& endpoint, int rank);
  StuckBatch stuck_batch(const Queue& queue);  // explain.cpp

 private:
  friend class WorldBase<Types>;
  struct SyncPoint {
    Queue* queue;
    Event event;
  };
  std::size_t stack_bytes() const;
  void started(Queue& queue) { runnable_.push_back(&queue); }
  void loop();
  void drain();
  void release_left_memory();
  std::vector<UnreadMessage> unread() const;  // explain.cpp

  template <class F>
  void each_peer(F f) {  // f(endpoint, peer)
    for (auto& rank : ranks_)
      rank->each_endpoint([&](Endpoint& endpoint) {
        for (Peer& peer : endpoint.peers) f(endpoint, peer);
      });
  }
  bool open_doors();
  void tell_times();  // to the ledgers, as far as the GPU has come
  /// Asks passed() until it says yes. False: the GPU hangs, and the run has failed with TIMEOUT, which `what` is added
  /// to.
  template <class Passed>
  bool await(Passed passed, const std::string& what = "");
  bool idle() const;  // the GPU has done all that it was given
  void await_doors();
  void await_or_throw(const Event& event);
  std::uint64_t done_so_far();  // operations of all queues
  std::string hang() const;     // explain.cpp
  void begin_all();
  void begin(Batch& batch);
  void meet(Posted send, Posted receive, Endpoint& receiver);
  void issued(Batch& batch, std::size_t index);
  bool set_sends_aside();  // those that need no receive to be over; false: there was none
  void buffer_eagerly(Posted& send);
  void drop_messages();

  EventPool events_;
  std::unique_ptr<EventClock> clock_;
  DeviceMemory memory_;
  Staging staging_;
  std::deque<Queue*> runnable_;
  std::deque<SyncPoint> sync_points_;
  std::deque<Batch*> beginning_;  // whose turn has come
  bool lost_ = false;             // the GPU hangs
};

}  // namespace lockstep::cuda
