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

}  // namespace lockstep::sim
