#include "bench/programs/ring_attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/support/measure.hpp"
#include "bench/support/price.hpp"
#include "common/support/text/units.hpp"
#include "labs/week23_tensor_parallel/ring_attention.hpp"

namespace lockstep::bench {
namespace {

using week23::RingAttention;
using week23::SequenceCut;

enum class RingPass { forward, backward };

struct RingCase {
  AttentionShape shape;  // the whole sequence's
  int ranks = 1;
  DType dtype = DType::bf16;
  SequenceCut cut = SequenceCut::contiguous;

  std::size_t own_rows() const { return shape.batch * shape.positions / static_cast<std::size_t>(ranks); }
  std::size_t width() const { return shape.heads * shape.head_size; }
};

/// A rank's arrays: q, kv, y and the statistics, and for the backward pass the gradients of the first three.
struct RingArrays {
  Slice q, kv, y, statistics, dq, dkv, dy;
  RingArrays(Rank me, const RingCase& c, RingPass pass) {
    const auto array = [&](std::size_t parts) {
      return me.allocate(c.own_rows() * parts * c.width(), c.dtype, Category::activation);
    };
    q = array(1), kv = array(2), y = array(1);
    statistics = me.allocate(c.own_rows() * c.shape.heads, DType::f32, Category::activation);
    if (pass == RingPass::backward) dq = array(1), dkv = array(2), dy = array(1);
  }
  double bytes() const {
    double sum = 0;
    for (const Slice& slice : {q, kv, y, statistics, dq, dkv, dy}) sum += static_cast<double>(slice.bytes());
    return sum;
  }
};

void act(const RingAttention& ring, const RingArrays& a, RingPass pass) {
  if (pass == RingPass::forward)
    week23::ring_attention_forward(ring, a.y, a.statistics, a.q, a.kv);
  else
    week23::ring_attention_backward(ring, a.dq, a.dkv, a.dy, a.y, a.statistics, a.q, a.kv);
}

struct RingMeasured {
  double seconds = 0, busiest = 0, mean_busy = 0, peak_bytes = 0;
};

RingMeasured measure_ring(const RunOptions& options, const RingCase& c, RingPass pass) {
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const RingArrays arrays(me, c, pass);
    const double begin = me.now(), busy = ledger_of(me).queues[0].busy;
    act({me, c.shape, c.cut}, arrays, pass);
    return {me.now() - begin, ledger_of(me).queues[0].busy - busy};
  });
  outcome.check();
  RingMeasured measured;
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
    measured.seconds = std::max(measured.seconds, outcome.values[rank][0]);
    measured.busiest = std::max(measured.busiest, outcome.values[rank][1]);
    measured.mean_busy += outcome.values[rank][1] / static_cast<double>(outcome.values.size());
    measured.peak_bytes = std::max(measured.peak_bytes, static_cast<double>(outcome.ledgers[rank].memory.peak_total));
  }
  return measured;
}

/// The machine's price for a rank's queries and another rank's keys, chunk by chunk; the causal mask leaves the pairs
/// in `visible`: 2 halves and a whole one at home, 4 or 2 whole ones elsewhere.
double step_seconds(const Machine& machine, const RingCase& c, RingPass pass, bool home, int whole) {
  return priced_seconds(machine, [&](Rank me) {
    const auto arrays = std::make_shared<RingArrays>(me, c, pass);
    const std::size_t chunk = c.own_rows() / 2;
    const auto block = [=](int i, int j, std::size_t first_query) {
      const AttentionBlock of{c.shape.batch, chunk, chunk, c.shape.heads, c.shape.head_size, first_query, 0};
      const RingArrays& a = *arrays;
      using week23::half;
      if (pass == RingPass::forward)
        attention_block(me, half(a.y, i), half(a.statistics, i), half(a.q, i), half(a.kv, j), of);
      else
        attention_block_backward(me, half(a.dq, i), half(a.dkv, j), half(a.dy, i), half(a.y, i), half(a.statistics, i),
                                 half(a.q, i), half(a.kv, j), of);
    };
    return [=] {
      if (home)
        for (int i = 0; i < 2; ++i) block(i, i, 0);
      for (int n = 0; n < whole; ++n) block(1, 0, chunk);
    };
  });
}

/// Predicts p steps of the slowest rank, each of which but the last hides a message; in the backward, also the
/// gradients' messages after each step. Does not include filling arrays at the beginning.
double predicted_seconds(const RunOptions& options, const LinkPrices& link, const RingCase& c, RingPass pass) {
  const double home = step_seconds(options.machine, c, pass, true, 1);
  if (c.ranks == 1) return home;
  const double away = step_seconds(options.machine, c, pass, false, c.cut == SequenceCut::contiguous ? 4 : 2);
  const double bytes = static_cast<double>(c.own_rows() * 2 * c.width() * bytes_of(c.dtype));
  const double message = link.alpha + link.beta * bytes;
  const double gradients = pass == RingPass::backward ? c.ranks * message : 0;
  return std::max(home, message) + (c.ranks - 2) * std::max(away, message) + away + gradients;
}

double predicted_bytes(const RingCase& c, RingPass pass) {
  const double element = static_cast<double>(bytes_of(c.dtype)), rows = static_cast<double>(c.own_rows());
  const double width = static_cast<double>(c.width()) * element, statistics = static_cast<double>(c.shape.heads) * 4;
  const double on_their_way = c.ranks == 1 ? 0 : pass == RingPass::forward ? 2 : 4;
  return rows * ((pass == RingPass::forward ? 4 : 8) * width + statistics + on_their_way * 2 * width);
}

double predicted_imbalance(const RingCase& c) {
  double busiest = 0, sum = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const double pairs = week23::visible_pairs(rank, c.ranks, c.shape.positions, c.cut);
    busiest = std::max(busiest, pairs);
    sum += pairs;
  }
  return busiest / sum * c.ranks;
}

void report_case(Bench& bench, const RunOptions& options, const RingCase& c, RingPass pass) {
  const RingMeasured is = measure_ring(options, c, pass);
  const double predicted = predicted_seconds(options, bench.prices(options), c, pass);
  const char* const cut = c.cut == SequenceCut::contiguous ? "contiguous" : "zigzag";
  const char* const name = pass == RingPass::forward ? "forward" : "backward";
  const double imbalance = is.busiest / is.mean_busy, expected = predicted_imbalance(c);
  Row row;
  row.set("pass", name).set("place", "ring attention").set("algorithm", cut).set("positions", c.shape.positions);
  row.set("machine", options.machine.name).set("ranks", c.ranks).set("backend", backend_name());
  row.set("d_model", c.width()).set("predicted_seconds", predicted).set("seconds", is.seconds);
  row.set("predicted_imbalance", expected).set("imbalance", imbalance);
  row.set("predicted_peak_bytes", predicted_bytes(c, pass)).set("peak_bytes", is.peak_bytes);
  bench.report(row);
  fmt::print("  {:>8} {:<10} {:<8} {:>9} {:>9} {:>8.2f} {:>6.2f} {:>9} {:>9}\n", c.shape.positions, cut, name,
             format_seconds(predicted), format_seconds(is.seconds), expected, imbalance,
             format_bytes(predicted_bytes(c, pass)), format_bytes(is.peak_bytes));
}

}  // namespace

void report_ring_attention(Bench& bench, RunOptions options, const RingAttentionOptions& o) {
  options.phantom = true;
  fmt::print("ring attention on {} rank{} of {}, {} heads of {}, {}, one sequence and one layer\n", options.ranks,
             options.ranks == 1 ? "" : "s", options.machine.name, o.heads, o.head_size, to_string(o.dtype));
  fmt::print("  {:>8} {:<10} {:<8} {:>9} {:>9} {:>8} {:>6} {:>9} {:>9}\n", "T", "cut", "pass", "predicted", "measured",
             "busiest", "is", "predicted", "peak");
  for (const int positions : o.positions)
    for (const SequenceCut cut : {SequenceCut::contiguous, SequenceCut::zigzag})
      for (const RingPass pass : {RingPass::forward, RingPass::backward}) {
        const AttentionShape shape{1, static_cast<std::size_t>(positions), o.heads, o.head_size};
        report_case(bench, options, {shape, options.ranks, o.dtype, cut}, pass);
      }
}

}  // namespace lockstep::bench
