// Links of the virtual cluster: decide when each message moves.
//
// A message needs every port on its path at once and holds each for bytes / that port's bandwidth. At any instant, all
// posts precede all grants. Messages are then granted in order of ready time, then issue, each if all its ports are
// free.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/fibers/errors.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::sim {

struct TransferBatch;
struct Message;

/// A message that can move from `ready` on.
struct ReadyMessage {
  double ready = 0;
  std::uint64_t issue = 0;
  Message* message = nullptr;
};

inline bool goes_before(const ReadyMessage& a, const ReadyMessage& b) {
  return a.ready != b.ready ? a.ready < b.ready : a.issue < b.issue;
}
struct GoesLater {
  bool operator()(const ReadyMessage& a, const ReadyMessage& b) const { return goes_before(b, a); }
};
/// Earliest ready time first, then earliest issue.
template <class T>
using InOrder = std::priority_queue<T, std::vector<T>, GoesLater>;

struct Port {
  double free_at = 0;
  std::unique_ptr<InOrder<ReadyMessage>> waiting;  // null until first needed
  bool alarm = false;                              // an event at free_at is scheduled

  bool has_waiting() const { return waiting && !waiting->empty(); }
};

inline constexpr int kMaxLevels = 4;

/// Cost of messages between ranks with the same innermost common level.
struct Link {
  double alpha = 0;
  double beta = 0;
  const Machine* machine = nullptr;  // if a table gives the cost instead of β

  /// Seconds for which a message of `bytes` occupies its path, after its latency.
  double busy_seconds(double bytes) const {
    return machine ? std::max(0.0, machine->message_seconds(0, bytes) - alpha) : bytes * beta;
  }
};

/// Ports that a message crosses: its sender's egress and its receiver's ingress ports, of every level up to `level`.
struct Path {
  std::uint64_t from : 28 = 0;  // world ranks
  std::uint64_t to : 28 = 0;
  std::uint64_t level : 8 = 0;
};

/// Copy of a message sent before its receive was posted. The sender's batch may be over, and its slices gone.
struct EarlyMessage {
  Half sent;
  double arrival = 0;
  std::unique_ptr<char[]> payload;
};

/// One message, from the moment its first half is posted.
struct Message {
  TransferBatch* sender = nullptr;    // null until the sender's half is posted; not to be used once buffered
  TransferBatch* receiver = nullptr;  // null until the receiver's half is posted
  const Transfer* out = nullptr;      // the sender's half; null once buffered
  const Transfer* in = nullptr;       // the receiver's half
  Path path;
  std::uint64_t bytes = 0;
  std::uint64_t issue = 0;              // order of sends in the whole run
  Message* next = nullptr;              // in its pair's queue of unmatched halves
  std::unique_ptr<EarlyMessage> early;  // kept for the next message that is buffered
};

class Network {
 public:
  Network(const Machine& machine, int ranks);

  int level_between(int from, int to) const { return machine_.level_between(from, to); }
  const Link& link(Path path) const { return levels_[path.level].link; }
  void add_ready(Message* message, double now) { ready_.push_back({now, message->issue, message}); }
  void port_freed(Port* port) { freed_.push_back(port); }
  bool has_work() const { return !ready_.empty() || !freed_.empty(); }

  /// Either a message granted now, or a port that messages now wait for.
  struct Decision {
    Message* granted = nullptr;
    Port* awaited = nullptr;
  };
  /// First come, first served: in order of (ready, issue), grants each ready message if every port on its path is free,
  /// and occupies these ports; otherwise the message waits for the first busy port. Returns the decisions, in order;
  /// valid until the next call.
  std::span<const Decision> grant_in_order(double now);

 private:
  struct Candidate : ReadyMessage {
    Port* from = nullptr;  // port whose queue it was taken from, or null
  };
  /// Both directions of one rank's link, or of a shared link. A bus has one port for both.
  struct alignas(64) PortPair {
    Port egress, ingress;
  };
  struct Level {
    Link link;
    double seconds_per_byte = 0;  // per port
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
  void consider_next(Port* port);
  void grant_or_wait(const ReadyMessage& message, double now);
  void await(Port* port);

  Machine machine_;
  std::array<Level, kMaxLevels> levels_;
  std::vector<ReadyMessage> ready_;
  std::vector<Port*> freed_;
  InOrder<Candidate> candidates_;
  std::vector<Decision> decisions_;
};

}  // namespace lockstep::sim
