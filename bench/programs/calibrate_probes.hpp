// The points that ./lab calibrate measures.
#pragma once

#include "bench/support/calibration.hpp"
#include "bench/support/measure.hpp"

namespace lockstep::bench {

/// Returns the points to be measured on this backend, without their seconds.
Readings planned_readings();

/// Measures all points in passes until each point's passes agree, or for at most `most` passes. The slowest rank counts
/// in each pass, then the median of the passes.
Readings measured_readings(const RunOptions& options, int most);

}  // namespace lockstep::bench
