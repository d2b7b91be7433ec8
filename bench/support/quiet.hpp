// Checks that the computer was quiet during a measurement: in the calibrated state, and in the same state throughout.
#pragma once

#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/support/json/quiet.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::bench {

/// Sets the expected times of the probes to those of the calibration's tables (which may be empty).
void expect_probes(Plan& plan, const MeasuredPrices& calibrated);

/// True if the probes took as long as in the tables, and the same throughout.
bool is_quiet(const MeasuredPrices& calibrated, const Probes& probes);

/// Adds to the row: the number of turns left out, the drift of the run's probes, their difference from the
/// calibration's tables (which may be empty), and whether these are small.
void set_quiet(Row& row, const MeasuredPrices& calibrated, const RunOptions& options, const Probes& probes);

/// Returns a sentence about the rows that were not quiet; empty if there are none. Rows of one run are all emulated, or
/// none is.
std::string what_was_not_quiet(const std::vector<Row>& rows);

}  // namespace lockstep::bench
