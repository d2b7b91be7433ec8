// Entry point of the simulator: run(options, program) on virtual ranks, in one process and one thread.
#include "common/runtime/run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "common/backends/sim/world.hpp"
#include "common/runtime/device_notes.hpp"

namespace lockstep {

Outcome run(const RunOptions& options, const Program& program) {
  constexpr int kMostRanks = 15'000;  // each fiber's guarded stack takes two of a process's 65,530 mappings
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(Verdict::usage, fmt::format("{} ranks: the simulator runs 1 to {}", options.ranks, kMostRanks));
  const auto begin = std::chrono::steady_clock::now();
  auto world = std::make_unique<sim::World>(options, program);
  Outcome outcome = world->run();
  outcome.trace.backend = backend_name();
  outcome.trace.machine = options.machine.name;
  outcome.trace.modelled = true;
  outcome.trace.eager_bytes = options.machine.eager_bytes;
  outcome.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  drop_or_keep(std::move(world));
  return outcome;
}

std::vector<DeviceNote> device_notes() { return {}; }
const char* backend_name() { return "sim"; }
bool is_judge() { return true; }
bool has_core_each(int) { return true; }
Session::Session(int&, char**&) {}
Session::~Session() = default;
int Session::available_ranks() const { return 0; }

}  // namespace lockstep
