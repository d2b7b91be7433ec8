// For the tests of 25.4: training steps that only take time, with a limit planted in them, and their ledgers.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "common/analysis/why.hpp"
#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week25_3d/diagnosis.hpp"

namespace lockstep::week25 {

/// One rank's share of a step. The serial step has the arithmetic of all ranks, in as many operations.
struct Plant {
  Limit limit = Limit::none;  // that it should have, when p ranks share what one does alone
  int ranks = 4;
  double arithmetic = 10e-3;  // seconds, without launch
  int operations = 24;
  double launch = 0;    // seconds of each
  double repeated = 0;  // seconds of arithmetic that every rank does, and the serial step once
  double wire = 0;      // seconds of messages: a ring after (or, overlapped, during) the arithmetic
  bool overlap = false;
  int slow_rank = 0;
  double slow = 1;       // times the arithmetic of the others
  int microbatches = 0;  // of a pipeline with a stage a rank; 0: none
};

/// Small costs of all kinds, and one large one: of `kind`, drawn by `seed`.
inline Plant planted(Limit kind, unsigned seed) {
  std::mt19937 random(seed * 7919 + static_cast<unsigned>(kind) +
                      static_cast<unsigned>(testing::drawn({25, 8, seed, static_cast<std::uint64_t>(kind)}, 1u << 30)));
  const auto between = [&](double low, double high) { return low + (high - low) * (random() % 10000) / 1e4; };
  Plant plant{.limit = kind, .ranks = 2 + static_cast<int>(random() % 7)};
  plant.arithmetic = between(2e-3, 20e-3);
  plant.operations = 8 * (1 + static_cast<int>(random() % 4));
  const double own = plant.arithmetic;
  plant.launch = between(0, 0.005) * own / plant.operations;
  plant.wire = between(0, 0.01) * own;
  plant.repeated = between(0, 0.005) * own;
  plant.slow_rank = static_cast<int>(random() % static_cast<unsigned>(plant.ranks));
  plant.slow = between(1, 1.005);
  switch (kind) {
    case Limit::none: break;
    case Limit::not_overlapped: plant.wire = between(0.2, 0.9) * own; break;
    case Limit::communication:
      plant.wire = between(1.5, 4) * own;
      plant.overlap = random() % 2;
      break;
    case Limit::bubble: plant.microbatches = 1 + static_cast<int>(random() % 3); break;
    case Limit::imbalance: plant.slow = between(1.5, 3); break;
    case Limit::launch: plant.launch = between(0.4, 3) * own / plant.operations; break;
    case Limit::repeated: plant.repeated = between(0.3, 2) * own; break;
  }
  // With two ranks a slow one raises the mean by as much as it is above it.
  if (kind == Limit::bubble || kind == Limit::imbalance) plant.ranks = std::max(plant.ranks, 3);
  return plant;
}

inline constexpr double kElementsPerSecond = 1e12;

inline Machine machine_of(const Plant& plant) {
  Machine machine = Machine::uniform(1e-7, 1e-10, 1e-15);
  machine.memory_bytes_per_second = 4 * kElementsPerSecond;
  machine.launch = plant.launch;
  machine.eager_bytes = 0;
  return machine;
}

class PlantedRank {
 public:
  PlantedRank(Rank me, const Plant& plant) : me_(me), comm_(me.stream("comm")), plant_(plant) {
    const double longest = plant.slow * plant.ranks * plant.arithmetic + plant.repeated;
    pool_ = me.allocate(static_cast<std::size_t>(2 * longest * kElementsPerSecond) + 1, DType::f32, Category::buffer);
    const Machine machine = machine_of(plant);
    const double each = plant.wire / (2 * std::max(1, me.size() - 1)) - machine.alpha(0);
    bytes_ = static_cast<std::size_t>(std::max(0.0, each) / machine.beta(0));
    out_ = me.allocate(bytes_ / 4 + 1, DType::f32, Category::buffer);
    in_ = me.allocate(bytes_ / 4 + 1, DType::f32, Category::buffer);
  }

  void step() {
    auto phase = me_.region("step");
    if (plant_.microbatches > 0 && me_.size() > 1) return pipeline();
    const double mine = share() * plant_.arithmetic;
    if (plant_.overlap && me_.size() > 1) {
      const Ticket ticket = me_.run(comm_, [out = out_, in = in_](Rank queue) { ring(queue, out, in); });
      compute(mine, plant_.operations);
      me_.wait(ticket);
    } else {
      compute(mine, plant_.operations);
      if (me_.size() > 1) ring(me_, out_, in_);
    }
    compute(plant_.repeated, 1);
  }

 private:
  /// All ranks' arithmetic: the serial step has it all.
  double share() const {
    if (me_.size() == 1) return plant_.ranks - 1 + plant_.slow;
    return me_.rank() == plant_.slow_rank ? plant_.slow : 1;
  }
  void compute(double seconds, int operations) {
    const auto elements = static_cast<std::size_t>(seconds / operations * kElementsPerSecond);
    for (int i = 0; i < operations && elements > 0; ++i) fill(me_, pool_.cut(0, elements), 0);
  }
  static void ring(Rank me, Slice out, Slice in) {
    const int p = me.size(), next = (me.rank() + 1) % p, previous = (me.rank() + p - 1) % p;
    for (int step = 0; step < 2 * (p - 1); ++step) me.exchange({send(next, out), receive(previous, in)});
  }
  /// Forwards of all microbatches down the stages, backwards up; hops are short.
  void pipeline() {
    const int p = me_.size(), m = plant_.microbatches;
    const double half = share() * plant_.arithmetic / (2 * m);
    const int operations = std::max(1, plant_.operations / (2 * m));
    const Slice hop = in_.cut(0, 1), away = out_.cut(0, 1);
    for (int i = 0; i < m; ++i) {
      if (me_.rank() > 0) me_.exchange({receive(me_.rank() - 1, hop)});
      compute(half, operations);
      if (me_.rank() + 1 < p) me_.exchange({send(me_.rank() + 1, away)});
    }
    for (int i = 0; i < m; ++i) {
      if (me_.rank() + 1 < p) me_.exchange({receive(me_.rank() + 1, hop)});
      compute(half, operations);
      if (me_.rank() > 0) me_.exchange({send(me_.rank() - 1, away)});
    }
  }

  Rank me_, comm_;
  Plant plant_;
  Slice pool_, out_, in_;
  std::size_t bytes_ = 0;
};

/// A step's ledgers, from a run of the plant on `ranks` virtual ranks.
inline StepLedgers ledgers_of(const Plant& plant, int ranks) {
  constexpr int kSteps = 2;
  RunOptions options{
      .ranks = ranks, .machine = machine_of(plant), .phantom = true, .check_races = false, .trace = true};
  const Outcome outcome = run(options, [&](Rank me) {
    PlantedRank rank(me, plant);
    for (int step = 0; step < kSteps; ++step) rank.step();
  });
  const analysis::Why why = analysis::why(outcome.check().trace);
  StepLedgers step{
      .seconds = why.seconds, .latency = options.machine.alpha(0), .seconds_per_byte = options.machine.beta(0)};
  for (std::size_t r = 0; r < why.use.size(); ++r) {
    const Traffic& traffic = outcome.ledgers[r].traffic;
    step.ranks.push_back({.arithmetic = why.use[r].arithmetic,
                          .launch = why.use[r].launch,
                          .hidden = why.use[r].hidden,
                          .messages = static_cast<double>(traffic.messages_received) / kSteps,
                          .bytes = static_cast<double>(traffic.bytes_received) / kSteps});
  }
  return step;
}

}  // namespace lockstep::week25
