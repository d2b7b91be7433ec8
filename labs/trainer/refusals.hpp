// Given: what the trainer and the planner both refuse, by one list.
#pragma once

#include <optional>
#include <string>

#include "common/gpt/model/config.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::week25 {

/// Why a strategy cannot work: the kind of reason, for counting, a sentence with the numbers, and optionally what to do
/// instead, which continues the sentence.
struct Refusal {
  std::string reason;
  std::string sentence;
  std::string advice = {};
};

/// Returns why shapes do not divide. Expects cp to divide dp.
std::optional<Refusal> wrong_shape(const GptConfig& model, std::size_t sequence, const Strategy& strategy);

/// Returns why a known schedule cannot run m microbatches, or why it and other options exclude each other.
std::optional<Refusal> wrong_schedule(const Strategy& strategy, int m);

/// Returns why sequence parallelism or ZeRO has nothing to shard, or cannot. `group`: ranks along dp that hold one copy
/// of the state (22.8); 0: all.
std::optional<Refusal> wrong_sharding(const GptConfig& model, const Strategy& strategy, int group);

}  // namespace lockstep::week25
