#include "common/backends/sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::sim {

Network::Network(const Machine& machine, int ranks) : machine_(machine) {
  if (machine.levels.size() > kMaxLevels)
    throw Error(Verdict::usage, fmt::format("machine {} has {} link levels; the simulator takes up to {}", machine.name,
                                            machine.levels.size(), kMaxLevels));
  const int last = static_cast<int>(machine.levels.size()) - 1;
  const int holds = last < 0 ? 1 : machine.levels[last].ranks;
  if (last < 0 ? ranks > 1 : holds != 0 && ranks > holds)
    throw Error(Verdict::usage,
                fmt::format("{} ranks do not fit machine {}, which holds {}", ranks, machine.name, holds));
  for (std::size_t level = 0; level < machine.levels.size(); ++level)
    for (auto& direction : ports_[level]) {
      direction.resize(ranks);
      for (Port& port : direction) port.seconds_per_byte = 1 / machine.levels[level].bytes_per_second;
    }
}

Path Network::path(int from, int to) { return path(from, to, machine_.level_between(from, to)); }

Path Network::path(int from, int to, int level) {
  Path path;
  path.alpha = machine_.alpha(level);
  path.beta = machine_.beta(level);
  if (level == 0 && !machine_.measured.exchanges.empty()) path.machine = &machine_;
  for (int i = 0; i <= level; ++i) {
    const Machine::LevelPorts crossed = machine_.ports(i, from, to);
    Port* out = &ports_[i][0][crossed.egress];
    Port* in = &ports_[i][crossed.bus ? 0 : 1][crossed.ingress];
    path.ports[path.count++] = out;
    if (in != out) path.ports[path.count++] = in;
  }
  return path;
}

Port* Network::busy_port(const Message* message, double now) {
  for (int i = 0; i < message->path->count; ++i)
    if (message->path->ports[i]->free_at > now) return message->path->ports[i];
  return nullptr;
}

namespace {
bool after(const Message* a, const Message* b) { return goes_before(b, a); }
}  // namespace

void Network::enqueue(Port* port, Message* message) {
  port->waiting.push_back(message);
  std::push_heap(port->waiting.begin(), port->waiting.end(), after);
}

Message* Network::dequeue(Port* port) {
  std::pop_heap(port->waiting.begin(), port->waiting.end(), after);
  Message* message = port->waiting.back();
  port->waiting.pop_back();
  return message;
}

void Network::consider(Message* message, Port* from) {
  candidates_.push_back({message, from});
  std::push_heap(candidates_.begin(), candidates_.end(), goes_later);
}

void Network::await(Port* port) {
  if (port->alarm) return;
  port->alarm = true;
  decisions_.push_back({.awaited = port});
}

void Network::grant_or_wait(Message* message, double now) {
  if (Port* busy = busy_port(message, now)) {
    enqueue(busy, message);
    await(busy);
    return;
  }
  for (int i = 0; i < message->path->count; ++i) {
    Port* port = message->path->ports[i];
    const auto bytes = static_cast<double>(message->bytes);
    port->free_at =
        now + (message->path->machine ? message->path->busy_seconds(bytes) : bytes * port->seconds_per_byte);
  }
  decisions_.push_back({.granted = message});
}

std::span<const Network::Decision> Network::grant_in_order(double now) {
  decisions_.clear();
  if (freed_.empty()) {  // the usual case: new messages only, mostly in order already
    if (!std::is_sorted(ready_.begin(), ready_.end(), goes_before))
      std::sort(ready_.begin(), ready_.end(), goes_before);
    for (Message* message : ready_) grant_or_wait(message, now);
    ready_.clear();
    return decisions_;
  }
  for (Message* message : ready_) consider(message, nullptr);
  ready_.clear();
  for (Port* port : freed_)
    if (!port->waiting.empty()) consider(dequeue(port), port);
  freed_.clear();
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), goes_later);
    const auto [message, from] = candidates_.back();
    candidates_.pop_back();
    grant_or_wait(message, now);
    // The queue it came from gives its next candidate while its port is still free, else waits for the next alarm.
    if (!from || from->waiting.empty()) continue;
    if (from->free_at <= now)
      consider(dequeue(from), from);
    else
      await(from);
  }
  return decisions_;
}

}  // namespace lockstep::sim
