// Names for NVIDIA's profilers (NVTX): in Nsight Systems, regions and operations have the same names as in our own
// traces. Without a profiler, a range costs a few nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/devices/cuda/event.hpp"

namespace lockstep::cuda {

/// A range that may end on another fiber or thread, since ranges of ranks that share a process overlap. `rank` is its
/// category, `bytes` its payload (kPhase: none).
class Range {
 public:
  Range(const char* name, int rank, std::size_t bytes);
  Range(Range&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Range& operator=(Range&&) = delete;
  ~Range();

 private:
  std::uint64_t id_ = 0;
};

/// Range while the host gives an operation to the GPU: on one thread, nested.
class OperationRange {
 public:
  explicit OperationRange(const char* name);
  OperationRange(const OperationRange&) = delete;
  ~OperationRange();
};

/// A region open on a queue: its start, and its name for a profiler.
struct OpenRegion {
  Event begin;
  Range range;
};

}  // namespace lockstep::cuda
