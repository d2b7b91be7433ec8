// A rank's results, or its failure, as bytes, to travel to the process that judges and back to all.
#pragma once

#include <string>

#include "common/runtime/processes/failure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::processes {

std::string pack(const Values& values, const RankLedger& ledger);
void unpack(const std::string& bytes, Values& values, RankLedger& ledger);

std::string pack(const Trace& trace, const std::vector<std::string>& queues);
/// Adds a rank's events and closures; its queues are matched by name, since ranks may have made them in different
/// orders.
void unpack_into(Trace& trace, const std::string& bytes);

std::string pack(const Failure& failure);
Failure unpack_failure(const std::string& bytes);

/// Everything but the trace.
std::string pack(const Outcome& outcome);
Outcome unpack_outcome(const std::string& bytes);

}  // namespace lockstep::processes
