#include "bench/programs/axis_dropout.hpp"

#include <fmt/format.h>

#include "bench/support/measure.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"

namespace lockstep::bench {
namespace {

using week23::DroppedBlock;
using week23::Layout;
using week23::Moment;

enum class DropoutPass { forward, backward };

/// A block and the rows that go through it on one rank.
struct BlockArrays {
  DroppedBlock block;
  Slice x, y, dx, dy, hidden, dhidden;
  BlockArrays(const week23::TensorParallel& tp, const AxisDropoutOptions& o, std::size_t rows) {
    Rank me = tp.group;
    const auto array = [&](std::size_t size) { return me.allocate(size, o.dtype, Category::activation); };
    const std::size_t wide = 4 * o.d_model / static_cast<std::size_t>(me.size());
    const auto weight = [&] { return week23::LinearTensors{array(wide * o.d_model), {}}; };
    block = {.tp = tp, .values = {weight(), weight()}, .gradients = {weight(), weight()}};
    block.channels = o.d_model, block.hidden = 4 * o.d_model, block.p = o.p;
    x = array(rows * o.d_model), y = array(rows * o.d_model), dx = array(rows * o.d_model);
    dy = array(rows * o.d_model), hidden = array(rows * wide), dhidden = array(rows * wide);
  }
  std::size_t rows() const { return x.size() / block.channels; }

  void pass(const Moment& now, DropoutPass which) const {
    if (which == DropoutPass::forward)
      week23::block_forward(block, now, y, hidden, x);
    else
      week23::block_backward(block, now, dx, hidden, dhidden, dy, x);
  }
  /// The same block without dropouts.
  void pass_without(DropoutPass which) const {
    const std::size_t n = rows();
    week23::column_forward(block.tp, hidden, x, block.values.up, n);
    if (which == DropoutPass::forward) {
      week23::row_forward(block.tp, y, hidden, block.values.down, n, "down forward");
      return add(block.tp.group, y, x);
    }
    week23::row_backward(block.tp, dhidden, block.gradients.down, dy, hidden, block.values.down, n);
    week23::column_backward(block.tp, dx, block.gradients.up, dhidden, x, block.values.up, n, "up backward");
    add(block.tp.group, dx, dy);
  }
};

double measured_seconds(const RunOptions& options, const AxisDropoutOptions& o, DropoutPass which, bool drops) {
  const Outcome outcome = run(options, [&](Rank me) -> Values {
    const BlockArrays arrays(week23::make_tensor_parallel(me), o, o.sequences * o.positions);
    const Moment now{
        .layout = {1, me.size(), 1}, .here = {0, me.rank(), 0}, .sequences = o.sequences, .positions = o.positions};
    const double began = me.now();
    drops ? arrays.pass(now, which) : arrays.pass_without(which);
    return {me.now() - began};
  });
  return slowest(outcome.check(), 0);
}

/// The dropouts of a pass, each a launch per run of neighbours: a row of the hidden units if they are split.
struct Launches {
  double calls = 0, seconds = 0;
};
Launches predicted_launches(const Machine& machine, int ranks, const AxisDropoutOptions& o, DropoutPass which) {
  const double rows = static_cast<double>(o.sequences * o.positions), channels = static_cast<double>(o.d_model);
  const auto seconds = [&](double elements) {
    return machine.seconds({"dropout", 22 * elements, 2 * elements * static_cast<double>(bytes_of(o.dtype)), o.dtype});
  };
  const double runs = ranks > 1 ? rows : 1;
  const double of_hidden = which == DropoutPass::forward ? 1 : 2;  // the backward drops them again, and their gradient
  return {of_hidden * runs + 1,
          of_hidden * runs * seconds(rows / runs * 4 * channels / ranks) + seconds(rows * channels)};
}

void report_pass(Bench& bench, const RunOptions& options, const AxisDropoutOptions& o, DropoutPass which) {
  const double without = measured_seconds(options, o, which, false);
  const double seconds = measured_seconds(options, o, which, true);
  const Launches predicted = predicted_launches(options.machine, options.ranks, o, which);
  const char* const name = which == DropoutPass::forward ? "forward" : "backward";
  Row row;
  row.set("pass", name).set("place", "mlp").set("algorithm", "dropout").set("machine", options.machine.name);
  row.set("ranks", options.ranks).set("backend", backend_name()).set("d_model", o.d_model).set("seconds", seconds);
  row.set("predicted_dropout_calls", predicted.calls).set("predicted_dropout_seconds", predicted.seconds);
  row.set("dropout_seconds", seconds - without);
  bench.report(row);
  fmt::print("  {:<9} {:>9} {:>9} {:>13} {:>9} {:>9}\n", name, format_seconds(without), format_seconds(seconds),
             predicted.calls, format_seconds(predicted.seconds), format_seconds(seconds - without));
}

// Agreement: whole numbers and p = 1/2, so that every sum is exact ----------------------------------------------------

/// −1, 0 and 1, by element of the whole array.
std::vector<float> signs(std::size_t rows, std::size_t columns, std::size_t width, std::size_t first) {
  std::vector<float> values;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      values.push_back(static_cast<float>((i * width + first + j) * 7919 % 11 % 3) - 1);
  return values;
}

/// y and dx of a block on this rank, for each of its microbatches.
Values outputs(Rank me, const AxisDropoutOptions& o, const Layout& layout) {
  const week23::TensorParallel tp = week23::make_tensor_parallel(me.split(me.rank() / layout.tp, me.rank()));
  const std::size_t wide = 4 * o.d_model / static_cast<std::size_t>(layout.tp);
  const std::size_t rows = o.sequences * o.positions / static_cast<std::size_t>(layout.dp * layout.microbatches);
  const BlockArrays arrays(tp, o, rows);
  const std::size_t first = wide * static_cast<std::size_t>(tp.group.rank());
  upload(me, arrays.block.values.up.weight, signs(wide, o.d_model, o.d_model, first * o.d_model));
  upload(me, arrays.block.values.down.weight, signs(o.d_model, wide, 4 * o.d_model, first));
  for (const week23::LinearTensors& layer : {arrays.block.gradients.up, arrays.block.gradients.down})
    fill(me, layer.weight, 0);
  Values values;
  for (int micro = 0; micro < layout.microbatches; ++micro) {
    const auto part = static_cast<std::size_t>(me.rank() / layout.tp * layout.microbatches + micro);
    const std::vector<float> own = signs(rows, o.d_model, o.d_model, part * rows * o.d_model);
    upload(me, arrays.x, own);
    upload(me, arrays.dy, own);
    const Moment now{.layout = layout,
                     .here = {me.rank() / layout.tp, me.rank() % layout.tp, micro},
                     .sequences = o.sequences,
                     .positions = o.positions};
    for (const DropoutPass which : {DropoutPass::forward, DropoutPass::backward}) {
      arrays.pass(now, which);
      const std::vector<float> result = to_host(me, which == DropoutPass::forward ? arrays.y : arrays.dx);
      values.insert(values.end(), result.begin(), result.end());
    }
  }
  return values;
}

/// Elements of y and dx that are not those of one rank, over all ranks of a layout.
std::size_t differing(const Values& whole, const Outcome& outcome, const Layout& layout) {
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
    const Values& own = outcome.values[rank];
    const auto microbatches = static_cast<std::size_t>(layout.microbatches);
    const std::size_t piece = own.size() / 2 / microbatches;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t micro = i / (2 * piece), half = i / piece % 2;
      const std::size_t part = rank / static_cast<std::size_t>(layout.tp) * microbatches + micro;
      count += own[i] == whole[half * whole.size() / 2 + part * piece + i % piece] ? 0 : 1;
    }
  }
  return count;
}

void report_agreement(Bench& bench, RunOptions options) {
  options.phantom = false;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const AxisDropoutOptions o{
      .p = 0.5f, .d_model = 2 * ranks, .sequences = 2 * ranks, .positions = 2, .dtype = DType::f32};
  RunOptions alone = options;
  alone.ranks = 1;
  const Values whole = run(alone, [&](Rank me) { return outputs(me, o, {1, 1, 1}); }).check().values[0];
  for (int tp = 1; tp <= options.ranks; ++tp) {
    if (options.ranks % tp != 0) continue;
    const Layout layout{options.ranks / tp, tp, 2};
    const Outcome outcome = run(options, [&](Rank me) { return outputs(me, o, layout); });
    const std::size_t elements = whole.size() * static_cast<std::size_t>(tp);
    const std::size_t differ = differing(whole, outcome.check(), layout);
    Row row;
    row.set("pass", "step").set("place", "mlp").set("algorithm", fmt::format("dp {}, tp {}", layout.dp, layout.tp));
    row.set("machine", options.machine.name).set("ranks", options.ranks).set("backend", backend_name());
    row.set("differing_elements", differ).set("elements", elements);
    bench.report(row);
    fmt::print("  dp {}, tp {}, 2 microbatches: {} of {} differ from one rank's\n", layout.dp, layout.tp, differ,
               counted(elements, "element"));
  }
}

}  // namespace

void report_axis_dropout(Bench& bench, RunOptions options, const AxisDropoutOptions& o) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (4 * o.d_model % ranks != 0)
    throw Error(Verdict::usage, fmt::format("--dropout: {} hidden units cannot be divided over {}", 4 * o.d_model,
                                            counted(ranks, "rank")));
  options.phantom = true;
  fmt::print("a checkpointed MLP block with two dropouts on {} of {}, d_model {}, {} × {} tokens, {}\n",
             counted(ranks, "rank"), options.machine.name, o.d_model, o.sequences, o.positions, to_string(o.dtype));
  fmt::print("  {:<9} {:>9} {:>9} {:>13} {:>9} {:>9}\n", "pass", "without", "with", "calls per rank", "predicted",
             "added");
  for (const DropoutPass which : {DropoutPass::forward, DropoutPass::backward}) report_pass(bench, options, o, which);
  report_agreement(bench, options);
}

}  // namespace lockstep::bench
