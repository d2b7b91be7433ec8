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
  for (int index = 0; index <= last; ++index) {
    Level& level = levels_[index];
    level.link = {machine_.alpha(index), machine_.beta(index),
                  index == 0 && !machine_.measured.exchanges.empty() ? &machine_ : nullptr};
    level.seconds_per_byte = 1 / machine_.levels[index].bytes_per_second;
    const Machine::LevelPorts of_last = machine_.ports(index, ranks - 1, ranks - 1);
    level.bus = of_last.bus;
    level.width = machine_.ranks_per_port(index);
    if (level.width == 0) level.width = ranks;
    level.ports = std::vector<PortPair>(of_last.egress + 1);
  }
}

Port* Network::busy_port(Path path, double now) {
  for (std::size_t level = 0; level <= path.level; ++level) {
    const Crossed ports = crossed(levels_[level], path);
    if (ports.egress->free_at > now) return ports.egress;
    if (ports.ingress->free_at > now) return ports.ingress;
  }
  return nullptr;
}

void Network::consider_next(Port* port) {
  candidates_.push({port->waiting->top(), port});
  port->waiting->pop();
}

void Network::await(Port* port) {
  if (port->alarm) return;
  port->alarm = true;
  decisions_.push_back({.awaited = port});
}

void Network::grant_or_wait(const ReadyMessage& ready, double now) {
  Message* message = ready.message;
  const Path path = message->path;
  if (Port* busy = busy_port(path, now)) {
    if (!busy->waiting) busy->waiting = std::make_unique<InOrder<ReadyMessage>>();
    busy->waiting->push(ready);
    await(busy);
    return;
  }
  const auto bytes = static_cast<double>(message->bytes);
  const Link& link = levels_[path.level].link;
  for (std::size_t level = 0; level <= path.level; ++level) {
    const Crossed ports = crossed(levels_[level], path);
    const double until = now + (link.machine ? link.busy_seconds(bytes) : bytes * levels_[level].seconds_per_byte);
    ports.egress->free_at = until;
    ports.ingress->free_at = until;
  }
  decisions_.push_back({.granted = message});
}

std::span<const Network::Decision> Network::grant_in_order(double now) {
  decisions_.clear();
  if (freed_.empty()) {  // the usual case: only new messages, mostly in order already
    if (!std::is_sorted(ready_.begin(), ready_.end(), goes_before))
      std::sort(ready_.begin(), ready_.end(), goes_before);
    for (const ReadyMessage& message : ready_) grant_or_wait(message, now);
    ready_.clear();
    return decisions_;
  }
  for (const ReadyMessage& message : ready_) candidates_.push({message, nullptr});
  ready_.clear();
  for (Port* port : freed_)
    if (port->has_waiting()) consider_next(port);
  freed_.clear();
  while (!candidates_.empty()) {
    const Candidate candidate = candidates_.top();
    candidates_.pop();
    grant_or_wait(candidate, now);
    Port* from = candidate.from;
    // The port's queue offers its next candidate if the port is still free; otherwise it waits for the next alarm.
    if (!from || !from->has_waiting()) continue;
    if (from->free_at <= now)
      consider_next(from);
    else
      await(from);
  }
  return decisions_;
}

}  // namespace lockstep::sim
