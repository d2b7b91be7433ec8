// Names for NVIDIA's profilers (NVTX): while Nsight Systems watches, regions and operations bear the names that our own
// traces have. When nobody watches, a range costs a few nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/devices/cuda/event.hpp"

namespace lockstep::cuda {

/// Between here and its end, which another fiber or thread may see: ranges of ranks that share a process overlap.
/// `rank` is the range's category, `bytes` its payload (kPhase: none).
class Range {
 public:
  Range(const char* name, int rank, std::size_t bytes);
  Range(Range&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Range& operator=(Range&&) = delete;
  ~Range();

 private:
  std::uint64_t id_ = 0;
};

/// While the host gives an operation to the GPU: one thread, nested.
class OperationRange {
 public:
  explicit OperationRange(const char* name);
  OperationRange(const OperationRange&) = delete;
  ~OperationRange();
};

/// A region that is open on a queue: where it began, and its name for a profiler.
struct OpenRegion {
  Event begin;
  Range range;
};

}  // namespace lockstep::cuda
