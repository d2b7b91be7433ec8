// What ./lab calibrate measures, point by point.
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

/// The points to be measured on this backend, without their seconds.
Readings planned_readings();

/// Measures them all, pass after pass through all points, until those of every point agree or `most` passes are over.
/// Of each pass the slowest rank counts, of the passes the median.
Readings measured_readings(const RunOptions& options, int most);

}  // namespace lockstep::bench
