// Exercise 23.9 (extra): overlap inside tensor parallelism. 23.5 gathers all rows and then multiplies them, or
// multiplies all rows and then scatters the sums: links idle while the product runs, and arithmetic while messages do.
// Here the rows go round in a ring as in 23.6, and a rank multiplies those that it has while the next are in flight.
//
// Wang et al., "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models"
// (ASPLOS 2023). Transformer Engine's ub_overlap_ag and ub_overlap_rs and PyTorch's async TP do the same.
#pragma once

#include "common/runtime/machine/machine.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week23 {

// Parts a and b. Results are 23.5's but for rounding. N = `rows` divides by p; chunk r of an array of N rows is rank
// r's. p products of N/p rows and not one of N; each rank sends (p − 1)/p of the N rows that are gathered or scattered.
// All is done on return, in a region of the name `place`.

/// Part a. y_r (N × out/p) = all ranks' rows of x · W_rᵀ + bias_r, as column_forward_rows; x: N/p × in, not changed.
/// A block of rows is in flight while the one before it is multiplied. Scratch: two blocks as long as x.
void column_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                         const char* place);

/// Part b. y (N/p × out) = this rank's rows of Σ x_r·W_rᵀ, plus the bias once, as row_forward_rows; x: N × in/p. A
/// partial sum is in flight while the product that the next one needs runs. Scratch: three blocks as long as y.
void row_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place);

// Part c. When does it pay? ------------------------------------------------------------------------------------------

enum class Half : std::uint8_t { gather, scatter };

/// One rank's product, `rows` × in → rows × out, and its collective: x is gathered, or y scattered.
struct RankProduct {
  Half half = Half::gather;
  std::size_t rows = 1;         ///< N
  std::size_t in = 1, out = 1;  ///< of this rank's weight
};

/// Seconds of each operation that the two orders are made of.
struct StepTimes {
  double whole = 0;    ///< the product of N rows
  double chunk = 0;    ///< of N/p rows, which is at least whole/p
  double message = 0;  ///< N/p of the rows that are gathered or scattered
  double add = 0;      ///< one such message added to a partial sum; 0 for a gather
  double copy = 0;     ///< 23.5's copy between a rank's own rows and the array of all rows; the ring has none
};

/// Given: these times of a bf16 product without a bias, on the first `ranks` ≥ 2 ranks of `machine`.
inline StepTimes times_of(const Machine& machine, int ranks, const RankProduct& product) {
  const auto number = [](std::size_t count) { return static_cast<double>(count); };
  const double in = number(product.in), out = number(product.out);
  const auto matmul = [&](std::size_t rows) {
    const double m = number(rows), flop = 2 * m * in * out, bytes = 2 * (m * in + m * out + in * out);
    return machine.seconds({"matmul", flop, bytes, DType::bf16, {}, {}, true, {rows, product.out, product.in}});
  };
  const bool gather = product.half == Half::gather;
  const std::size_t own = product.rows / static_cast<std::size_t>(ranks);
  const double sent = number(own) * (gather ? in : out);  // elements
  return {.whole = matmul(product.rows),
          .chunk = matmul(own),
          .message = machine.message_seconds(machine.level_between(0, ranks - 1), 2 * sent),
          .add = gather ? 0 : machine.seconds({"add", sent, 6 * sent, DType::bf16}),
          .copy = machine.seconds({"copy", 0, 4 * sent, DType::bf16})};
}

/// Seconds of 23.5's order, where nothing overlaps, with the ring collectives of 21.2; and of parts a and b. All ranks
/// begin together, and a message needs no arithmetic.
double in_turn_seconds(const StepTimes& times, int ranks);
double ring_seconds(const StepTimes& times, int ranks);

inline constexpr std::size_t kMostRows = std::size_t{1} << 20;
/// The smallest N/p of 1, 2, 4, …, kMostRows for which the ring takes less time than 23.5's order; 0 if there is none.
/// product.rows is ignored.
std::size_t rows_to_pay(const Machine& machine, int ranks, RankProduct product);

}  // namespace lockstep::week23
