#include "bench/programs/overlapped_linear.hpp"

#include <fmt/format.h>

#include "bench/support/measure.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

namespace lockstep::bench {
namespace {

using week23::Half;
using week23::RankProduct;
using week23::StepTimes;

enum class Order { in_turn, ring };

/// Seconds of one layer, from when all ranks begin it until the last one ends.
double measured_seconds(const RunOptions& options, const RankProduct& product, Order order) {
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const auto slice = [&](std::size_t count) { return me.allocate(count, DType::bf16, Category::activation); };
    const bool gathers = product.half == Half::gather, ring = order == Order::ring;
    const std::size_t own = product.rows / static_cast<std::size_t>(me.size());
    const week23::LinearTensors values{slice(product.in * product.out), {}};
    const Slice x = slice((gathers ? own : product.rows) * product.in);
    const Slice y = slice((gathers ? product.rows : own) * product.out);
    const week23::TensorParallel tp = week23::make_tensor_parallel(me);
    const auto column = ring ? week23::column_forward_ring : week23::column_forward_rows;
    const auto row = ring ? week23::row_forward_ring : week23::row_forward_rows;
    const double began = me.now();
    (gathers ? column : row)(tp, y, x, values, product.rows, gathers ? "gather" : "scatter");
    return {me.now() - began};
  });
  return slowest(outcome.check(), 0);
}

/// Reports both orders of one layer.
void report_layer(Bench& bench, const RunOptions& options, const RankProduct& product, std::size_t d_model) {
  const StepTimes times = week23::times_of(options.machine, options.ranks, product);
  const std::size_t own = product.rows / static_cast<std::size_t>(options.ranks);
  const char* const place = product.half == Half::gather ? "gather" : "scatter";
  const double in_turn = measured_seconds(options, product, Order::in_turn);
  const double ring = measured_seconds(options, product, Order::ring);
  const double predicted_in_turn = week23::in_turn_seconds(times, options.ranks);
  const double predicted_ring = week23::ring_seconds(times, options.ranks);
  for (const Order order : {Order::in_turn, Order::ring}) {
    const bool is_ring = order == Order::ring;
    Row row;
    row.set("pass", "forward").set("place", place).set("algorithm", is_ring ? "ring" : "in_turn");
    row.set("rows_per_rank", own).set("d_model", d_model).set("machine", options.machine.name);
    row.set("ranks", options.ranks).set("backend", backend_name());
    row.set("predicted_seconds", is_ring ? predicted_ring : predicted_in_turn).set("seconds", is_ring ? ring : in_turn);
    row.set("predicted_relative_seconds", is_ring ? predicted_ring / predicted_in_turn : 1);
    row.set("relative_seconds", is_ring ? ring / in_turn : 1);
    row.set("rows_to_pay", week23::rows_to_pay(options.machine, options.ranks, product));
    bench.report(row);
  }
  fmt::print("  {:>13} {:<8} {:>9} {:>9} {:>9} {:>9} {:>9.2f} {:>6.2f}{}\n", own, place,
             format_seconds(predicted_in_turn), format_seconds(in_turn), format_seconds(predicted_ring),
             format_seconds(ring), predicted_ring / predicted_in_turn, ring / in_turn,
             ring > in_turn ? "  the ring loses" : "");
}

}  // namespace

void report_overlapped_linear(Bench& bench, RunOptions options, const OverlappedLinearOptions& o) {
  options.phantom = true;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const std::size_t wide = 4 * o.d_model;
  if (options.ranks < 2) throw Error(Verdict::usage, "--overlapped-linear: one rank gathers nothing; use at least 2");
  if (wide % ranks != 0)
    throw Error(Verdict::usage, fmt::format("--overlapped-linear: {} hidden units cannot be divided over {}", wide,
                                            counted(ranks, "rank")));
  fmt::print("an MLP's two layers on {} of {}, d_model {}, bf16: 23.5's order and the ring of 23.9\n",
             counted(ranks, "rank"), options.machine.name, o.d_model);
  fmt::print("  {:>13} {:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n", "rows per rank", "half", "in turn:", "measured",
             "ring:", "measured", "ring/turn", "is");
  std::vector<RankProduct> products = {{Half::gather, 1, o.d_model, wide / ranks},
                                       {Half::scatter, 1, wide / ranks, o.d_model}};
  for (const int rows : o.rows)
    for (RankProduct& product : products) {
      product.rows = static_cast<std::size_t>(rows) * ranks;
      report_layer(bench, options, product, o.d_model);
    }
  for (const RankProduct& product : products) {
    const std::size_t rows = week23::rows_to_pay(options.machine, options.ranks, product);
    fmt::print("  {}: the ring should pay {}\n", product.half == Half::gather ? "gather" : "scatter",
               rows == 0 ? "nowhere" : fmt::format("from {} per rank on", counted(rows, "row")));
  }
}

}  // namespace lockstep::bench
