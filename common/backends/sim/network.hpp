// Links of the virtual cluster: which message goes when.
//
// A message needs every port on its path at once and holds each for bytes / that port's bandwidth. At one instant all
// posts precede all grants; then messages are granted by ready time, then issue order, each if all its ports are free.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/fibers/errors.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::sim {

struct Batch;
struct Message;

/// Messages by priority: the one that is ready first, then the one issued first.
class WaitingMessages {
 public:
  bool empty() const { return heap_.empty(); }
  void put(Message* message);
  Message* take();

 private:
  struct Entry {
    double ready;
    std::uint64_t issue;
    Message* message;
  };
  static bool after(const Entry& a, const Entry& b) {
    return a.ready != b.ready ? a.ready > b.ready : a.issue > b.issue;
  }
  std::vector<Entry> heap_;
};

struct Port {
  double free_at = 0;
  std::unique_ptr<WaitingMessages> waiting;  // null: none ever did
  bool alarm = false;                        // an event at free_at is on its way

  bool has_waiting() const { return waiting && !waiting->empty(); }
};

inline constexpr int kMaxLevels = 4;

/// What messages cost whose innermost common level is the same.
struct Link {
  double alpha = 0;
  double beta = 0;
  const Machine* machine = nullptr;  // where a table prices these messages in place of β

  /// How long a message of so many bytes has its path after its latency.
  double busy_seconds(double bytes) const {
    return machine ? std::max(0.0, machine->message_seconds(0, bytes) - alpha) : bytes * beta;
  }
};

/// Which ports a message crosses: its sender's egress and its receiver's ingress ports of every level up to one.
struct Path {
  std::uint64_t from : 28 = 0;  // world ranks
  std::uint64_t to : 28 = 0;
  std::uint64_t level : 8 = 0;
};

/// One message, from the moment its first half is posted. Most need no more than the first line of the cache.
struct alignas(64) Message {
  Batch* sender = nullptr;        // not null once the sender's half is posted; not to be used once buffered
  Batch* receiver = nullptr;      // not null once the receiver's half is posted
  const Transfer* out = nullptr;  // the sender's half; null once buffered
  const Transfer* in = nullptr;   // the receiver's half
  Path path;
  std::uint64_t bytes = 0;
  double ready = 0;
  std::uint64_t issue = 0;  // order of sends over the whole run

  Message* next = nullptr;  // in its pair's queue of unmatched halves
  /// Set aside: what left before it was received. The sender's batch may be over, and its slices gone.
  Half sent;
  double arrival = 0;
  std::unique_ptr<char[]> early;  // its payload
};

inline bool goes_before(const Message* a, const Message* b) {
  return a->ready != b->ready ? a->ready < b->ready : a->issue < b->issue;
}

class Network {
 public:
  Network(const Machine& machine, int ranks);

  int level_between(int from, int to) const { return machine_.level_between(from, to); }
  const Link& link(Path path) const { return levels_[path.level].link; }
  void add_ready(Message* message) { ready_.push_back(message); }
  void port_freed(Port* port) { freed_.push_back(port); }
  bool has_work() const { return !ready_.empty() || !freed_.empty(); }

  /// A message that goes now, or else a port that messages wait for from now on.
  struct Decision {
    Message* granted = nullptr;
    Port* awaited = nullptr;
  };
  /// First come, first served: each message that is ready goes if every port on its path is free, in order of (ready,
  /// issue), and then holds them; else it waits for the first that is not. What was decided, in order, until the next
  /// call.
  std::span<const Decision> grant_in_order(double now);

 private:
  struct Candidate {
    Message* message;
    Port* from;  // the queue it was taken from, or null
  };
  static bool goes_later(const Candidate& a, const Candidate& b) { return goes_before(b.message, a.message); }
  /// Both directions of one rank's link, or of what shares one. A bus has one port for both.
  struct alignas(64) PortPair {
    Port egress, ingress;
  };
  struct Level {
    Link link;
    double seconds_per_byte = 0;  // of one port
    int width = 1;                // ranks that share a port
    bool bus = false;
    std::vector<PortPair> ports;
    PortPair& of(std::uint64_t rank) { return ports[width == 1 ? rank : rank / static_cast<unsigned>(width)]; }
  };
  struct Crossed {
    Port *egress, *ingress;
  };
  Crossed crossed(Level& level, Path path) {
    Port& egress = level.of(path.from).egress;
    return {&egress, level.bus ? &level.of(path.to).egress : &level.of(path.to).ingress};
  }
  Port* busy_port(Path path, double now);
  void consider(Message* message, Port* from);
  void grant_or_wait(Message* message, double now);
  void await(Port* port);

  Machine machine_;
  std::array<Level, kMaxLevels> levels_;
  std::vector<Message*> ready_;
  std::vector<Port*> freed_;
  std::vector<Candidate> candidates_;  // heap
  std::vector<Decision> decisions_;
};

}  // namespace lockstep::sim
