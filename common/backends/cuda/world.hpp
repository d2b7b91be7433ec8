// The CUDA backend: ranks, their queues and groups, and the scheduler of their host code.
//
// One OS thread does everything: each queue of each rank is a fiber, which runs until it needs work that another fiber
// has not issued yet. It issues work to the GPU and never waits for it, except at explicit synchronisations (read,
// to_host, now). A queue is a stream. Each rank's end of a communicator, a (group, queue), also has its own stream, on
// which the data it receives is copied.
//
// The GPU never waits for work that it does not have: a copy is issued once both halves of its message are posted, and
// a queue's stream waits only for events recorded before. So the GPU finishes whatever the host does.
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
struct TransferBatch {
  Endpoint* endpoint = nullptr;
  std::uint64_t number = 0;
  std::vector<Transfer> transfers;
  std::vector<bool> issued;   // by transfer: true once issued to the GPU
  std::size_t pending = 0;    // transfers not issued yet
  Event posted;               // position of its queue at the start
  bool follows_wait = false;  // at `posted`, the queue had waited for all earlier batches of this endpoint
  Event begin;                // when its memory may be touched; empty until all batches before it are issued
  Event received;             // its last receive is complete
  std::vector<Event> sent;    // each send is complete
  Location where{};
  const char* collective = nullptr;
};

/// One half of a message that waits for its other half.
struct Posted {
  TransferBatch* batch = nullptr;  // null: a buffered send, whose batch may be over
  std::size_t index = 0;           // index of the transfer in its batch
  Half half;
  std::size_t bytes = 0;
  void* aside = nullptr;  // a copy of the data sent
  Event begin;            // when the data may be read
};

/// An endpoint's data about one peer.
struct Peer {
  int world = -1;               // world rank; −1: never met
  std::deque<Posted> sends;     // from it to this rank, not received yet
  std::deque<Posted> receives;  // from it, posted by this rank, not sent yet
  Traffic traffic;
};

/// One rank's end of a communicator, that is, of a (group, queue). Batches are numbered from 1.
struct Endpoint {
  CudaRank* owner = nullptr;
  int group = 0;
  int queue = 0;
  int rank = 0;  // the owner's rank in the group
  Stream stream;
  std::deque<std::unique_ptr<TransferBatch>> batches;  // not yet waited for, in the order started
  std::uint64_t started = 0;
  std::uint64_t issued = 0;  // number of batches issued to the GPU
  std::uint64_t waited = 0;
  Queue* waiter = nullptr;
  std::uint64_t waiter_number = 0;
  std::vector<Peer> peers;  // by rank in the group

  const TransferBatch* oldest() const { return batches.empty() ? nullptr : batches.front().get(); }
  template <class F>
  void each_peer(F f) const {
    for (const Peer& peer : peers) f(peer.world, peer.traffic);
  }
  TransferBatch* batch(std::uint64_t number) const {
    const std::uint64_t index = number - waited - 1;
    return index < batches.size() ? batches[index].get() : nullptr;
  }
};

/// For each queue of a rank, the work that a point of one queue is known to come after.
using Progress = std::vector<std::uint64_t>;

struct Closure : ClosureBase {
  Event issued, finished;
  Progress at_issue, at_finish;
};

/// The CUDA backend's types, for the code shared by all one-process backends.
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
  Event last;           // recorded on the stream, with no work issued since; otherwise empty
  Event stretch;        // start of the arithmetic since the last wait; empty: none yet
  bool worked = false;  // true if there was arithmetic since `stretch`
  Backlog backlog;      // operations not known to be done
  Progress known;       // by queue of the rank; for this queue: uses of memory so far
  std::vector<OpenRegion> regions;
};

/// A block of memory, with the queues that used it besides the one that allocated it, and when.
struct GpuBlock : Block {
  struct Use {
    int queue;
    std::uint64_t position;
  };
  std::vector<Use> elsewhere;
};

/// One rank of this backend.
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

  /// Records a span from `begin` to the last of `ends` in the ledgers, once the GPU has passed it.
  void span(Event begin, std::vector<Event> ends, Timeline::Tell tell);
  void note_end();  // end of the program; the GPU has passed it
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

  Event here(Queue& queue) const;  // current position of its stream
  void end_stretch(Queue& queue, const Event& end);
  void waited(Queue& queue, const Event& before, Location where,
              std::uint64_t position);         // its stream waits for something since `before`
  void use(Queue& queue, const Slice& slice);  // by work about to be issued to its stream
  void copy_out(Queue& queue, const Slice& slice, void* bytes, Location where);
  void free(GpuBlock& block);

  Event ended_;             // end of main's program
  double end_seconds_ = 0;  // the same in seconds, once known
  Timeline timeline_;
};

class World final : public WorldBase<Types> {
 public:
  World(const RunOptions& options, const Program& program, int gpu);
  ~World();
  /// True also if the GPU hangs, since freeing its memory would wait for it.
  bool must_stay() const { return lost_ || has_outliving_slices(); }

  // For ranks ------------------------------------------------------------------------------------------------------
  EventPool& events() { return events_; }
  EventClock& clock() { return *clock_; }
  /// Allocates GPU memory in the order of `stream`. If it is full, the host waits for the GPU's pending work.
  void* allocate(std::size_t bytes, Category category, cudaStream_t stream, Location where);
  DeviceMemory& memory() { return memory_; }
  Staging& staging() { return staging_; }

  void wake(Queue& queue);
  void wake_from_set_up(Queue& main) { wake(main); }
  void wake_for_work(Queue& queue) { wake(queue); }
  void wake_after(Queue& main, const Closure&) { wake(main); }
  /// Explicit synchronisation: suspends the running fiber until the GPU has passed the event.
  void pass(const Event& event, Location where);
  void post(TransferBatch* batch);  // begins now, or after the batch before it on its endpoint
  Peer& peer(Endpoint& endpoint, int rank);
  StuckBatch stuck_batch(const Queue& queue);           // explain.cpp
  std::vector<UnmatchedHalf> unmatched_halves() const;  // explain.cpp

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

  template <class F>
  void each_peer(F f) {  // f(endpoint, peer)
    for (auto& rank : ranks_)
      rank->each_endpoint([&](Endpoint& endpoint) {
        for (Peer& peer : endpoint.peers) f(endpoint, peer);
      });
  }
  bool open_doors();
  void tell_times();  // updates the ledgers as far as the GPU has come
  /// Polls passed() until it is true. False if the GPU hangs: the run has then failed with TIMEOUT, and `what` is
  /// appended to the message.
  template <class Passed>
  bool await(Passed passed, const std::string& what = "");
  bool idle() const;  // true if the GPU has done all its work
  void await_doors();
  void await_or_throw(const Event& event);
  std::uint64_t done_so_far();  // operations of all queues
  std::string hang() const;     // explain.cpp
  void begin_all();
  void begin(TransferBatch& batch);
  void meet(Posted send, Posted receive, Endpoint& receiver);
  void issued(TransferBatch& batch, std::size_t index);
  bool set_sends_aside();  // copies sends that need no receive to complete; false if there are none
  void buffer_eagerly(Posted& send);
  void drop_messages();

  EventPool events_;
  std::unique_ptr<EventClock> clock_;
  DeviceMemory memory_;
  Staging staging_;
  std::deque<Queue*> runnable_;
  std::deque<SyncPoint> sync_points_;
  std::deque<TransferBatch*> beginning_;  // batches whose turn has come
  bool lost_ = false;                     // true if the GPU hangs
};

}  // namespace lockstep::cuda
