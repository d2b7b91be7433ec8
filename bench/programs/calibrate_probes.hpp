// The points that ./lab calibrate measures.
#pragma once

#include <string_view>

#include "bench/support/calibration.hpp"
#include "bench/support/measure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {

inline bool simulated() { return time_is_virtual(); }
inline bool on_gpu() {
  return std::string_view(backend_name()) == "cuda" || std::string_view(backend_name()) == "nccl";
}

/// Returns the points to be measured on this backend, without their seconds.
Readings planned_readings();

/// Measures all points in passes until each point's passes agree, or for at most `most` passes. The slowest rank counts
/// in each pass, then the median of the passes.
Readings measured_readings(const RunOptions& options, int most);

}  // namespace lockstep::bench
