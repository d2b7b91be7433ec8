// Tests of exercise 23.9, part c, and of all of it: what both orders take, from how many rows on the ring pays, and
// that the simulator agrees.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/runtime/run.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear_testing.hpp"

namespace lockstep::week23::overlapped_linear_pays_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto in_turn_seconds = testing::answer<week23::in_turn_seconds>;
constexpr auto ring_seconds = testing::answer<week23::ring_seconds>;
constexpr auto rows_to_pay = testing::answer<week23::rows_to_pay>;

/// 23.5's order, operation by operation.
double times_in_turn(const StepTimes& times, int ranks) {
  double seconds = times.whole;
  for (int step = 1; step < ranks; ++step) seconds += times.message + times.add;
  return seconds + times.copy;
}
/// A product and a message begin together; when both have ended, the next ones do.
double times_in_ring(const StepTimes& times, int ranks) {
  double seconds = times.chunk;
  for (int step = 1; step < ranks; ++step)
    seconds += (times.message > times.chunk ? times.message : times.chunk) + times.add;
  return seconds;
}

/// Whole numbers of seconds, drawn: the product of N/p rows is longer than the message in the even ones.
StepTimes drawn_times(std::uint64_t kind) {
  const auto drawn = [&](std::uint64_t which, std::uint64_t count) {
    return 1 + static_cast<double>(testing::drawn({23, 9, kind, which}, count));
  };
  StepTimes times{.chunk = 20 + drawn(0, 20), .message = drawn(1, 19), .add = drawn(2, 9), .copy = drawn(3, 9)};
  if (kind % 2 == 1) std::swap(times.chunk, times.message);
  if (kind % 4 < 2) times.add = 0;
  times.whole = 2 * times.chunk + drawn(4, 30);
  return times;
}

std::string words_of(const StepTimes& times, int ranks) {
  return fmt::format("{} ranks, whole {} s, chunk {} s, message {} s, add {} s, copy {} s", ranks, times.whole,
                     times.chunk, times.message, times.add, times.copy);
}

TEST(Lab23_9c, InTurnEverythingAddsUp) {
  for (std::uint64_t kind = 0; kind < 8; ++kind)
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const StepTimes times = drawn_times(kind);
      testing::expect_seconds(in_turn_seconds(times, ranks), times_in_turn(times, ranks))
          << "in_turn_seconds, " << words_of(times, ranks);
      if (HasFailure()) return;
    }
}

TEST(Lab23_9c, InTheRingTheLongerOfTwoCounts) {
  for (std::uint64_t kind = 0; kind < 8; ++kind)
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const StepTimes times = drawn_times(kind);
      testing::expect_seconds(ring_seconds(times, ranks), times_in_ring(times, ranks))
          << "ring_seconds, " << words_of(times, ranks)
          << (times.chunk > times.message ? ", where products are longer than messages" : "");
      if (HasFailure()) return;
    }
}

Machine machine_named(const std::string& name) { return find_machine(name, LOCKSTEP_SOURCE_DIR "/bench/machines"); }

TEST(Lab23_9c, FromSoManyRowsOnItPays) {
  Machine free_messages = machine_named("dgx-a100");
  free_messages.levels.front().latency = 0;
  free_messages.levels.front().bytes_per_second = 1e18;
  free_messages.memory_bytes_per_second = 1e18;
  for (const Machine& machine : {machine_named("dgx-a100"), machine_named("pcie-box"), free_messages})
    for (int ranks = 2; ranks <= 4; ranks *= 2)
      for (const std::size_t channels : {512, 4096, 12288})
        for (RankProduct product : products_of(channels, ranks)) {
          std::size_t first = 0;
          for (std::size_t own = kMostRows; own > 0; own /= 2) {
            product.rows = own * number(ranks);
            const StepTimes times = times_of(machine, ranks, product);
            if (times_in_ring(times, ranks) < times_in_turn(times, ranks)) first = own;
          }
          product.rows = 1;
          ASSERT_EQ(rows_to_pay(machine, ranks, product), first)
              << "rows per rank, " << ranks << " ranks of " << machine.name << ", "
              << (product.half == Half::gather ? "gather" : "scatter") << ", " << product.in << " → " << product.out
              << ". Of 1, 2, 4, …, the first at which the ring takes less time; 0 if there is none";
        }
}

// All of it -----------------------------------------------------------------------------------------------------------

TEST(Lab23_9, TakesAsLongAsPredicted) {
  if (std::string(backend_name()) != "sim") GTEST_SKIP() << "predictions are of virtual time";
  const Machine machine = machine_named("dgx-a100");
  for (const int ranks : {2, 4, 8})
    for (const std::size_t own : {8, 256, 2048})
      for (RankProduct product : products_of(4096, ranks)) {
        product.rows = own * number(ranks);
        const StepTimes times = times_of(machine, ranks, product);
        const RunOptions options{.ranks = ranks, .machine = machine, .phantom = true, .check_races = false};
        const auto program = [&](Rank me) { return both_orders(me, product); };
        const Outcome outcome = testing::run_answered(options, Program(program));
        outcome.check();
        const double in_turn = outcome.values[0][0], ring = outcome.values[0][1];
        const std::string what =
            fmt::format("{}, {} ranks, {} rows each, {} → {}", product.half == Half::gather ? "gather" : "scatter",
                        ranks, own, product.in, product.out);
        constexpr double kMost = 0.05;
        EXPECT_NEAR(in_turn / in_turn_seconds(times, ranks), 1, kMost)
            << "23.5's order, measured / predicted: " << what;
        EXPECT_NEAR(ring / ring_seconds(times, ranks), 1, kMost) << "the ring, measured / predicted: " << what;
        if (HasFailure()) return;
      }
}

}  // namespace
}  // namespace lockstep::week23::overlapped_linear_pays_test
