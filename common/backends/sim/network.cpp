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
  ports_of_.resize(ranks);
  for (int level = 0; level <= last; ++level) {
    links_[level] = {machine_.alpha(level), machine_.beta(level),
                     level == 0 && !machine_.measured.exchanges.empty() ? &machine_ : nullptr};
    make_ports(level);
  }
}

void Network::make_ports(int level) {
  auto& [egress, ingress] = ports_[level];
  const int ranks = static_cast<int>(ports_of_.size());
  const int count = machine_.ports(level, ranks - 1, ranks - 1).egress + 1;  // they count up with the ranks
  for (auto* direction : {&egress, &ingress}) {
    direction->resize(count);
    for (Port& port : *direction) port.seconds_per_byte = 1 / machine_.levels[level].bytes_per_second;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const Machine::LevelPorts own = machine_.ports(level, rank, rank);
    ports_of_[rank].egress[level] = &egress[own.egress];
    ports_of_[rank].ingress[level] = &(own.bus ? egress : ingress)[own.ingress];
  }
}

Port* Network::busy_port(Path path, double now) const {
  const PortsOfRank &from = ports_of_[path.from], &to = ports_of_[path.to];
  for (std::size_t level = 0; level <= path.level; ++level) {
    if (from.egress[level]->free_at > now) return from.egress[level];
    if (to.ingress[level]->free_at > now) return to.ingress[level];
  }
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
  const Path path = message->path;
  if (Port* busy = busy_port(path, now)) {
    enqueue(busy, message);
    await(busy);
    return;
  }
  const auto bytes = static_cast<double>(message->bytes);
  const bool by_table = links_[path.level].machine != nullptr;
  const auto hold = [&](Port* port) {
    port->free_at = now + (by_table ? links_[path.level].busy_seconds(bytes) : bytes * port->seconds_per_byte);
  };
  const PortsOfRank &from = ports_of_[path.from], &to = ports_of_[path.to];
  for (std::size_t level = 0; level <= path.level; ++level) {
    hold(from.egress[level]);
    hold(to.ingress[level]);
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
