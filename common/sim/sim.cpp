// The simulator's entry point: run(options, program) on virtual ranks, in one process and one thread.
#include <fmt/format.h>

#include <chrono>

#include "common/run.hpp"
#include "common/sim/world.hpp"

namespace lockstep {

namespace {
/// Slices that outlive their run will ask their rank to take them back, whenever that is: their world stays for good,
/// reachable from here, so that a leak checker knows that it is meant.
void keep_for_good(std::unique_ptr<sim::World> world) {
  world->drop_fibers();
  static auto* const kept = new std::vector<std::unique_ptr<sim::World>>;
  kept->push_back(std::move(world));
}
}  // namespace

Outcome run(const RunOptions& options, const Program& program) {
  constexpr int kMostRanks = 15'000;  // each fiber's guarded stack takes two of the 65,530 mappings of a process
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(Verdict::usage, fmt::format("{} ranks: the simulator runs 1 to {}", options.ranks, kMostRanks));
  const auto begin = std::chrono::steady_clock::now();
  auto world = std::make_unique<sim::World>(options, program);
  Outcome outcome = world->run();
  if (world->has_outliving_slices()) keep_for_good(std::move(world));
  outcome.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

const char* backend_name() { return "sim"; }
bool is_judge() { return true; }
Session::Session(int&, char**&) {}
Session::~Session() = default;
int Session::available_ranks() const { return 0; }

}  // namespace lockstep
