// Tells if a computer was quiet during an emulated run, whose delays are the same each time.
#pragma once

#include "common/support/json/results.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep {

/// Width of the median's 95% interval: its upper end over the lower, − 1.
inline double spread_of(const Median& emulated) { return emulated.high / emulated.low - 1; }

inline bool is_quiet(const Median& emulated) { return spread_of(emulated) <= 0.1; }

inline void set_quiet(Row& row, const Median& emulated) {
  row.set("spread", spread_of(emulated)).set("quiet", is_quiet(emulated));
}

}  // namespace lockstep
