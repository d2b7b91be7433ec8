// What a trace's events are called where there is room for a word: "send chunk 2", "ring_all_reduce 2 of 5", "F3".
// Found in the trace: a collective says how many bytes its array has, and a message which of them it carries.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/shares.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

struct Labels {
  std::vector<std::string> events;  // by event of the trace
  std::vector<std::string>
      messages;                     // by flight: "chunk 2", "bucket 1 of 5: chunks 0 to 3", "the whole array", or bytes
  std::vector<std::string> places;  // by event, of a transfer: its collective, "bucket 2 of 5: ring_all_reduce, 48 B"
};

/// Whether a region is a step of a pipeline's schedule: "F3", "B0.1".
bool is_pipeline_step(const TraceEvent& event);

Labels labels_of(const Trace& trace, const std::vector<Flight>& flights);

/// Which part of an array of `bytes`, cut in `parts`, lies at `offset` and has `length`: "chunk 2", "chunks 1 to 3",
/// "the whole array"; else "bytes 8 to 24". Elements have 4, 2, 1 or 8 bytes, whichever fits first.
std::string part_name(std::uint64_t bytes, int parts, std::uint64_t offset, std::uint64_t length);

}  // namespace lockstep::analysis
