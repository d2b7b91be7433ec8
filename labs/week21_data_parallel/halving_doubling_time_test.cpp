// The times of 21.3's algorithms in the simulator: the formulas', and the crossovers where the α-β-γ model puts them.
#include <numeric>

#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {
namespace {

constexpr double kAlpha = 1e-4, kBeta = 1e-9, kGamma = 1e-10;  // seconds; seconds per byte; per byte reduced

// The formulas of 21.5, which are Thakur's, in the simulator; sizes that every halving divides. An addition that moves
// memory once more, such as a copy of the sum, is no other algorithm: up to 5 % longer.
void expect_the_time_of(double (*formula)(CostModel, int, double), const Collective& collective) {
  const CostModel cost{.alpha = kAlpha, .beta = kBeta, .gamma = kGamma};
  for (int p : {2, 3, 4, 5, 7, 8, 64, 100}) {
    const auto size = static_cast<std::size_t>(1000 * butterfly_ranks(p));
    const auto seconds = virtual_seconds(collective, Machine::uniform(kAlpha, kBeta, kGamma), p, {size});
    if (seconds.empty()) return;
    const double expected = formula(cost, p, 4.0 * static_cast<double>(size));
    const double ratio = seconds[0] / expected;
    ASSERT_TRUE(ratio >= 1 - 1e-9 && ratio <= 1.05)
        << "p = " << p << ": took " << seconds[0] * 1e6 << " µs, the formula says " << expected * 1e6 << " µs: "
        << (ratio > 1 ? "do a step's send and receive begin together, on every rank at once?"
                      : "some work was left out");
  }
}
TEST(Lab21_3, RecursiveDoublingTakesTheTimeOfTheFormula) {
  expect_the_time_of(recursive_doubling_seconds, recursive_doubling_all_reduce);
}
TEST(Lab21_3, RabenseifnerTakesTheTimeOfTheFormula) {
  expect_the_time_of(rabenseifner_seconds, rabenseifner_all_reduce);
}

/// Bytes at which two algorithms take equally long by their formulas, which are straight lines in the bytes.
double crossover_bytes(double (*a)(CostModel, int, double), double (*b)(CostModel, int, double), int p) {
  const CostModel cost{.alpha = kAlpha, .beta = kBeta, .gamma = kGamma};
  const double at_nothing = a(cost, p, 0) - b(cost, p, 0), at_a_byte = a(cost, p, 1) - b(cost, p, 1);
  return at_nothing / (at_nothing - at_a_byte);
}

/// A quarter below the predicted size `small` is faster in the simulator, a quarter above it `large`.
void expect_crossover(const Collective& small, const Collective& large, int p, double bytes) {
  const auto rounded = [p](double b) {  // so that all chunks and halves are equal
    const auto unit = static_cast<std::size_t>(std::lcm(p, butterfly_ranks(p)));
    return static_cast<std::size_t>(b / 4) / unit * unit;
  };
  const std::vector<std::size_t> sizes = {rounded(0.75 * bytes), rounded(1.25 * bytes)};
  const auto a = virtual_seconds(small, Machine::uniform(kAlpha, kBeta, kGamma), p, sizes);
  const auto b = virtual_seconds(large, Machine::uniform(kAlpha, kBeta, kGamma), p, sizes);
  if (a.empty() || b.empty()) return;
  EXPECT_LT(a[0], b[0]) << "p = " << p << ", a quarter below the predicted crossover of " << bytes << " bytes";
  EXPECT_GT(a[1], b[1]) << "p = " << p << ", a quarter above it";
}

TEST(Lab21_3, CrossesTheRingWhereTheModelSays) {
  for (int p : {4, 8, 64})
    expect_crossover(recursive_doubling_all_reduce, ring_all_reduce, p,
                     crossover_bytes(recursive_doubling_seconds, ring_all_reduce_seconds, p));
}

TEST(Lab21_3, RabenseifnerCrossesBoth) {
  for (int p : {4, 8, 64})
    expect_crossover(recursive_doubling_all_reduce, rabenseifner_all_reduce, p,
                     crossover_bytes(recursive_doubling_seconds, rabenseifner_seconds, p));
  for (int p : {5, 7, 48})  // spare ranks cost 2n more bytes: the ring wins large arrays
    expect_crossover(rabenseifner_all_reduce, ring_all_reduce, p,
                     crossover_bytes(rabenseifner_seconds, ring_all_reduce_seconds, p));
}

}  // namespace
}  // namespace lockstep::week21
