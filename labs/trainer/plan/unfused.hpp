// Passes over memory that published software makes in a GPT block and the labs do not: what it runs as an operation of
// its own where ours is part of another, copies, and casts between 32 and 16 bits. Each is read from its source.
#pragma once

#include <string>
#include <vector>

#include "labs/trainer/plan/pieces.hpp"

namespace lockstep::plan {

/// An operation, by the bytes that it reads and writes per token and channel in addition to ours.
struct Pass {
  double bytes = 0;
  bool sharded = false;  ///< divided over tensor-parallel ranks; otherwise only with sequence parallelism
};

struct Unfused {
  std::vector<Pass> forward, backward;  ///< of a block
  double logit_bytes = 0;               ///< per logit, of the loss and its gradient
};

/// What software does in a block of `config`. GPT-2: "megatron", Megatron-LM of 2021 and 2022; "eager", PyTorch with
/// everything in 16 bits; "autocast", PyTorch's mixed precision with fp32 parameters. Llama, not compiled: "fms", IBM's
/// of March 2024; "torchtitan", of April 2024. Otherwise Error(usage).
Unfused unfused(const std::string& software, const GptConfig& config);

/// Adds its time on `machine` to the pieces of a block that `rows` tokens pass.
void add_unfused(const Machine& machine, const Unfused& software, const GptConfig& config, double rows, Pieces& pieces);

}  // namespace lockstep::plan
