// Machines with closed-form times, for the simulator's tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "common/runtime/run.hpp"

namespace lockstep::simulator_tests {

inline constexpr double kAlpha = 3e-6, kBeta = 1 / 13e9, kGamma = 1 / 170e9;

inline RunOptions on(int ranks, Machine machine = Machine::uniform(kAlpha, kBeta, kGamma)) {
  RunOptions options;
  options.ranks = ranks;
  options.machine = std::move(machine);
  options.phantom = true;
  return options;
}

/// Links inside a node, and between nodes one network port per rank or per node.
inline Machine cluster(int ranks_per_node, bool shared_port) {
  Machine machine = Machine::uniform(1e-6, 1 / 200e9, kGamma);
  machine.levels = {{"inside", ranks_per_node, 1e-6, 200e9, false}, {"across", 0, 4e-6, 10e9, shared_port}};
  return machine;
}

inline double seconds(const RunOptions& options, std::size_t count, const std::function<void(Rank, Slice)>& algorithm) {
  return run(options, [&](Rank me) { algorithm(me, me.allocate(count, DType::f32, Category::gradient)); })
      .check()
      .seconds;
}

inline void expect_close(double actual, double expected) { EXPECT_NEAR(actual / expected, 1, 1e-12); }

}  // namespace lockstep::simulator_tests
