// A serial training step on one GPU that you do not have: what docs/learn/claims.md and the theory of week 22 say of
// mixed precision and recomputation is measured with it.
#pragma once

#include "common/gpt/model/serial.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/run.hpp"
#include "labs/week22_zero/checkpointing.hpp"

namespace lockstep::week22 {

struct SerialStep {
  Memory memory;
  double seconds = 0;
  double flop = 0;
};

/// One serial step on 8 (or fewer) sequences as long as the model's context, on memory that does not exist.
inline SerialStep step_of(const GptConfig& config, Recompute recompute, Machine machine, std::size_t sequences = 8) {
  SerialStep step;
  const RunOptions options{.machine = std::move(machine), .phantom = true, .check_races = false};
  const Outcome outcome = run(options, [&](Rank me) {
    Gpt gpt(me, config, 1);
    Optimizer optimizer(me, gpt.parameters(), {});
    Activations saved = checkpointed_activations(me, gpt, sequences, config.context, recompute);
    StepScalars scalars = allocate_step_scalars(me);
    const std::size_t rows = sequences * config.context;
    const Batch batch{me.allocate(rows, DType::i32, Category::buffer), me.allocate(rows, DType::i32, Category::buffer),
                      sequences, config.context};
    const double began = me.now(), flop = ledger_of(me).flop;
    serial_step(me, gpt, optimizer, std::span(&batch, 1), saved, scalars, {});
    step.seconds = me.now() - began;
    step.flop = ledger_of(me).flop - flop;
    step.memory = ledger_of(me).memory;
    return Values{};
  });
  outcome.check();
  return step;
}

}  // namespace lockstep::week22
