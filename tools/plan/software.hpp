// Passes over memory of published software: what it runs as an operation of its own where ours is part of another,
// copies, and casts between types. Each is read from its source.
#pragma once

#include <string>

#include "common/gpt/model/config.hpp"
#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// Passes over memory that software makes in a block of `config`. GPT-2: "megatron", Megatron-LM of 2021 and 2022;
/// "eager", PyTorch with everything in 16 bits; "autocast", PyTorch's mixed precision with fp32 parameters. Llama:
/// "fms", IBM's of March 2024; "torchtitan", of April 2024; "torchtitan-compiled", of December 2024. A mixture:
/// "megatron-core", of spring 2025. "": nothing. Otherwise Error(usage).
Unfused unfused(const std::string& software, const GptConfig& config);

/// Bytes that its optimizer reads and writes per element besides ours.
double update_bytes(const std::string& software);

/// Casts of 8-bit floats in a block of `config`, Llama's or GPT-2's. `scaling`: "tensorwise" and "rowwise" by torchao,
/// or "transformer-engine" and "delayed", NVIDIA's current and delayed scaling; `gathered`: ZeRO-3 gathers
/// weights in 8 bits. Otherwise Error(usage).
Unfused casts(const std::string& scaling, bool gathered, const GptConfig& config);

/// Products of a task's blocks take 8-bit operands, with these casts. Error(usage) if the machine does not say how
/// fast, or its prices are not its library's (Machine::as_library).
void use_fp8(Task& task, const std::string& scaling, bool gathered);

/// A step waits for its slowest GPU: the expected time of products on the slowest of so many, over that on a typical
/// one.
double slowest_of(int gpus);
/// A machine's library as so many of its GPUs together reach it: products, and attention in one kernel, wait for the
/// slowest. Its rates are those of a typical card.
void wait_for_slowest(Machine& machine, int gpus);

}  // namespace lockstep::plan
