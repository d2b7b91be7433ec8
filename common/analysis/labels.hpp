// Short names for a trace's events: "send chunk 2", "ring_all_reduce 2 of 5", "F3". Derived from the trace: a
// collective records the size of its array, and a message its part of the array.
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
  std::vector<std::string> places;  // by event, for transfers: the collective, "bucket 2 of 5: ring_all_reduce, 48 B"
};

/// True for a step of a pipeline's schedule: "F3", "B0.1".
bool is_pipeline_step(const TraceEvent& event);

Labels labels_of(const Trace& trace, const std::vector<Flight>& flights);

/// Names the part of an array of `bytes`, split into `parts`, at `offset` with `length`: "chunk 2", "chunks 1 to 3",
/// "the whole array"; else "bytes 8 to 24". Tries elements of 4, 2, 1 and 8 bytes, in this order.
std::string part_name(std::uint64_t bytes, int parts, std::uint64_t offset, std::uint64_t length);

}  // namespace lockstep::analysis
