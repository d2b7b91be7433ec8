// Activations that the forward pass keeps for the backward, by kind of attention and by recomputation: bytes by formula
// and from the ledger, FLOP as the runtime counts them, and the time of a forward and backward pass.
//
//   ./lab bench activations --model gpt2-124m --batch 8 --machine dgx-a100 --phantom
#include <fmt/format.h>

#include <memory>

#include "bench/support/bench.hpp"
#include "bench/support/step_shape.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/support/text/units.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week22_zero/mixed_precision.hpp"

namespace lockstep::bench {
namespace {

using week22::Recompute;

struct ActivationsOptions : ModelOptions {
  std::string precision = "bf16";
};

struct Mode {
  AttentionKind attention;
  Recompute recompute;

  const char* attention_name() const { return attention == AttentionKind::flash ? "flash" : "materialised"; }
  const char* recompute_name() const {
    return recompute == Recompute::none ? "none" : recompute == Recompute::full ? "full" : "selective";
  }
  std::string name() const { return fmt::format("{}/{}", attention_name(), recompute_name()); }
};
constexpr Mode kModes[] = {{AttentionKind::flash, Recompute::none},
                           {AttentionKind::flash, Recompute::full},
                           {AttentionKind::materialised, Recompute::none},
                           {AttentionKind::materialised, Recompute::selective},
                           {AttentionKind::materialised, Recompute::full}};
/// The first mode with the same attention: nothing recomputed.
std::size_t baseline_of(std::size_t mode) { return kModes[mode].attention == AttentionKind::flash ? 0 : 2; }

GptConfig model_in(const StepShape& shape, Mode mode) {
  GptConfig config = shape.model;
  config.attention = mode.attention;
  return config;
}
BlockShape block_in(const StepShape& shape, Mode mode) {
  return {shape.sequences, shape.length, shape.model.heads, shape.model.d_model, mode.attention};
}

StepShape shape_of(const ActivationsOptions& o) {
  StepShape shape = o.shape();
  if (shape.model.architecture != Architecture())
    throw Error(Verdict::usage, fmt::format("--model {}: the formulas of 22.6 are for GPT-2's block", o.model));
  shape.model.storage = week22::precision_of(o.precision).compute;
  return shape;
}

/// A model, its activations in the given mode, and one batch.
struct Pass {
  Rank me;
  Gpt gpt;
  Activations saved;
  Slice loss;
  Batch batch;

  Pass(Rank rank, const StepShape& shape, Mode mode)
      : me(rank),
        gpt(rank, model_in(shape, mode), /*seed=*/1),
        saved(week22::checkpointed_activations(rank, gpt, shape.sequences, shape.length, mode.recompute)),
        loss(rank.allocate(1, DType::f32, Category::buffer)) {
    batch = counted_batch(me, 0, shape.sequences, shape.length, shape.model.vocabulary);
    fill(me, loss, 0);
  }

  void act() {
    fill(me, gpt.parameters().gradients, 0);
    accumulate_gradients(me, gpt, {&batch, 1}, saved, loss, 1.0f / static_cast<float>(batch.rows()));
  }
  float squares() {
    fill(me, loss, 0);
    add_squares(me, loss, gpt.parameters().gradients);
    return read(me, loss, 0);
  }
};

/// Compares each mode's gradients with those of the mode with the same attention that keeps everything: equal to the
/// bit.
Prepared prepare(Rank me, const StepShape& shape, std::size_t mode) {
  auto pass = std::make_shared<Pass>(me, shape, kModes[mode]);
  return {.act = [pass] { pass->act(); },
          .right =
              [=] {
                Pass kept(me, shape, kModes[baseline_of(mode)]);
                kept.act();
                return kept.squares() == pass->squares();
              }};
}

/// The costs of one pass, from the ledger of a separate run.
struct Counted {
  std::uint64_t bytes = 0;
  double flop = 0;
};
Counted count(RunOptions options, const StepShape& shape, Mode mode) {
  options.ranks = 1;
  Counted counted;
  const Outcome outcome = run(options, [&](Rank me) {
    Pass pass(me, shape, mode);
    const double before = ledger_of(me).flop;
    pass.act();
    return Values{ledger_of(me).flop - before};
  });
  outcome.check();
  counted.flop = outcome.values[0][0];
  counted.bytes = outcome.ledgers[0].memory.peak_of(Category::activation);
  return counted;
}

/// The parts of a mode's bytes, each with its formula.
std::vector<Row> parts_of(const StepShape& shape, Mode mode) {
  const BlockShape block = block_in(shape, mode);
  const double element = static_cast<double>(bytes_of(shape.model.storage)),
               layers = static_cast<double>(shape.model.layers);
  const double rows = static_cast<double>(block.rows()),
               narrow = rows * static_cast<double>(shape.model.d_model) * element;
  const double heads = rows * static_cast<double>(shape.model.heads);
  const bool flash = mode.attention == AttentionKind::flash, full = mode.recompute == Recompute::full;
  const double own = flash ? 4 * heads : heads * static_cast<double>(shape.length) * element;
  const double times = full ? 1 : layers;
  std::vector<Row> result;
  const auto part = [&](const char* name, double bytes, const std::string& reason) {
    Row& row = result.emplace_back();
    row.set("attention", mode.attention_name()).set("recompute", mode.recompute_name()).set("part", name);
    row.set("predicted_bytes", bytes).set("reason", reason);
  };
  part("inputs of blocks", layers * narrow, "L·NC elements");
  part("the rest of blocks", times * 15 * narrow, full ? "15 NC elements, of one block at a time" : "L·15 NC elements");
  part("norms of blocks", times * 16 * rows, full ? "16 bytes per row, of one block" : "L·16 bytes per row");
  part(flash ? "attention's statistics" : "probabilities",
       (mode.recompute == Recompute::none ? layers
        : flash                           ? times
                                          : 1) *
           own,
       std::string(mode.recompute == Recompute::none ? "L·" : "once ") +
           (flash ? "4 bytes per row and head" : "NhT elements"));
  part("head", 2 * narrow + rows * static_cast<double>(shape.model.vocabulary) * element + 8 * rows,
       "output, norm and logits; 8 bytes per row");
  part("backward", 6 * narrow, "gradients of the residual stream and of one layer: 6 NC elements");
  return result;
}

void print_table(const std::vector<Counted>& counted, const StepShape& shape) {
  fmt::print("\n{:<24}{:>14}{:>14}{:>10}{:>16}{:>10}\n", "attention/recompute", "formula", "ledger", "apart", "FLOP",
             "more");
  for (std::size_t i = 0; i < std::size(kModes); ++i) {
    const std::size_t formula =
        week22::activation_bytes(model_in(shape, kModes[i]), shape.sequences, shape.length, kModes[i].recompute);
    fmt::print("{:<24}{:>14}{:>14}{:>10}{:>16.4g}{:>9.1f}%\n", kModes[i].name(),
               format_bytes(static_cast<double>(formula)), format_bytes(static_cast<double>(counted[i].bytes)),
               fmt::format("{} B", static_cast<std::int64_t>(counted[i].bytes) - static_cast<std::int64_t>(formula)),
               counted[i].flop, 100 * (counted[i].flop / counted[baseline_of(i)].flop - 1));
  }
}

void measure_modes(Bench& bench, const ActivationsOptions& o) {
  bench.want_one_rank("activations are each rank's own");
  const StepShape shape = shape_of(o);
  const RunOptions options = bench.run_options(1);
  std::vector<Counted> counted;
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < std::size(kModes); ++i) {
    counted.push_back(count(options, shape, kModes[i]));
    contenders.push_back(
        {.name = kModes[i].name(), .prepare = [=](Rank me, Purpose) { return prepare(me, shape, i); }});
    for (Row& row : parts_of(shape, kModes[i])) bench.report(std::move(row));
  }
  bench.add(fmt::format("{}/{} × {}", o.model, shape.sequences, shape.length), options, contenders,
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const Mode mode = kModes[i];
              const double layers = static_cast<double>(shape.model.layers);
              const double base = counted[baseline_of(i)].flop;
              row.set("model", o.model).set("dtype", o.precision).set("attention", mode.attention_name());
              row.set("recompute", mode.recompute_name());
              row.set("batch_sequences", shape.sequences).set("sequence_tokens", shape.length);
              row.set("predicted_bytes",
                      week22::activation_bytes(model_in(shape, mode), shape.sequences, shape.length, mode.recompute));
              row.set("measured_bytes", counted[i].bytes).set("flop", counted[i].flop);
              row.set("extra_flop", counted[i].flop - base);
              row.set("predicted_extra_flop", layers * week22::recomputed_flop(block_in(shape, mode), mode.recompute));
              row.set("relative_seconds", group[i].seconds.value / group[baseline_of(i)].seconds.value);
            });
  bench.run([&](const std::vector<Row>&) { print_table(counted, shape); });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::ActivationsOptions o;
  auto declare = [&](CommandLine& line) {
    o.declare(line, "sequences");
    line.add("--precision", o.precision, "fp32, bf16 or fp16");
  };
  return bench::bench_main("activations", "Activations by kind of attention and recomputation: bytes, FLOP, time.",
                           argc, argv, declare, [&](bench::Bench& bench) { bench::measure_modes(bench, o); });
}
