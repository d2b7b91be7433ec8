// Tells whether measured times are meaningful for scaling.
#pragma once

#include "common/runtime/run.hpp"

namespace lockstep {

/// True if time is virtual or emulated, or if each rank has a core of its own. Ranks that share cores or a GPU are not
/// a larger machine, so no efficiency is computed for them.
inline bool has_cores(const RunOptions& options) {
  return options.emulate || options.ranks == 1 || has_core_each(options.ranks);
}

}  // namespace lockstep
