// The virtual cluster: ranks, their queues and groups, and the scheduler, which always runs the earliest queue.
//
// One OS thread does everything. A queue's fiber may run ahead of the global clock as long as other queues cannot
// affect it: a rank that uses only main stops only to wait for messages.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "common/backends/sim/event_queue.hpp"
#include "common/backends/sim/peers.hpp"
#include "common/runtime/device.hpp"
#include "common/runtime/fibers/rank_base.hpp"
#include "common/runtime/fibers/world_base.hpp"
#include "common/runtime/race/race.hpp"

namespace lockstep::sim {

class World;
class SimRank;
struct Endpoint;
struct Queue;

/// Transfers that were started together.
struct alignas(64) TransferBatch {
  Endpoint* endpoint = nullptr;
  std::uint64_t number = 0;
  std::vector<Transfer> transfers;
  double begin = 0;
  double completion = 0;          // final once pending is 0
  int pending = 0;                // transfers whose completion time is unknown
  bool by_library = false;        // part of a LibraryCollective: takes no time itself
  TransferBatch* next = nullptr;  // next batch of its endpoint
  double posted = 0;
  Location where{};
  const char* collective = nullptr;
  std::unique_ptr<VectorClock> clock;  // for race checks
};

/// One rank's end of a communicator, that is, of a (group, queue). Batches are numbered from 1.
struct alignas(64) Endpoint {
  TransferBatch* first = nullptr;       // oldest batch not waited for
  TransferBatch* incomplete = nullptr;  // oldest batch whose completion time is unknown
  TransferBatch* last = nullptr;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;  // number of batches with known completion
  std::uint64_t waited = 0;     // number of batches waited for
  double free_at = 0;           // completion of the last completed batch
  Queue* waiter = nullptr;
  std::uint64_t waiter_number = 0;
  Peer* recent_out = nullptr;  // peers last sent to and received from
  Peer* recent_in = nullptr;
  SimRank* owner = nullptr;
  int group = 0;
  int queue = 0;
  int rank = 0;            // the owner's rank in the group
  int component = -1;      // for race checks
  bool symmetric = false;  // every peer does what this rank does
  double share = 1;        // symmetric: fraction of its bytes for which messages hold ports
  Peers peers;

  const TransferBatch* oldest() const { return first; }
  template <class F>
  void each_peer(F f) const {
    peers.each([&](const Peer& peer) { f(static_cast<int>(peer.world), peer.traffic); });
  }
  /// A batch that has been started and not waited for.
  const TransferBatch* batch(std::uint64_t number) const {
    const TransferBatch* at = first;
    while (at->number != number) at = at->next;
    return at;
  }
};

struct Closure : ClosureBase {
  double issued = 0;
  double finished = -1;
  VectorClock clock;
};

/// The simulator's types, for the code shared by all one-process backends.
struct Types {
  using World = sim::World;
  using BackendRank = sim::SimRank;
  using Queue = sim::Queue;
  using Closure = sim::Closure;
  using Endpoint = sim::Endpoint;
};

/// An open collective of a symmetric group that has its library's price (symmetry.hpp).
struct LibraryCollective {
  int depth = 0;  // open regions, this one and those in it; 0: there is no such collective
  int group = 0;
  double bytes = 0, sent = 0;
};

/// One ordered queue of one rank; queue 0 is main. Data that every message needs is in one cache line.
struct alignas(64) Queue : QueueBase<Types> {
  double clock = 0;
  Endpoint* recent = nullptr;  // the endpoint last used
  Closures<Closure> closures;
  bool in_operation = false;  // main: arithmetic runs until operation_end
  double operation_end = 0;
  int component = -1;
  LibraryCollective library;
};

/// One rank of the simulator.
class alignas(64) SimRank final : public RankBase<Types> {
 public:
  SimRank(World& world, int rank);
  ~SimRank() override;
  Rank symmetric_group(int size, int level, double share, CollectiveSeconds library);  ///< see symmetry.hpp

  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) override;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  double now(int queue) const override { return queues_[queue]->clock; }
  void release(Block& block) override;

  void ledger_taken() {
    note_race();
    each_endpoint([](Endpoint& endpoint) { endpoint.peers.clear(); });
  }
  /// True if other queues of this rank are working.
  bool watched() const;
  double jitter();  // with --perturb: extra seconds, often none

 private:
  friend class RankBase<Types>;
  void made(Queue& queue);
  void made(Endpoint& endpoint);
  void wait_batch(Queue& queue, const Ticket& ticket, Location where);
  void issued(Queue& main, Closure& closure);
  void begins(Queue& queue, Closure& closure);
  void ends(Queue& queue, Closure& closure);
  void waited_for(Queue& main, Closure& closure, Location where, std::uint64_t position);
  void program_ended(Queue&) {}
  double seconds(const RankLedger&) const { return queues_[0]->clock; }

  /// A library's collective on a queue other than main, and its share of the GPU (library_share). Main's arithmetic has
  /// been extended for it up to `since`.
  struct Held {
    int queue = 0;
    double share = 0, since = 0;
  };
  void hold(const Queue& queue, int group);
  void let_go(const Queue& queue);
  void finish_operation(Queue& main);

  double draw_jitter();
  void sync(Queue& queue);  // lets the world catch up, if others can see what this queue does
  Endpoint& endpoint(Queue& queue, int group) {
    if (!queue.recent || queue.recent->group != group) queue.recent = &endpoint_at(group, queue.index);
    return *queue.recent;
  }

  RaceDetector* races() const;  // null: no checks
  /// Moment of what the queue does next (`ahead` 1), or of what it has just noted (0).
  RaceDetector::Moment moment(const Queue& queue, std::uint64_t ahead);
  void note_race();

  std::uint64_t draws_ = 0;
  std::unique_ptr<RaceDetector> races_;
  std::vector<Held> held_;  // only with the library's times
};

class World final : public WorldBase<Types> {
 public:
  World(const RunOptions& options, const Program& program);

  // For ranks -----------------------------------------------------------------------------------------------------
  double time() const { return time_; }
  Device* device() { return device_.get(); }

  void sleep_until(Queue& queue, double time);  // suspends the running fiber until the global clock reaches it
  void wake_from_set_up(Queue& main) { wake(main, main.clock); }
  void wake_for_work(Queue& queue) { wake_at(queue, begin_of_work(queue)); }
  void wake_after(Queue& main, const Closure& closure) { wake(main, closure.finished); }
  void post(TransferBatch* batch);  // begins now, at its time, or after the batch before it
  TransferBatch* new_batch();
  void retire(TransferBatch* batch);
  StuckBatch stuck_batch(const Queue& queue);           // explain.cpp
  std::vector<UnmatchedHalf> unmatched_halves() const;  // explain.cpp

 private:
  friend class WorldBase<Types>;
  enum class EventKind : std::uint8_t { wake, begin, port };
  struct Event {
    EventKind kind;
    void* what;
  };

  std::size_t stack_bytes() const { return options_.stack_bytes; }
  void started(Queue& queue) { events_.put(begin_of_work(queue), {EventKind::wake, &queue}); }
  /// Earliest time at which an idle queue can begin a closure that main launches.
  double begin_of_work(const Queue& queue) const { return std::max(queue.owner->queue(0).clock, time_); }
  void loop();
  void drain() {}
  void release_left_memory();

  void handle(Event event);
  void wake(Queue& queue, double time);  // resumes a blocked queue at `time`
  void wake_at(Queue& queue, double time);
  void begin_at(double time, TransferBatch* batch);
  void begin(TransferBatch* batch);
  void begin_symmetric(TransferBatch* batch);
  Peer& count_message(const TransferBatch& batch, const Transfer& transfer);
  void post_send(TransferBatch* batch, Transfer& transfer);
  void post_receive(TransferBatch* batch, Transfer& transfer);
  static Half half_of(const TransferBatch& batch, const Slice& slice);
  void check_match(const Message& message);
  void granted(Message* message);
  void buffer_eagerly(Message* message, double arrival);
  void deliver(Message* message, double arrival);
  void half_done(TransferBatch* batch, double time);
  void completed(TransferBatch* batch);
  bool unmatched(Endpoint& endpoint, const Transfer& transfer);  // explain.cpp
  Peer& peer(Endpoint& endpoint, int rank);
  /// Looks up a peer. The last peer is often the next one and, in an exchange, also that of the other direction.
  Peer& recent_peer(Endpoint& endpoint, int rank, Peer*& recent, Peer* other_way) {
    if (recent && recent->rank == rank) return *recent;
    return *(recent = other_way && other_way->rank == rank ? other_way : &peer(endpoint, rank));
  }
  Peer& peer_to(Endpoint& endpoint, int rank) {
    return recent_peer(endpoint, rank, endpoint.recent_out, endpoint.recent_in);
  }
  Peer& peer_from(Endpoint& endpoint, int rank) {
    return recent_peer(endpoint, rank, endpoint.recent_in, endpoint.recent_out);
  }
  Message* new_message();
  void recycle(Message* message);

  std::unique_ptr<Device> device_;
  Network network_;
  double time_ = 0;
  EventQueue<Event> events_;
  std::vector<Queue*> runnable_;
  std::uint64_t issues_ = 0;

  std::pmr::deque<Message> message_store_{&arena_};
  std::vector<Message*> free_messages_;
  std::pmr::deque<TransferBatch> batch_store_{&arena_};
  std::vector<TransferBatch*> free_batches_;
};

// Every message asks this; the world is in the cache.
inline bool SimRank::watched() const { return live_closures_ > 0 || world_.options().perturb; }
inline double SimRank::jitter() { return world_.options().perturb ? draw_jitter() : 0; }
inline RaceDetector* SimRank::races() const { return world_.options().check_races ? races_.get() : nullptr; }

}  // namespace lockstep::sim
