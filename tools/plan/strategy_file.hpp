// A strategy as people write it: a small JSON file, or words on a command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// {"dp": 8, "tp": 8, "pp": 16, "microbatch": 1, "schedule": "interleaved", "chunks": 3, "zero": 1, "recompute": true,
/// "sequence_parallel": true}, and "cp"; dp counts replicas. Missing fields are as in Strategy. Throws Error(usage)
/// that names file and field.
week25::Strategy read_strategy(const std::string& path);
/// The same of a file's text; `name` is what messages call it.
week25::Strategy parse_strategy(const std::string& text, const std::string& name);
std::string strategy_json(const week25::Strategy& strategy);

/// "dp=8,tp=8,pp=16": what a strategy must have, each field and its value. Throws Error(usage).
std::vector<std::pair<std::string, std::string>> wanted_fields(const std::string& text);
bool has_fields(const week25::Strategy& strategy, const std::vector<std::pair<std::string, std::string>>& fields);

/// none, selective or full.
const char* recompute_word(const week25::Strategy& strategy);

}  // namespace lockstep::plan
