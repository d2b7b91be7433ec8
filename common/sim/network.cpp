#include "common/sim/network.hpp"

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
  for (auto& level : ports_)
    for (auto& direction : level) direction.resize(ranks);
}

Port* Network::port(std::vector<std::unique_ptr<Port>>& ports, int index, double bytes_per_second) {
  auto& slot = ports[index];
  if (!slot) {
    slot = std::make_unique<Port>();
    slot->seconds_per_byte = 1 / bytes_per_second;
  }
  return slot.get();
}

Path Network::path(int from, int to) {
  const int level = machine_.level_between(from, to);
  Path path;
  path.alpha = machine_.alpha(level);
  path.beta = machine_.beta(level);
  for (int i = 0; i <= level; ++i) {
    const double bytes_per_second = machine_.levels[i].bytes_per_second;
    const Machine::LevelPorts crossed = machine_.ports(i, from, to);
    Port* out = port(ports_[i][0], crossed.egress, bytes_per_second);
    Port* in = port(ports_[i][crossed.bus ? 0 : 1], crossed.ingress, bytes_per_second);
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

}  // namespace lockstep::sim
