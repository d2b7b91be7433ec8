// Links of the virtual cluster: which message goes when.
//
// A message needs every port on its path at once and holds each for bytes / that port's bandwidth. At one instant all
// posts precede all grants; then messages are granted by ready time, then issue order, each if all its ports are free.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/fibers/errors.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::sim {

struct Batch;
struct Message;

struct Port {
  double free_at = 0;
  double seconds_per_byte = 0;
  bool alarm = false;             // an event at free_at is on its way
  std::vector<Message*> waiting;  // heap by priority
};

inline constexpr int kMaxLevels = 4;

struct Path {
  double alpha = 0;
  double beta = 0;
  int count = 0;
  std::array<Port*, 2 * kMaxLevels> ports{};
};

/// One message, from the moment its first half is posted. Most need no more than the first line of the cache.
struct alignas(64) Message {
  Batch* sender = nullptr;        // not null once the sender's half is posted; not to be used once buffered
  Batch* receiver = nullptr;      // not null once the receiver's half is posted
  const Transfer* out = nullptr;  // the sender's half; null once buffered
  const Transfer* in = nullptr;   // the receiver's half
  const Path* path = nullptr;
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

  Path path(int from, int to);             // world ranks
  Path path(int from, int to, int level);  // as if `level` were the innermost that joins them
  void add_ready(Message* message) { ready_.push_back(message); }
  void port_freed(Port* port) { freed_.push_back(port); }
  bool has_work() const { return !ready_.empty() || !freed_.empty(); }

  /// Grants what can go at `now`: calls granted(message), and alarm(port) for ports that messages now wait for.
  template <class Granted, class Alarm>
  void grant(double now, Granted granted, Alarm alarm);

 private:
  static Port* busy_port(const Message* message, double now);
  void enqueue(Port* port, Message* message);
  Message* dequeue(Port* port);

  Machine machine_;
  std::array<std::array<std::vector<Port>, 2>, kMaxLevels> ports_;  // [level][egress, ingress][index]
  std::vector<Message*> ready_;
  std::vector<Port*> freed_;
  struct Candidate {
    Message* message;
    Port* from;  // the queue it was taken from, or null
  };
  std::vector<Candidate> candidates_;  // heap
};

template <class Granted, class Alarm>
void Network::grant(double now, Granted granted, Alarm alarm) {
  auto later = [](const Candidate& a, const Candidate& b) { return goes_before(b.message, a.message); };
  auto consider = [&](Message* message, Port* from) {
    candidates_.push_back({message, from});
    std::push_heap(candidates_.begin(), candidates_.end(), later);
  };
  auto take = [&](const Message* message) {
    for (int i = 0; i < message->path->count; ++i) {
      Port* port = message->path->ports[i];
      port->free_at = now + static_cast<double>(message->bytes) * port->seconds_per_byte;
    }
  };
  auto try_grant = [&](Message* message) {
    Port* busy = busy_port(message, now);
    if (!busy) {
      take(message);
      granted(message);
      return true;
    }
    enqueue(busy, message);
    if (!busy->alarm) {
      busy->alarm = true;
      alarm(busy);
    }
    return false;
  };

  if (freed_.empty()) {  // the usual case: new messages only, mostly in order already
    if (!std::is_sorted(ready_.begin(), ready_.end(), goes_before))
      std::sort(ready_.begin(), ready_.end(), goes_before);
    for (std::size_t i = 0; i < ready_.size(); ++i) try_grant(ready_[i]);
    ready_.clear();
    return;
  }
  for (Message* message : ready_) consider(message, nullptr);
  ready_.clear();
  for (Port* port : freed_)
    if (!port->waiting.empty()) consider(dequeue(port), port);
  freed_.clear();
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), later);
    auto [message, from] = candidates_.back();
    candidates_.pop_back();
    try_grant(message);
    // The queue it came from gives its next candidate while its port is still free, else waits for the next alarm.
    if (!from) continue;
    if (from->free_at <= now) {
      if (!from->waiting.empty()) consider(dequeue(from), from);
    } else if (!from->waiting.empty() && !from->alarm) {
      from->alarm = true;
      alarm(from);
    }
  }
}

}  // namespace lockstep::sim
