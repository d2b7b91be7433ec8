// Whether the computer was quiet while something was measured: as it was when it was calibrated, and the same
// throughout.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::bench {

inline const Row::Value* find(const Row& row, std::string_view name) {
  for (const Row::Field& field : row.fields())
    if (field.name == name) return &field.value;
  return nullptr;
}

/// A number of the row; NaN where it has none of that name.
inline double number(const Row& row, std::string_view name) {
  const Row::Value* value = find(row, name);
  return value && std::holds_alternative<double>(*value) ? std::get<double>(*value) : std::nan("");
}

/// What the calibration's tables (which may be empty) say that the probes take.
void expect_probes(Plan& plan, const MeasuredPrices& calibrated);

/// Whether the probes took what the tables say, and the same throughout.
bool is_quiet(const MeasuredPrices& calibrated, const Probes& probes);

/// Into the row: how many turns were left out, how far the run's probes drifted, how far they are from the
/// calibration's tables (which may be empty), and whether that is little.
void set_quiet(Row& row, const MeasuredPrices& calibrated, const RunOptions& options, const Probes& probes);

/// A sentence about the rows that were not quiet; empty where there are none.
std::string what_was_not_quiet(const std::vector<Row>& rows);

}  // namespace lockstep::bench
